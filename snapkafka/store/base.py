"""The interface of every storage; `LocalStore` and `ObjectStore` are the two kinds.

Paths are those of manifests: relative to the storage, with `/` between their parts.
"""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import file_digest
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Final, TypeAlias

from snapkafka.errors import BadInputError, StorageError, UnknownSnapshotError
from snapkafka.manifest import Column, FileEntry, Manifest, TableEntry, file_stem, load

#: No assembly works on its tables for so long without writing any of them.
LEFTOVER_AFTER_S: Final = 86_400.0
#: Spark takes what it reads for a pattern, though not what it writes.
_PATTERN: Final = re.compile(r"[][{}*?\\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFolder:
    """A folder for tables that is not moved: its `path`, and its `uri` as Spark takes it."""

    path: str
    uri: str


#: Where the tables of one assembly are written.
Folder: TypeAlias = Path | RemoteFolder
#: Finds what lies where the files of a snapshot lie, with digests.
Hashed: TypeAlias = Callable[[Manifest], Iterable[FileEntry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A remainder of a killed assembly or removal: its name in the storage, and its size."""

    name: str
    bytes: int


class Store(ABC):
    """Manifests and tables in one place. Every failure to read or write is a `StorageError`."""

    #: The file system: `file`, `s3a` and so on, as Spark names it.
    scheme: str

    @property
    @abstractmethod
    def uri(self) -> str:
        """The storage as the ledger and manifests of others may name it."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the storage as people read it."""

    def check_writable(self) -> None:
        """Create the storage if that is possible, and try to write.

        Raises:
            StorageError: it cannot be created or written, or Spark could not read there what it wrote.
        """
        if found := _PATTERN.search(str(self)):
            raise StorageError(
                f"storage {self} has {found[0]} in its path, which Spark reads as a pattern",
                hint="name a place without any of [ ] { } * ? \\",
            )
        self._try()

    @abstractmethod
    def _try(self) -> None:
        """Create the storage if that is possible; write something and remove it."""

    # -- reading ----------------------------------------------------------------------------------------------

    @abstractmethod
    def place(self, path: str) -> str:
        """Return the place of a path, as DuckDB, pandas and people take it."""

    @abstractmethod
    def spark_uri(self, path: str) -> str:
        """Return the place of a path, as Spark takes it."""

    @abstractmethod
    def text(self, name: str) -> str | None:
        """Return the text of a file of the storage itself; None: it does not exist.

        Raises:
            UnicodeDecodeError: it is not text.
        """

    @abstractmethod
    def texts(self) -> dict[str, str]:
        """Return every file that may be a manifest, by its name, as it is written: also those of a later release."""

    @abstractmethod
    def size(self, path: str) -> int | None:
        """Return the size of a file, in bytes; None: it does not exist."""

    @abstractmethod
    def sizes(self, table: TableEntry) -> Mapping[str, int]:
        """Return the sizes of the existing files of a table, in bytes."""

    @abstractmethod
    def open(self, path: str) -> BufferedIOBase:
        """Open a file for reading."""

    def sha256(self, path: str) -> str:
        """Compute the SHA-256 of a file, read piece by piece."""
        with self.open(path) as file:
            return file_digest(file, "sha256").hexdigest()

    @abstractmethod
    def files_of(self, manifest: Manifest) -> Sequence[str]:
        """List the files in the folder of a snapshot, named by its manifest or not; without those that another
        assembly of it has left, or is writing."""

    @property
    def filesystem(self) -> Any:
        """The fsspec file system that opens its places for DuckDB; None: DuckDB does so itself."""
        return None

    def manifest_place(self, snapshot_id: str) -> str:
        return self.place(manifest_name(snapshot_id))

    def has(self, snapshot_id: str) -> bool:
        """Return whether there is a manifest."""
        return self.size(manifest_name(snapshot_id)) is not None

    def read(self, snapshot_id: str) -> Manifest:
        """Read the manifest of a snapshot.

        Raises:
            UnknownSnapshotError: there is no snapshot with that id.
            BadInputError: there is a file, but it is not a manifest.
            StorageError: it cannot be read.
        """
        place = self.manifest_place(snapshot_id)
        try:
            text = self.text(manifest_name(snapshot_id))
        except UnicodeDecodeError as error:
            raise BadInputError(f"invalid manifest {place}: {error}") from error
        if text is None:
            raise UnknownSnapshotError(
                f"snapshot {snapshot_id} is not assembled in {self}",
                hint=f"`snapkafka assemble {snapshot_id}` builds its tables",
            )
        return load(text, where=place)

    def list(self) -> Sequence[Manifest]:
        """List every snapshot with a manifest, oldest first (by epoch); other files are ignored."""
        found = []
        for name, text in self.texts().items():
            with contextlib.suppress(BadInputError):
                found.append(load(text, where=name))
        return sorted(found, key=lambda manifest: (manifest.namespace, manifest.epoch))

    def require_files(self, table: TableEntry) -> None:
        """Refuse a table whose files do not exist in their sizes.

        Raises:
            StorageError: names the first such file.
        """
        sizes = self.sizes(table)
        for file in table.files:
            size, place = sizes.get(file.path), self.place(file.path)
            if size is None:
                raise StorageError(f"file {place} is missing")
            if size != file.bytes:
                raise StorageError(
                    f"file {place} has {size:,} bytes, but had {file.bytes:,} when it was written"
                )

    # -- writing ----------------------------------------------------------------------------------------------

    @abstractmethod
    def staging(self, snapshot_id: str) -> AbstractContextManager[Folder]:
        """Provide a folder for tables. It is removed after the block, unless `publish` has made it the snapshot's.

        Remainders of killed assemblies of the same snapshot are removed.
        """

    @abstractmethod
    def put(self, staged: Folder, path: str, content: bytes) -> None:
        """Write a file, by its path in a folder of `staging`."""

    @abstractmethod
    def publish(self, manifest: Manifest, staged: Folder, *, hashed: Hashed | None = None) -> Manifest:
        """Make tables and manifest appear together. If it was assembled before with the same rows, the existing tables
        stay, for their present readers; unless one of their files has changed since.

        Args:
            hashed: a faster way to hash all files of a snapshot than to read one after the other.

        Returns:
            the manifest as it was written.
        """

    # -- removing ---------------------------------------------------------------------------------------------

    @abstractmethod
    def bytes_of(self, manifest: Manifest) -> int:
        """Return the number of bytes that a removal would free: of its manifest and its existing files."""

    @abstractmethod
    def foreign_files(self, manifest: Manifest) -> Sequence[str]:
        """List the files in the folder of a snapshot that its manifest does not name."""

    @abstractmethod
    def remove(self, manifest: Manifest) -> None:
        """Remove a snapshot: manifest, then files, so that at no time a manifest names missing tables. Files that its
        manifest does not name stay."""

    @abstractmethod
    def leftovers(self, *, older_than_s: float) -> Sequence[Leftover]:
        """List files and folders that have been unfinished for so long that they cannot be in use any more."""

    @abstractmethod
    def clear(self, leftover: Leftover) -> None:
        """Remove a leftover."""


def manifest_name(snapshot_id: str) -> str:
    """Return the name of its manifest."""
    return f"{file_stem(snapshot_id)}.json"


def same_rows(store: Store, text: str, manifest: Manifest, hashed: Hashed | None) -> Manifest | None:
    """Return the existing manifest, if its tables are as they were written, and hold the same rows in the same
    columns."""
    try:
        there = load(text)
        for table in there.tables:
            store.require_files(table)
    except (BadInputError, StorageError):
        return None
    if there.content != manifest.content or _columns(there) != _columns(manifest):
        return None
    found = _files(store, there) if hashed is None else hashed(there)
    written = [file for table in there.tables for file in table.files]
    return None if first_change(written, found) else there


def _files(store: Store, manifest: Manifest) -> Iterator[FileEntry]:
    for path in store.files_of(manifest):
        yield FileEntry(path=path, bytes=store.size(path) or 0, sha256=store.sha256(path))


def first_change(written: Iterable[FileEntry], found: Iterable[FileEntry]) -> str:
    """Name the first file that differs from what was written, and how; empty: none does."""
    wanted, there = ({file.path: file for file in files} for files in (written, found))
    for path in sorted(wanted.keys() | there.keys()):
        if path not in there:
            return f"{path} is missing"
        if path not in wanted:
            return f"{path} is not one of its files"
        if there[path] != wanted[path]:
            return f"{path} has changed since it was written"
    return ""


def _columns(manifest: Manifest) -> dict[str, tuple[Column, ...]]:
    return {table.name: table.schema for table in manifest.tables}
