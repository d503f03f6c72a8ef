"""Snapshots in a local directory (or one that is mounted on all machines that need it).

A snapshot exists once its manifest does: it is written last and appears whole, by a rename. Tables are written beside
their place and moved there before it, so a process that is killed half-way leaves a folder that no manifest names. The
next assembly of the same snapshot removes it: a folder in use is locked by its writer, and a lock ends with its
process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedIOBase
from pathlib import Path

from snapkafka.errors import StorageError
from snapkafka.manifest import Manifest, TableEntry, dump, file_stem
from snapkafka.runtime.homes import expand_home

from . import removal
from .base import Folder, Hashed, Leftover, Store, manifest_name, same_rows
from .locks import UNFINISHED, UNFINISHED_NAME, locked


def spark_uri(place: Path) -> str:
    """Return a local place as Spark takes it: unlike other readers of URIs, it knows no escapes (`%20`)."""
    return f"file://{place}"


class LocalStore(Store):
    """Manifests and tables under one directory."""

    scheme = "file"

    def __init__(self, root: Path) -> None:
        self.root = expand_home(root).absolute()

    @property
    def uri(self) -> str:
        return self.root.as_uri()

    def __str__(self) -> str:
        return str(self.root)

    def _try(self) -> None:
        probe = self.root / f"{UNFINISHED}{uuid.uuid4().hex}"
        with self._errors("written"):
            self.root.mkdir(parents=True, exist_ok=True)
            probe.mkdir()
            probe.rmdir()

    # -- reading ----------------------------------------------------------------------------------------------

    def place(self, path: str) -> str:
        return str(self.root / path)

    def spark_uri(self, path: str) -> str:
        return spark_uri(self.root / path)

    def manifest_path(self, snapshot_id: str) -> Path:
        return self.root / manifest_name(snapshot_id)

    def text(self, name: str) -> str | None:
        path = self.root / name
        with self._errors("read"):
            return path.read_text(encoding="utf-8") if path.is_file() else None

    def texts(self) -> dict[str, str]:
        if not self.root.is_dir():
            raise StorageError(f"storage {self.root} is not a directory", hint="check --storage")
        found = {}
        with self._errors("read"):
            for path in sorted(self.root.glob("*.json")):
                with contextlib.suppress(FileNotFoundError, IsADirectoryError, UnicodeDecodeError):
                    found[path.name] = path.read_text(encoding="utf-8")
        return found

    def size(self, path: str) -> int | None:
        file = self.root / path
        with self._errors("read"):
            return file.stat().st_size if file.is_file() else None

    def sizes(self, table: TableEntry) -> Mapping[str, int]:
        sizes = {file.path: self.size(file.path) for file in table.files}
        return {path: size for path, size in sizes.items() if size is not None}

    def open(self, path: str) -> BufferedIOBase:
        with self._errors("read"):
            return (self.root / path).open("rb")

    def files_of(self, manifest: Manifest) -> Sequence[str]:
        folders = {file_stem(manifest.id), *(table.path for table in manifest.tables)}
        with self._errors("read"):
            found = {path for folder in folders for path in (self.root / folder).rglob("*")}
            return sorted(path.relative_to(self.root).as_posix() for path in found if not path.is_dir())

    # -- writing ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def staging(self, snapshot_id: str) -> Iterator[Path]:
        """Provide a folder for tables. It is removed after the block, unless `publish` has moved it to its place.

        Remainders of killed assemblies of the same snapshot are removed.

        Raises:
            StorageError: it cannot be created.
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
        """Remove folders that no process writes any more."""
        for left in self.root.iterdir():
            unfinished = UNFINISHED_NAME.fullmatch(left.name)
            if unfinished is not None and unfinished[1] in (stem, f"{stem}.json"):
                with contextlib.suppress(OSError), locked(left, wait=False):
                    shutil.rmtree(left) if left.is_dir() else left.unlink()

    def put(self, staged: Folder, path: str, content: bytes) -> None:
        assert isinstance(staged, Path), "from `staging`"
        with self._errors("written"):
            (staged / path).parent.mkdir(parents=True, exist_ok=True)
            (staged / path).write_bytes(content)

    def publish(self, manifest: Manifest, staged: Folder, *, hashed: Hashed | None = None) -> Manifest:
        """Move tables to their place, then write the manifest that names them.

        If it was assembled before with the same rows, the existing tables stay, for their present readers. With other
        rows, or if a file has changed, the old manifest is removed first: at no time does a manifest name tables that
        are not its own. Two concurrent publications run one after the other.

        Returns:
            the manifest as it was written.

        Raises:
            StorageError: the directory cannot be written.
        """
        assert isinstance(staged, Path), "from `staging`"
        path, tables = self.manifest_path(manifest.id), self.root / file_stem(manifest.id)
        with self._errors("written"), locked(self.root):
            there = self._same_rows(manifest, hashed)
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

    def _same_rows(self, manifest: Manifest, hashed: Hashed | None) -> Manifest | None:
        try:
            return same_rows(self, self.text(manifest_name(manifest.id)) or "", manifest, hashed)
        except UnicodeDecodeError:
            return None

    # -- removing ---------------------------------------------------------------------------------------------

    def bytes_of(self, manifest: Manifest) -> int:
        with self._errors("read"):
            return removal.bytes_of(self.root, manifest)

    def foreign_files(self, manifest: Manifest) -> Sequence[str]:
        with self._errors("read"):
            return removal.foreign_files(self.root, manifest)

    def remove(self, manifest: Manifest) -> None:
        with self._errors("written"):
            removal.remove(self.root, manifest)

    def leftovers(self, *, older_than_s: float) -> Sequence[Leftover]:
        with self._errors("read"):
            return removal.leftovers(self.root, older_than_s=older_than_s)

    def clear(self, leftover: Leftover) -> None:
        with self._errors("written"):
            removal.clear(self.root, leftover)

    @contextlib.contextmanager
    def _errors(self, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise StorageError(f"storage {self.root} cannot be {done}: {reason}") from error


def _write_whole(path: Path, text: str) -> None:
    """Write a file so that it appears whole or not at all, and survives a crash of the machine once it has appeared."""
    new = path.with_name(f"{path.name}{UNFINISHED}{uuid.uuid4().hex}")
    try:
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
