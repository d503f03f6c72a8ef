"""Integrity of files: they are checked against their manifest before they are read, and the result is cached.

To read a file for its SHA-256 takes about as long as to query it, so the digest is kept with size and times of the
file, in a SQLite database in the user's cache: it is computed again when one of them has changed, and before a file is
refused. If the cache cannot be read or written, every file is read again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from snapkafka.errors import Option, StorageError, Verb
from snapkafka.manifest import FileEntry

from .base import Store

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")

#: Files that are remembered; the oldest are dropped first.
REMEMBERED_MAX: Final = 20_000
CACHE_NAME: Final = "checked-files.sqlite"
#: So long another process may hold the cache.
LOCKED_S: Final = 1.0
TABLE: Final = "CREATE TABLE IF NOT EXISTS checked (place TEXT PRIMARY KEY, stamp TEXT, sha256 TEXT)"


def require_unaltered(store: Store, files: Iterable[FileEntry]) -> int:
    """Refuse files whose bytes are not those that their manifest names; a missing file is for its reader to name.

    Returns:
        How many files were checked.

    Raises:
        StorageError: names the first file that has other bytes.
    """
    there = [(file, store.place(file.path), store.stamp(file.path)) for file in files]
    known = _remembered(place for _, place, stamp in there if stamp is not None)
    fresh: dict[str, tuple[str, str]] = {}
    for file, place, stamp in there:
        if stamp is None or known.get(place) == (stamp, file.sha256):
            continue
        sha256 = store.sha256(file.path)
        if sha256 != file.sha256:
            raise StorageError(
                f"file {place} has changed since it was written: SHA-256 {sha256}, was {file.sha256}",
                hint=(
                    Verb("verify", options=("offline",)),
                    " lists all damage; assemble it again, or read it with ",
                    Option("unchecked"),
                ),
                file=place,
            )
        fresh[place] = (stamp, sha256)
    if fresh:
        _remember(fresh)
    return sum(stamp is not None for _, _, stamp in there)


def _remembered(places: Iterable[str]) -> dict[str, tuple[object, object]]:
    """Return stamp and SHA-256 of the files that were checked before, by place."""

    def read(cache: sqlite3.Connection) -> dict[str, tuple[object, object]]:
        rows = (
            cache.execute("SELECT place, stamp, sha256 FROM checked WHERE place = ?", [place]).fetchone()
            for place in places
        )
        return {row[0]: row[1:] for row in rows if row is not None}

    return _with_cache(read) or {}


def _remember(fresh: Mapping[str, tuple[str, str]]) -> None:
    def write(cache: sqlite3.Connection) -> None:
        rows = [(place, *kept) for place, kept in fresh.items()]
        cache.executemany("INSERT OR REPLACE INTO checked VALUES (?, ?, ?)", rows)  # and it is the newest
        oldest = "(SELECT max(rowid) FROM checked) - ?"
        cache.execute(f"DELETE FROM checked WHERE rowid <= {oldest}", [REMEMBERED_MAX])

    _with_cache(write)


def _with_cache(work: Callable[[sqlite3.Connection], T]) -> T | None:
    """Return the result of `work`, None if no cache is available: this costs only time. A file that SQLite cannot read
    is removed, for the next time."""
    with contextlib.suppress(ImportError, OSError, RuntimeError):  # no SQLite in this Python; no home
        import sqlite3

        path = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "snapkafka" / CACHE_NAME
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with contextlib.closing(sqlite3.connect(path, timeout=LOCKED_S)) as cache, cache:
                cache.execute(TABLE)
                return work(cache)
        except sqlite3.OperationalError:
            pass
        except sqlite3.DatabaseError:
            path.unlink()
    return None
