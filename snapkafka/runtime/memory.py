"""The memory that this process may use: the machine's, or less in a container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CGROUPS: Final = Path("/sys/fs/cgroup")
OWN: Final = Path("/proc/self/cgroup")


def memory_bytes(cgroups: Path = CGROUPS, own: Path = OWN) -> int:
    """Return the least of the machine's memory and the limits of this process's control groups (version 1 or 2)."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min((machine, *_limits(cgroups, own)))


def _limits(cgroups: Path, own: Path) -> Iterator[int]:
    try:
        lines = own.read_text().splitlines()
    except OSError:  # no Linux
        lines = []
    paths = ["/"]  # in a container its own group is often the root that it sees
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            paths += [path, *map(str, Path(path).parents)]
    for folder, name in ((cgroups, "memory.max"), (cgroups / "memory", "memory.limit_in_bytes")):
        for path in paths:
            try:
                text = (folder / path.lstrip("/") / name).read_text().strip()
            except OSError:
                continue
            if text.isdecimal():  # else "max"
                yield int(text)
