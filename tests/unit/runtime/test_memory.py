"""The memory of a container is its limit, not the machine's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from snapkafka.runtime.memory import memory_bytes

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MB = 1 << 20


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/", {"memory.max": str(512 * MB)}, 512 * MB),  # version 2, seen from inside
        ("0::/", {"memory.max": "max"}, MACHINE),
        ("0::/pods/one", {"pods/one/memory.max": "max", "pods/memory.max": str(256 * MB)}, 256 * MB),
        ("5:memory:/docker/x", {"memory/memory.limit_in_bytes": str(700 * MB)}, 700 * MB),  # version 1
        ("5:memory:/docker/x", {"memory/docker/x/memory.limit_in_bytes": str(64 * MB)}, 64 * MB),
        ("5:memory:/", {"memory/memory.limit_in_bytes": "9223372036854771712"}, MACHINE),  # none
        ("", {}, MACHINE),
    ],
)
def test_the_least_limit_counts(tmp_path: Path, own: str, files: dict[str, str], expected: int) -> None:
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    (tmp_path / "own").write_text(own + "\n" if own else "")
    assert memory_bytes(tmp_path / "cgroup", tmp_path / "own") == expected


def test_where_there_are_no_control_groups_it_is_the_machines(tmp_path: Path) -> None:
    assert memory_bytes(tmp_path, tmp_path / "none") == MACHINE
