"""What a local session of Spark is started with; no session is."""

from __future__ import annotations

import os
import pwd

import pytest

from snapkafka.assembly.spark import session
from snapkafka.errors import DependencyMissingError

GB = 1 << 30


@pytest.mark.parametrize(("limit", "heap"), [(24, 2048), (3, 1024)])
def test_the_heap_fits_into_the_memory_that_there_is(
    monkeypatch: pytest.MonkeyPatch, limit: int, heap: int
) -> None:
    monkeypatch.setattr(session, "memory_bytes", lambda: limit * GB)
    assert session.heap_bytes() >> 20 == heap


def test_a_user_without_a_name_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless(uid: int) -> None:
        raise KeyError(uid)

    session.require_user_name()
    monkeypatch.setattr(pwd, "getpwuid", nameless)
    with pytest.raises(DependencyMissingError, match=f"{os.getuid()}") as raised:
        session.require_user_name()
    assert "runAsUser" in raised.value.hint
