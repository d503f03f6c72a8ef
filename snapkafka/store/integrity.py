"""The integrity of a stored snapshot: its manifest compared with its files, and with its own checksum.

Only the files are read: no broker, no ledger, no Spark. So this finds damage done after the assembly (a flipped bit, a
lost or foreign file, an edited number, a value under a renewed SHA-256). Who renews the checksum as well is found by
the ledger's verdict, which has the SHA-256 of the manifest, and by `verify --tables`. Only the log can prove that the
snapshot was consistent when it was taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from snapkafka.errors import SnapkafkaError, StorageError
from snapkafka.manifest import FileEntry, Manifest, checksum_of, state_table

from .state_chain import state_parents
from .store import Damage, Store

#: Files with more bytes in all are compared by their sizes alone: to read them takes about as long as to query them.
HASHED_BYTES_MAX: Final = 2 << 30


def file_damage(store: Store, manifest: Manifest) -> Iterator[Damage]:
    """Find what is wrong with the files of a snapshot: missing, changed and foreign ones, also in the state that it
    builds on.

    Args:
        store: to which the paths of the manifest are relative.
    """
    own = [file for table in manifest.tables for file in table.files]
    yield from store.damage(own)
    try:
        for table in map(state_table, state_parents(store, manifest)):
            yield from store.damage(table.files)
    except SnapkafkaError as error:
        yield Damage(file=manifest.parents[-1].path, what=error.message)
    named = {str(PurePosixPath(file.path)) for file in own}
    for path in store.files_of(manifest):
        if path not in named:
            yield Damage(file=path, what="the manifest does not name it")


def altered(manifest: Manifest) -> str:
    """Return how a manifest differs from what was written; empty: it does not."""
    found = checksum_of(manifest)
    if manifest.checksum == found:
        return ""
    return f"has changed since it was written: its checksum is {found}, was {manifest.checksum or 'missing'}"


def require_unaltered(store: Store, files: Iterable[FileEntry]) -> int:
    """Refuse files that are not those that their manifest names, before they are read.

    Returns:
        How many files were compared by their bytes: of more than `HASHED_BYTES_MAX` none.

    Raises:
        StorageError: names the first file that has other bytes.
    """
    files = list(dict.fromkeys(files))
    hashed = sum(file.bytes for file in files) <= HASHED_BYTES_MAX
    for found in store.damage(files, hashed=hashed):
        place = store.place(found.file)
        raise StorageError(
            f"file {place} {found.what}",
            hint="`snapkafka verify --offline` lists all damage; assemble it again",
            file=place,
        )
    return len(files) if hashed else 0
