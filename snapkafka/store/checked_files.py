"""Check files against their manifest before they are read; what has been checked once is remembered.

To read a file for its SHA-256 takes about as long as to query it, so the digest is kept beside size and times of the
file, in the user's cache: it is computed again when one of them is another. Where the cache cannot be read or written,
every file is read again.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from snapkafka.errors import StorageError
from snapkafka.manifest import FileEntry

from .base import Store

__all__ = ["require_unaltered"]

#: Files that are remembered; the oldest are dropped first.
REMEMBERED_MAX: Final = 20_000
CACHE_NAME: Final = "checked-files.json"


def require_unaltered(store: Store, files: Iterable[FileEntry]) -> int:
    """Refuse files whose bytes are not those that their manifest names; a missing file is for its reader to name.

    Returns:
        How many files were checked.

    Raises:
        StorageError: naming the first file that has other bytes.
    """
    known, count = _remembered(), 0
    fresh: dict[str, list[str]] = {}
    for file in files:
        place, stamp = store.place(file.path), store.stamp(file.path)
        if stamp is None:
            continue
        count += 1
        sha256 = known[place][1] if place in known and known[place][0] == stamp else ""
        if not sha256:
            sha256 = store.sha256(file.path)
            fresh[place] = [stamp, sha256]
        if sha256 != file.sha256:
            raise StorageError(
                f"file {place} has other bytes than when it was written: SHA-256 {sha256}, and it was {file.sha256}",
                hint="`snapkafka verify --offline` lists all damage; assemble it again while its log lasts, or read "
                "it as it is with --unchecked",
            )
    if fresh:
        _remember({**{place: kept for place, kept in known.items() if place not in fresh}, **fresh})
    return count


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "snapkafka" / CACHE_NAME


def _remembered() -> dict[str, list[str]]:
    """Place -> stamp and SHA-256 of files that were checked before."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        found = json.loads(_cache().read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return {place: kept for place, kept in found.items() if _sound(kept)}
    return {}


def _sound(kept: object) -> bool:
    return isinstance(kept, list) and len(kept) == 2 and all(isinstance(item, str) for item in kept)


def _remember(known: dict[str, list[str]]) -> None:
    last = dict(list(known.items())[-REMEMBERED_MAX:])
    with contextlib.suppress(OSError, RuntimeError):
        path = _cache()
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        new.write_text(json.dumps(last), encoding="utf-8")
        new.replace(path)
