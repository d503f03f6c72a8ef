"""Snapshots in a storage: manifests, and the tables that they name.

Each assembly writes its tables into a folder of its own, `<id>/run-<32 hex digits>/`, where they stay; the manifest
names them by their paths, and putting it makes all of them appear at once. So two assemblies of the same snapshot do
not meet before the manifest, and one that is killed half-way leaves files that no manifest names. Only its age
distinguishes a dead writer's folder from a living one's (`leftovers`). The manifest is put under a condition: it only
replaces the one that was read.

Paths are those of manifests: relative to the storage, with `/` between their parts.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from snapkafka.errors import StorageError, UnknownSnapshotError
from snapkafka.manifest import FileEntry, Manifest, dump, file_stem, load

from .local_files import Info, LocalFiles
from .remote_files import RemoteFiles, meaning_of

#: No assembly works on its tables for so long without writing any of them.
LEFTOVER_AFTER_S: Final = 86_400.0
#: Writers that begin at the same moment hit a limit of requests together, and together again when they retry.
JITTER_S: Final = 0.5
#: The folder of one assembly in that of a snapshot; a file of a local storage that is being written.
RUN: Final = re.compile(r"([^/]+/run-[0-9a-f]{32})/.*|([^/]+\.tmp-[0-9a-f]{32})", re.DOTALL)
#: So many manifests, or files, are read at once.
THREADS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A remainder of a killed assembly: its name in the storage, and its size."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A deviation from what was written. `file`: the file, relative to the storage."""

    file: str
    what: str


