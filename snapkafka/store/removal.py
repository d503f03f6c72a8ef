"""Removal of snapshots from a local directory. Files that snapkafka did not write are never removed.

The manifest of a snapshot is removed first, so that at no time a manifest names missing tables; then the files that it
named, and the folders that are then empty. A removal that is killed half-way leaves a folder with `.tmp-` in its name,
as a killed assembly does; `leftovers` finds both.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import time
import uuid
from pathlib import Path

from snapkafka.manifest import Manifest, file_stem

from .base import Leftover, manifest_name
from .locks import UNFINISHED, UNFINISHED_NAME, locked


def bytes_of(root: Path, manifest: Manifest) -> int:
    """Return the number of bytes that a removal would free: of its manifest and its existing files."""
    files = [root / manifest_name(manifest.id), *_own_files(root, manifest)]
    return sum(file.stat().st_size for file in files)


def foreign_files(root: Path, manifest: Manifest) -> list[str]:
    """List the files in the folder of a snapshot that its manifest does not name, relative to the storage."""
    folder, own = _folder(root, manifest), set(_own_files(root, manifest))
    others = [path for path in folder.rglob("*") if path not in own and _is_file_or_link(path)]
    return sorted(path.relative_to(root).as_posix() for path in others)


def remove(root: Path, manifest: Manifest) -> None:
    """Remove a snapshot: manifest, then files. Files that its manifest does not name stay.

    Raises:
        OSError: something cannot be removed; the rest is not a snapshot any more.
    """
    folder = _folder(root, manifest)
    with locked(root):  # nobody publishes meanwhile
        foreign, own = foreign_files(root, manifest), _own_files(root, manifest)
        (root / manifest_name(manifest.id)).unlink(missing_ok=True)
        if folder.is_dir() and not folder.is_symlink() and not foreign:
            # Under the name of a leftover, in case this is killed half-way.
            aside = folder.rename(root / f"{folder.name}{UNFINISHED}{uuid.uuid4().hex}")
            own = [aside / file.relative_to(folder) for file in own]
            folder = aside
        for file in own:
            file.unlink(missing_ok=True)
        for place in sorted({parent for file in own for parent in file.parents}, reverse=True):
            if place.is_relative_to(folder):
                _remove_if_empty(place)
        _remove_if_empty(folder)


def leftovers(root: Path, *, older_than_s: float) -> list[Leftover]:
    """List files and folders that have been unfinished for so long that they cannot be in use any more, and that no
    process locks."""
    before = time.time() - older_than_s
    found = []
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if UNFINISHED_NAME.fullmatch(path.name) and not _in_use(path):
            written, size = _last_written(path)
            if written < before:
                found.append(Leftover(name=path.name, bytes=size))
    return found


def clear(root: Path, leftover: Leftover) -> None:
    """Remove a leftover.

    Raises:
        OSError: it cannot be removed.
    """
    path = root / leftover.name
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _folder(root: Path, manifest: Manifest) -> Path:
    return root / file_stem(manifest.id)


def _own_files(root: Path, manifest: Manifest) -> list[Path]:
    """List the existing files that the manifest names in its own folder: files of another snapshot, or elsewhere (a
    manifest can name anything), are not to be removed with it."""
    folder = _folder(root, manifest)
    inside = folder.resolve()
    named = [root / file.path for table in manifest.tables for file in table.files]
    return [
        file
        for file in dict.fromkeys(named)
        if file.is_relative_to(folder) and file.is_file() and file.resolve().is_relative_to(inside)
    ]


def _in_use(path: Path) -> bool:
    """Return whether a writer holds its lock."""
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
    """Return when a file, or anything in a folder, was last written, and its size."""
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
