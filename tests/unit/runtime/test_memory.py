"""The memory of a container is its limit, not the machine's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from snapkafka.runtime import machine

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("536870912", 1 << 29), ("max", MACHINE), ("9223372036854771712", MACHINE), (None, MACHINE)],
)
def test_the_least_limit_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, expected: int
) -> None:
    monkeypatch.setattr(machine, "LIMITS", (tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes"))
    if text is not None:
        machine.LIMITS[1].write_text(f"{text}\n")
    assert machine.memory_bytes() == expected
