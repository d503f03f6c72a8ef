"""What a local session of Spark is started with; no session is."""

from __future__ import annotations

import pytest

from snapkafka.assembly.spark import session

GB = 1 << 30


@pytest.mark.parametrize(("limit", "heap"), [(24, 2048), (3, 1024)])
def test_the_heap_fits_into_the_memory_that_there_is(
    monkeypatch: pytest.MonkeyPatch, limit: int, heap: int
) -> None:
    monkeypatch.setattr(session, "memory_bytes", lambda: limit * GB)
    assert session.heap_bytes() >> 20 == heap
