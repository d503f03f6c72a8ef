"""Unfinished files in a local directory: their names, and the locks that distinguish them from remainders."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

#: In the name of every folder that is still being written; `list` and readers of tables ignore these.
UNFINISHED: Final = ".tmp-"
#: Our own names of what is unfinished, and of what; `old.tmp-backup` is somebody else's.
UNFINISHED_NAME: Final = re.compile(rf"(.*){re.escape(UNFINISHED)}[0-9a-f]{{32}}", re.DOTALL)


@contextlib.contextmanager
def locked(place: Path, *, wait: bool = True) -> Iterator[None]:
    """Lock a file or folder for the length of the block; the lock ends with the process as well.

    If the file system has no locks, nothing is locked; without `wait` that is an `OSError`, as is another's lock.
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
