"""The memory that this process may use: the machine's, or less in a container."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

#: What a container sees of its own control group: version 2, or 1.
LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def memory_bytes() -> int:
    """Return the least of the machine's memory and the limit of this container."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in LIMITS:
        if limit.exists() and (text := limit.read_text().strip()).isdecimal():  # else "max"
            found.append(int(text))
    return min(found)
