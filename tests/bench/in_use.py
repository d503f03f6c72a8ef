"""Memory that a process uses, by the books of its allocators. What it holds of the system's is more: what was used."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
import tempfile


class _MallInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc's malloc.h."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def of_python() -> int:
    """Bytes in use by the books of Python's own allocator, which has what is not above 512 bytes."""
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as reported:
        os.dup2(reported.fileno(), 2)  # it says so there, and nowhere else
        try:
            sys._debugmallocstats()
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
        reported.seek(0)
        (found,) = re.findall(rb"bytes in allocated blocks *= *([0-9,]+)", reported.read())
    return int(found.replace(b",", b""))


def of_malloc() -> int:
    """Bytes in use by the books of malloc, which has the rest. Exact where threads keep none of what is freed."""
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _MallInfo
    found = library.mallinfo2()
    return int(found.uordblks + found.hblkhd)


def give_back() -> None:
    """What waits for the garbage collector is freed, and what malloc holds of free pages goes back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
