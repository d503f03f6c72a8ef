"""Snapshots in a local directory (or one that is mounted on all machines that need it).

The manifest is what makes a snapshot: it is written last and appears whole, by a rename. Tables are written beside
their place and moved there before it, so whoever is killed half-way leaves a folder that no manifest names. The next
one of the same snapshot takes it away: a folder in use is locked by its writer, and a lock ends with its process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from snapkafka.errors import BadInputError, StorageError, UnknownSnapshotError
from snapkafka.manifest import Column, Manifest, TableEntry, dump, file_stem, load

__all__ = ["LocalStore", "open_store"]

#: In the name of every folder that is still being written; `list` and readers of tables never look into these.
UNFINISHED: Final = ".tmp-"
#: Our own names of what is unfinished, and of what; `old.tmp-backup` is somebody else's.
UNFINISHED_NAME: Final = re.compile(rf"(.*){re.escape(UNFINISHED)}[0-9a-f]{{32}}", re.DOTALL)


def open_store(uri: str) -> LocalStore:
    """The store at a URI or path.

    Raises:
        StorageError: it is no place that this release can write to.
    """
    parts = urlsplit(uri)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise StorageError(
                f"{uri} is on another machine ({parts.netloc})", hint="file:///a/path has three slashes"
            )
        return LocalStore(Path(unquote(parts.path)))
    if "://" in uri:
        raise StorageError(
            f"storage {uri}: {parts.scheme} is not supported yet", hint="give a directory or a file:// URI"
        )
    if not uri:
        raise StorageError("no storage is given", hint="add --storage DIR, here or with the trigger")
    return LocalStore(Path(uri))


class LocalStore:
    """Manifests and tables under one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().absolute()

    @property
    def uri(self) -> str:
        return self.root.as_uri()

    def check_writable(self) -> None:
        """Make the directory and try it.

        Raises:
            StorageError: it cannot be made or written.
        """
        probe = self.root / f"{UNFINISHED}{uuid.uuid4().hex}"
        with self._errors("written"):
            self.root.mkdir(parents=True, exist_ok=True)
            probe.mkdir()
            probe.rmdir()

    # -- reading ----------------------------------------------------------------------------------------------

    def manifest_path(self, snapshot_id: str) -> Path:
        return self.root / f"{file_stem(snapshot_id)}.json"

    def read(self, snapshot_id: str) -> Manifest:
        """The manifest of a snapshot.

        Raises:
            UnknownSnapshotError: there is none of that id.
            BadInputError: there is a file, and it is no manifest.
            StorageError: it cannot be read.
        """
        path = self.manifest_path(snapshot_id)
        if not path.is_file():
            raise UnknownSnapshotError(f"no snapshot {snapshot_id} in {self.root}")
        with self._errors("read"):
            return load(path.read_text(encoding="utf-8"), where=str(path))

    def list(self) -> list[Manifest]:
        """Every snapshot that is whole, oldest first (by epoch); other files are none of ours."""
        found = []
        for name, text in self.texts().items():
            with contextlib.suppress(BadInputError):
                found.append(load(text, where=name))
        return sorted(found, key=lambda manifest: (manifest.namespace, manifest.epoch))

    def texts(self) -> dict[str, str]:
        """Every file that may be a manifest, by its name, as it is written: also those of a later release."""
        found = {}
        with self._errors("read"):
            for path in sorted(self.root.glob("*.json")) if self.root.is_dir() else ():
                with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
                    found[path.name] = path.read_text(encoding="utf-8")
        return found

    def require_files(self, table: TableEntry) -> None:
        """Refuse a table whose files are not there in their sizes.

        Raises:
            StorageError: naming the first one that is not.
        """
        for file in table.files:
            path = self.root / file.path
            with self._errors("read"):
                size = path.stat().st_size if path.is_file() else -1
            if size < 0:
                raise StorageError(f"file {path} is gone")
            if size != file.bytes:
                raise StorageError(
                    f"file {path} has {size:,} bytes, and had {file.bytes:,} when it was written"
                )

    # -- writing ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def staging(self, snapshot_id: str) -> Iterator[Path]:
        """A folder to write tables into. It is gone after the block, unless `publish` has moved it to its place.

        What others have left behind who were killed at the same snapshot is taken away.

        Raises:
            StorageError: it cannot be made.
        """
        folder = self.root / f"{file_stem(snapshot_id)}{UNFINISHED}{uuid.uuid4().hex}"
        with contextlib.ExitStack() as held:
            with self._errors("written"):
                self.root.mkdir(parents=True, exist_ok=True)
                with locked(self.root):
                    self._clear_away(file_stem(snapshot_id))
                    folder.mkdir()
                    held.enter_context(locked(folder))
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def _clear_away(self, stem: str) -> None:
        """Remove what nobody writes any more."""
        for left in self.root.iterdir():
            unfinished = UNFINISHED_NAME.fullmatch(left.name)
            if unfinished is not None and unfinished[1] in (stem, f"{stem}.json"):
                with contextlib.suppress(OSError), locked(left, wait=False):
                    shutil.rmtree(left) if left.is_dir() else left.unlink()

    def publish(self, manifest: Manifest, staged: Path) -> Manifest:
        """Move tables to their place, then write the manifest that names them.

        Assembled again with the same rows, the tables that are there stay, for whoever reads them right now. With
        other rows, the old manifest goes first: at no time does a manifest name tables that are not its own. Two who
        publish at once do so one after the other.

        Returns:
            the manifest as it was written.

        Raises:
            StorageError: the directory cannot be written.
        """
        path, tables = self.manifest_path(manifest.id), self.root / file_stem(manifest.id)
        with self._errors("written"), locked(self.root):
            there = self._same_rows(path, manifest)
            if there is not None:
                manifest = dataclasses.replace(manifest, tables=there.tables)
            else:
                path.unlink(missing_ok=True)
                if tables.exists():
                    old = self.root / f"{tables.name}{UNFINISHED}{uuid.uuid4().hex}"
                    tables.rename(old)
                    shutil.rmtree(old, ignore_errors=True)
                staged.rename(tables)
            _write_whole(path, dump(manifest))
        return manifest

    def _same_rows(self, path: Path, manifest: Manifest) -> Manifest | None:
        """The manifest that is there, if its tables are, and hold the same rows in the same columns."""
        try:
            there = load(path.read_text(encoding="utf-8"))
            for table in there.tables:
                self.require_files(table)
        except (FileNotFoundError, BadInputError, UnicodeDecodeError, StorageError):
            return None
        return there if there.content == manifest.content and _columns(there) == _columns(manifest) else None

    @contextlib.contextmanager
    def _errors(self, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise StorageError(f"storage {self.root} cannot be {done}: {reason}") from error


def _columns(manifest: Manifest) -> dict[str, tuple[Column, ...]]:
    return {table.name: table.schema for table in manifest.tables}


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


def _write_whole(path: Path, text: str) -> None:
    """Write a file so that it is seen whole or not at all, and survives a crash of the machine once it is seen."""
    new = path.with_name(f"{path.name}{UNFINISHED}{uuid.uuid4().hex}")
    try:
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
