"""Files of a snapshot, compared with their manifest before they are read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from snapkafka.errors import StorageError
from snapkafka.manifest import FileEntry

from .base import Store

#: Files with more bytes in all are compared by their sizes alone: to read them takes about as long as to query them.
HASHED_BYTES_MAX: Final = 2 << 30


def require_unaltered(store: Store, files: Iterable[FileEntry]) -> int:
    """Refuse files whose bytes are not those that their manifest names; a missing file is for its reader to name.

    Returns:
        How many files were compared by their bytes: of more than `HASHED_BYTES_MAX` none.

    Raises:
        StorageError: names the first file that has other bytes.
    """
    sizes = {file: store.size(file.path) for file in files}
    hashed = sum(size or 0 for size in sizes.values()) <= HASHED_BYTES_MAX
    for file, size in sizes.items():
        if size is None or (size == file.bytes and (not hashed or store.sha256(file.path) == file.sha256)):
            continue
        place = store.place(file.path)
        raise StorageError(
            f"file {place} has changed since it was written",
            hint="`snapkafka verify --offline` lists all damage; assemble it again",
            file=place,
        )
    return sum(size is not None for size in sizes.values()) if hashed else 0
