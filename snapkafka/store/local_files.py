"""Files in a local directory (or one that is mounted on all machines that need it).

`remote_files` has the same functions for object storage. Errors are those of the file system or of the library: `Store`
gives them their words.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from snapkafka.runtime.machine import expand_home

PIECE_BYTES: Final = 1 << 20
#: In the name of a file that is still being written.
UNFINISHED: Final = ".tmp-"


class Info(NamedTuple):
    """A file: its path, its size in bytes, and when it was written, in seconds since 1970."""

    path: str
    bytes: int
    written: float


class LocalFiles:
    """The files below a directory."""

    #: Whether many clients that begin at the same moment can be too many for it.
    shared: ClassVar = False
    #: What reading and writing raise.
    errors: ClassVar[tuple[type[Exception], ...]] = (OSError,)

    def __init__(self, root: Path) -> None:
        self._root = expand_home(root).absolute()

    @property
    def uri(self) -> str:
        return self._root.as_uri()

    def __str__(self) -> str:
        return str(self._root)

    def place(self, path: str) -> str:
        """Return the place of a path, as DuckDB, pandas and people take it."""
        return str(self._root / path)

    def filesystem(self) -> Any:
        """Return the fsspec file system that opens its places for DuckDB; None: DuckDB does so itself."""
        return None

    def read(self, path: str) -> tuple[bytes, Any] | None:
        """Return the content of a file, and its version; None: it does not exist."""
        with (
            contextlib.suppress(FileNotFoundError, IsADirectoryError),
            (self._root / path).open("rb") as file,
        ):
            return file.read(), _version(os.fstat(file.fileno()))
        return None

    def pieces(self, path: str) -> Iterator[bytes]:
        with (self._root / path).open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece

    def size(self, path: str) -> int | None:
        file = self._root / path
        return file.stat().st_size if file.is_file() else None

    def list(self, folder: str, *, deep: bool = True) -> Sequence[Info]:
        place, found = self._root / folder, list[Info]()
        within = place.rglob("*") if deep else place.iterdir()
        for file in [place] if place.is_file() else within:
            with contextlib.suppress(FileNotFoundError):
                if file.is_file() or file.is_symlink():
                    status = file.stat() if file.is_file() else file.lstat()
                    path = file.relative_to(self._root).as_posix()
                    found.append(Info(path, status.st_size, status.st_mtime))
        return sorted(found)

    def write(self, path: str, content: bytes) -> None:
        """Write a file; it appears whole, or not at all."""
        place = self._root / path
        new = place.with_name(f"{place.name}{UNFINISHED}{uuid.uuid4().hex}")
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with new.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())  # a manifest that survives a crash of the machine names files that do
            new.replace(place)
        finally:
            new.unlink(missing_ok=True)

    def swap(self, path: str, content: bytes, version: Any | None) -> bool:
        """Put a file where this version of it is, or, without a version, where there is none; False: there is another
        one by now."""
        self._root.mkdir(parents=True, exist_ok=True)
        lock, file = os.open(self._root, os.O_RDONLY), self._root / path
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            if (_version(file.stat()) if file.is_file() else None) != version:
                return False
            self.write(path, content)
        finally:
            os.close(lock)
        return True

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files, and the folders that are empty then."""
        for path in paths:
            (self._root / path).unlink(missing_ok=True)
        for folder in sorted({folder for path in paths for folder in Path(path).parents[:-1]}, reverse=True):
            with contextlib.suppress(OSError):  # it is not empty, or somebody else has removed it
                (self._root / folder).rmdir()


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_mtime_ns, status.st_size
