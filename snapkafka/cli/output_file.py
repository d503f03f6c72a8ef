"""Files that a command writes for its user."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from snapkafka.errors import OutputError


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that readers find either the old one or the new one, and an error leaves the old one.
    Who may read it stays as it is.

    Raises:
        OutputError: it cannot be written.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        if path.exists() and not path.is_file():  # a terminal, or a pipe, which has no path to resolve
            path.write_bytes(data)
            return
        target = path.resolve()  # the file that a link leads to is written, and the link stays
        unfinished = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            unfinished.touch()
            if target.exists():
                shutil.copymode(target, unfinished)
            unfinished.write_bytes(data)
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from error
