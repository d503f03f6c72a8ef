"""The integrity of a stored snapshot: its manifest compared with its files, and with its own checksum.

Only the files are read: no broker, no ledger, no Spark. So this finds damage done after the assembly (a flipped bit, a
lost or foreign file, an edited number, a value under a renewed SHA-256). Who renews the checksum as well is found by
the ledger's verdict, which has the SHA-256 of the manifest, and by `verify --tables`. Only the log can prove that the
snapshot was consistent when it was taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from snapkafka.errors import SnapkafkaError
from snapkafka.manifest import FileEntry, Manifest, checksum_of, state_table

from .base import Store
from .state_chain import state_parents


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A deviation from what was written. `file`: the file, relative to the storage."""

    file: str
    what: str


def file_damage(store: Store, manifest: Manifest) -> Iterator[Damage]:
    """Find what is wrong with the files of a snapshot: missing, changed and foreign ones, also in the state that it
    builds on.

    Args:
        store: to which the paths of the manifest are relative.
    """
    own = [file for table in manifest.tables for file in table.files]
    for file in own:
        yield from _damage_of(store, file)
    try:
        for table in map(state_table, state_parents(store, manifest)):
            for file in table.files:
                yield from _damage_of(store, file)
    except SnapkafkaError as error:
        yield Damage(file=manifest.parents[-1].path, what=error.message)
    named = {str(PurePosixPath(file.path)) for file in own}
    for path in store.files_of(manifest):
        if path not in named:
            yield Damage(file=path, what="the manifest does not name it")


def _damage_of(store: Store, file: FileEntry) -> Iterator[Damage]:
    pure = PurePosixPath(file.path)
    if pure.is_absolute() or ".." in pure.parts:
        yield Damage(file=file.path, what="lies outside of the storage")
    elif (size := store.size(file.path)) is None:
        yield Damage(file=file.path, what="is missing")
    elif size != file.bytes:
        yield Damage(file=file.path, what=f"has {size:,} bytes, and had {file.bytes:,}")
    else:
        found = store.sha256(file.path)
        if found != file.sha256:
            yield Damage(file=file.path, what=f"has changed: SHA-256 {found}, was {file.sha256}")


def altered(manifest: Manifest) -> str:
    """Return how a manifest differs from what was written; empty: it does not."""
    found = checksum_of(manifest)
    if manifest.checksum == found:
        return ""
    return f"has changed since it was written: its checksum is {found}, was {manifest.checksum or 'missing'}"
