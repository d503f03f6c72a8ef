"""Taking snapshots away again, without ever taking what snapkafka did not write.

Of a snapshot the manifest goes first, so that at no time a manifest names tables that are not there; then the files
that it named, and the folders that are empty without them. Whoever is killed half-way leaves a folder with `.tmp-` in
its name, as a killed assembly does; `leftovers` finds both.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from snapkafka.manifest import Manifest, file_stem

from .local import UNFINISHED, UNFINISHED_NAME, LocalStore, locked

__all__ = ["Leftover", "bytes_of", "clear", "foreign_files", "leftovers", "remove"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """What a killed assembly or removal left: its name in the storage, and how large it is."""

    name: str
    bytes: int


def bytes_of(store: LocalStore, manifest: Manifest) -> int:
    """What goes with a snapshot: its manifest and those of its files that are there."""
    with store._errors("read"):
        files = [store.manifest_path(manifest.id), *_own_files(store, manifest)]
        return sum(file.stat().st_size for file in files)


def foreign_files(store: LocalStore, manifest: Manifest) -> list[str]:
    """What lies in the folder of a snapshot and is not named by its manifest, relative to the storage."""
    folder, own = _folder(store, manifest), set(_own_files(store, manifest))
    with store._errors("read"):
        others = [path for path in folder.rglob("*") if path not in own and _is_file_or_link(path)]
        return sorted(path.relative_to(store.root).as_posix() for path in others)


def remove(store: LocalStore, manifest: Manifest) -> None:
    """Remove a snapshot: manifest, then files. What its manifest does not name stays where it is.

    Raises:
        StorageError: something cannot be removed; what is left of it is no snapshot any more.
    """
    folder = _folder(store, manifest)
    with store._errors("written"), locked(store.root):  # nobody publishes meanwhile
        foreign, own = foreign_files(store, manifest), _own_files(store, manifest)
        store.manifest_path(manifest.id).unlink(missing_ok=True)
        if folder.is_dir() and not folder.is_symlink() and not foreign:
            # Under the name of a leftover, in case this is killed half-way.
            aside = folder.rename(store.root / f"{folder.name}{UNFINISHED}{uuid.uuid4().hex}")
            own = [aside / file.relative_to(folder) for file in own]
            folder = aside
        for file in own:
            file.unlink(missing_ok=True)
        for place in sorted({parent for file in own for parent in file.parents}, reverse=True):
            if place.is_relative_to(folder):
                _remove_if_empty(place)
        _remove_if_empty(folder)


def leftovers(store: LocalStore, *, older_than_s: float) -> list[Leftover]:
    """What has been unfinished for so long that nobody can be at work on it any more, and nobody holds."""
    before = time.time() - older_than_s
    found = []
    with store._errors("read"):
        for path in sorted(store.root.iterdir()) if store.root.is_dir() else ():
            if UNFINISHED_NAME.fullmatch(path.name) and not _in_use(path):
                written, size = _last_written(path)
                if written < before:
                    found.append(Leftover(name=path.name, bytes=size))
    return found


def clear(store: LocalStore, leftover: Leftover) -> None:
    """Remove a leftover.

    Raises:
        StorageError: it cannot be removed.
    """
    path = store.root / leftover.name
    with store._errors("written"), contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _folder(store: LocalStore, manifest: Manifest) -> Path:
    return store.root / file_stem(manifest.id)


def _own_files(store: LocalStore, manifest: Manifest) -> list[Path]:
    """The files that the manifest names, are there, and lie in its own folder: what another snapshot has written, or
    what lies elsewhere (a manifest can say anything), is not this one's to remove."""
    folder = _folder(store, manifest)
    inside = folder.resolve()
    named = [store.root / file.path for table in manifest.tables for file in table.files]
    return [
        file
        for file in dict.fromkeys(named)
        if file.is_relative_to(folder) and file.is_file() and file.resolve().is_relative_to(inside)
    ]


def _in_use(path: Path) -> bool:
    """Does one who writes there hold its lock?"""
    try:
        with locked(path, wait=False):
            return False
    except BlockingIOError:
        return True
    except OSError:  # it is gone, or the file system has no locks
        return False


def _is_file_or_link(path: Path) -> bool:
    return path.is_symlink() or not path.is_dir()


def _last_written(path: Path) -> tuple[float, int]:
    """When a file, or anything in a folder, was last written, and how large it is."""
    try:
        found = [(item.lstat(), item.is_dir()) for item in (path, *path.rglob("*"))]
    except FileNotFoundError:
        return math.inf, 0  # somebody is at work on it
    return max(status.st_mtime for status, _ in found), sum(
        status.st_size for status, folder in found if not folder
    )


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()
