"""Describe what is still being written in a local directory: how it is called, and how it is distinguished from what
was left behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["UNFINISHED", "UNFINISHED_NAME", "locked"]

#: In the name of every folder that is still being written; `list` and readers of tables never look into these.
UNFINISHED: Final = ".tmp-"
#: Our own names of what is unfinished, and of what; `old.tmp-backup` is somebody else's.
UNFINISHED_NAME: Final = re.compile(rf"(.*){re.escape(UNFINISHED)}[0-9a-f]{{32}}", re.DOTALL)


@contextlib.contextmanager
def locked(place: Path, *, wait: bool = True) -> Iterator[None]:
    """The lock on a file or folder, for the length of the block; it ends with the process as well.

    Where the file system has no locks nobody is kept out; without `wait` that is an `OSError`, as another's lock is.
    """
    opened = os.open(place, os.O_RDONLY)
    try:
        if wait:
            with contextlib.suppress(OSError):
                fcntl.flock(opened, fcntl.LOCK_EX)
        else:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)
