"""The files of a storage, by their paths in it: a directory (`LocalFiles`), or object storage (`RemoteFiles`).

Errors are those of the file system or of the library: `Store` gives them their words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import IO, Any, NamedTuple


class Info(NamedTuple):
    """A file: its path, its size in bytes, and when it was written, in seconds since 1970."""

    path: str
    bytes: int
    written: float


class Files(ABC):
    """The files of a storage."""

    #: Whether many clients that begin at the same moment can be too many for it.
    shared: bool
    #: What reading and writing raise.
    errors: tuple[type[Exception], ...]

    @property
    @abstractmethod
    def uri(self) -> str:
        """The storage as the ledger and manifests of others may name it."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the storage as people read it."""

    @abstractmethod
    def place(self, path: str) -> str:
        """Return the place of a path, as DuckDB, pandas and people take it."""

    @abstractmethod
    def filesystem(self) -> Any:
        """Return the fsspec file system that opens its places for DuckDB; None: DuckDB does so itself."""

    @abstractmethod
    def read(self, path: str) -> tuple[bytes, Any] | None:
        """Return the content of a file, and its version; None: it does not exist."""

    @abstractmethod
    def pieces(self, path: str) -> Iterator[bytes]:
        """Read a large file piece by piece."""

    @abstractmethod
    def size(self, path: str) -> int | None:
        """Return the size of a file, in bytes; None: it does not exist."""

    @abstractmethod
    def list(self, folder: str, *, deep: bool = True) -> Sequence[Info]:
        """List the files in a folder.

        Args:
            deep: also those in folders below.
        """

    @abstractmethod
    def writing(self, path: str) -> AbstractContextManager[IO[bytes]]:
        """Provide a file that appears whole when the block has ended, or not at all."""

    @abstractmethod
    def swap(self, path: str, content: bytes, version: Any | None) -> bool:
        """Put a file where this version of it is, or, without a version, where there is none; False: there is another
        one by now."""

    @abstractmethod
    def delete(self, paths: Sequence[str]) -> None:
        """Delete files, and the folders that are empty then."""