class Store:
    """Manifests and tables in one place. Every failure to read or write is a `StorageError`."""

    def __init__(self, files: LocalFiles | RemoteFiles) -> None:
        self.files = files

    @property
    def uri(self) -> str:
        """The storage as the ledger and manifests of others may name it."""
        return self.files.uri

    def __str__(self) -> str:
        """Return the storage as people read it."""
        return str(self.files)

    @property
    def filesystem(self) -> Any:
        """The fsspec file system that opens its places for DuckDB; None: DuckDB does so itself."""
        return self.files.filesystem()

    def check_writable(self) -> None:
        """Create the storage if that is possible, and try to write.

        Raises:
            StorageError: it cannot be created or written.
        """
        probe = f"probe.tmp-{uuid.uuid4().hex}"
        with self._errors("written"):
            self.files.write(probe, b"snapkafka")
            self.files.delete([probe])

    # -- reading ----------------------------------------------------------------------------------------------

    def place(self, path: str) -> str:
        """Return the place of a path, as DuckDB, pandas and people take it."""
        return self.files.place(path)

    def manifest_place(self, snapshot_id: str) -> str:
        return self.place(manifest_name(snapshot_id))

    def text(self, name: str) -> str | None:
        """Return the text of a file of the storage itself, of which `load` refuses what is not UTF-8; None: it does not
        exist."""
        with self._errors("read"):
            found = self.files.read(name)
        return None if found is None else _text(found[0])

    def texts(self) -> dict[str, str]:
        """Return every file that may be a manifest, by its name, as it is written: also those of a later release."""
        with self._errors("read"):
            names = [it.path for it in self.files.list("", deep=False) if it.path.endswith(".json")]
            with ThreadPoolExecutor(THREADS) as pool:
                found = zip(names, pool.map(self.files.read, names), strict=True)
                return {name: _text(content[0]) for name, content in found if content is not None}

    def size(self, path: str) -> int | None:
        """Return the size of a file, in bytes; None: it does not exist."""
        with self._errors("read"):
            return self.files.size(path)

    def sha256(self, path: str) -> str:
        """Compute the SHA-256 of a file, read piece by piece."""
        digest = hashlib.sha256()
        with self._errors("read"):
            for piece in self.files.pieces(path):
                digest.update(piece)
        return digest.hexdigest()

    def files_of(self, manifest: Manifest) -> Sequence[str]:
        """List the files in the folder of a snapshot, named by its manifest or not; without those that another
        assembly of it has left, or is writing."""
        runs = {run for path in _named(manifest) if (run := _run(path))}
        there = self._below(file_stem(manifest.id))
        return [info.path for info in there if _run(info.path) in (None, *runs)]

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
        if (text := self.text(manifest_name(snapshot_id))) is None:
            raise UnknownSnapshotError(
                f"snapshot {snapshot_id} is not assembled in {self}",
                hint=f"`snapkafka assemble {snapshot_id}` builds its tables",
            )
        return load(text, where=place)

    def damage(self, files: Iterable[FileEntry], *, hashed: bool = True) -> Sequence[Damage]:
        """List the files that are not as they were written.

        Args:
            hashed: compare their bytes, not their sizes alone.
        """

        def what(file: FileEntry) -> str:
            pure = PurePosixPath(file.path)
            if pure.is_absolute() or ".." in pure.parts:
                return "lies outside of the storage"
            if (size := self.size(file.path)) is None:
                return "is missing"
            if size != file.bytes:
                return f"has {size:,} bytes, and had {file.bytes:,}"
            if hashed and (found := self.sha256(file.path)) != file.sha256:
                return f"has changed: SHA-256 {found}, was {file.sha256}"
            return ""

        files = list(files)
        with ThreadPoolExecutor(THREADS) as pool:
            found = zip(files, pool.map(what, files), strict=True)
            return [Damage(file=file.path, what=text) for file, text in found if text]

    def require_files(self, files: Iterable[FileEntry], *, hashed: bool = False) -> None:
        """Refuse files that are not as they were written.

        Raises:
            StorageError: names the first such file.
        """
        for found in self.damage(files, hashed=hashed):
            place = self.place(found.file)
            raise StorageError(
                f"file {place} {found.what}",
                hint="`snapkafka verify --offline` lists all damage; assemble it again",
                file=place,
            )

    # -- writing ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def staging(self, snapshot_id: str) -> Iterator[str]:
        """Provide a folder for tables. It is removed after the block, unless `publish` has made it the snapshot's.

        Remainders of killed assemblies of the same snapshot are removed.
        """
        stem = file_stem(snapshot_id)
        for left in self.leftovers(stem, older_than_s=LEFTOVER_AFTER_S):
            self.clear(left)
        folder = f"{stem}/run-{uuid.uuid4().hex}"
        try:
            yield folder
        finally:
            with contextlib.suppress(StorageError):  # then it is found when it is old
                if folder not in (self.text(manifest_name(snapshot_id)) or ""):
                    self.clear(Leftover(name=folder, bytes=0))

    def write(self, path: str, content: bytes) -> None:
        """Write a file; it appears whole, or not at all."""
        if self.files.shared:
            time.sleep(random.uniform(0, JITTER_S))
        with self._errors("written"):
            self.files.write(path, content)

    def publish(self, manifest: Manifest, folder: str) -> Manifest:
        """Make tables and manifest appear together. What an assembly of the same snapshot has written before is no part
        of it any more, and stays for its present readers (`leftovers`).

        Args:
            folder: of `staging`. Files in it that the manifest does not name are removed: a task that was done twice
                has left them.

        Raises:
            StorageError: another assembly has published the snapshot meanwhile.
        """
        self._delete({info.path for info in self._below(folder)} - _named(manifest))
        name = manifest_name(manifest.id)
        with self._errors("read"):
            _, version = self.files.read(name) or (b"", None)
        if self.files.shared:
            time.sleep(random.uniform(0, JITTER_S))
        text = dump(manifest)
        with self._errors("written"):
            put = self.files.swap(name, text.encode(), version)
        if not put and self.text(name) != text:  # else an answer was lost, and it was put twice
            raise StorageError(
                f"manifest {self.place(name)} was written by another assembly meanwhile",
                hint="use that one, or run this again once nobody else assembles the snapshot",
            )
        return manifest

    # -- removing ---------------------------------------------------------------------------------------------

    def bytes_of(self, manifest: Manifest) -> int:
        """Return the number of bytes that a removal would free: of its manifest and its existing files."""
        own = self.size(manifest_name(manifest.id)) or 0
        return own + sum(info.bytes for info in self._own(manifest))

    def remove(self, manifest: Manifest) -> None:
        """Remove a snapshot: manifest, then files, so that at no time a manifest names missing tables. Files that its
        manifest does not name stay."""
        own = self._own(manifest)
        self._delete([manifest_name(manifest.id)])
        self._delete(info.path for info in own)

    def leftovers(self, folder: str = "", *, older_than_s: float) -> Sequence[Leftover]:
        """List folders of assemblies that no manifest names, and files that were not completed, that nobody has
        written to for so long that they cannot be in use any more."""
        before, runs = time.time() - older_than_s, dict[str, list[Info]]()
        for info in self._below(folder):
            if run := _run(info.path):
                runs.setdefault(run, []).append(info)
        old = {run: files for run, files in runs.items() if max(info.written for info in files) < before}
        if not old:
            return []
        named = "\n".join(self.texts().values())  # also by what is no manifest of this release
        return [
            Leftover(name=run, bytes=sum(info.bytes for info in files))
            for run, files in sorted(old.items())
            if run.rpartition("/")[2] not in named
        ]

    def clear(self, leftover: Leftover) -> None:
        """Remove a leftover."""
        self._delete(info.path for info in self._below(leftover.name))

    def _below(self, folder: str) -> Sequence[Info]:
        with self._errors("read"):
            return self.files.list(folder)

    def _own(self, manifest: Manifest) -> Sequence[Info]:
        """List the existing files that a manifest names in its own folder; links are not followed."""
        named = _named(manifest)
        return [info for info in self._below(file_stem(manifest.id)) if info.path in named]

    def _delete(self, paths: Iterable[str]) -> None:
        with self._errors("written"):
            self.files.delete(sorted(paths))

    @contextlib.contextmanager
    def _errors(self, done: str) -> Iterator[None]:
        try:
            yield
        except self.files.errors as error:
            why, hint = meaning_of(error)
            raise StorageError(f"storage {self} cannot be {done}: {why}", hint=hint) from error


def _text(content: bytes) -> str:
    return content.decode(errors="surrogateescape")


def manifest_name(snapshot_id: str) -> str:
    """Return the name of its manifest."""
    return f"{file_stem(snapshot_id)}.json"


def _named(manifest: Manifest) -> set[str]:
    """Return the files that a manifest names in its own folder: files of another snapshot do not belong to it."""
    paths = {str(PurePosixPath(file.path)) for table in manifest.tables for file in table.files}
    stem = file_stem(manifest.id)
    return {path for path in paths if path.startswith(f"{stem}/") and ".." not in PurePosixPath(path).parts}


def _run(path: str) -> str | None:
    """Return the folder of the assembly that wrote a file, or the unfinished file; None: it is neither."""
    found = RUN.fullmatch(path)
    return found and (found[1] or found[2])
