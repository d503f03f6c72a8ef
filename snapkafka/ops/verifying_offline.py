"""`verify --offline`: check an assembled snapshot by its files alone, without broker, ledger or Spark."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from snapkafka.checks.verdict import GOOD
from snapkafka.errors import BadInputError, StorageError, UnknownSnapshotError
from snapkafka.kafka.ledger.reading import LATEST, epoch_in
from snapkafka.manifest import LaterVersionError, Manifest, load
from snapkafka.query.locate import find_manifest
from snapkafka.store import Damage, Store, altered, file_damage, open_manifest, open_store


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedFiles:
    """The result. `good`: nothing is damaged, and by the manifest the snapshot may be relied on.

    `verdict`: that of the manifest, empty if it cannot be read.
    """

    manifest: str
    good: bool
    damage: tuple[Damage, ...]
    id: str = ""
    epoch: int = 0
    verdict: str = ""
    files: int = 0
    bytes: int = 0


async def verify_offline(
    name: str = "", *, namespace: str = "", manifest: str = "", storage: str = ""
) -> ExaminedFiles:
    """Compare a snapshot with its files, and its manifest with itself; damage is a result, not an error.

    Args:
        name: its id, its epoch, or `latest`, the last one assembled; it is in `storage`.
        namespace: its namespace, if `storage` has snapshots of several.
        manifest: the place of its manifest, instead; its tables are beside that.

    Raises:
        UnknownSnapshotError, BadInputError: there is no such manifest, or it is of a later release.
        StorageError: a file cannot be read.
    """
    if manifest:
        place = manifest
    elif name:
        store = open_store(storage)
        place = store.manifest_place(
            find_manifest(store, name, namespace=namespace).id
            if name == LATEST or epoch_in(name) is not None or not store.has(name)
            else name
        )
    else:
        raise BadInputError("no snapshot is named", hint="give an id and --storage DIR, or --manifest PATH")
    return await asyncio.to_thread(_examined, place)


def _examined(place: str) -> ExaminedFiles:
    store, name = open_manifest(place)
    try:
        found = _readable(store, name, place)
        if isinstance(found, Damage):
            return ExaminedFiles(manifest=place, good=False, damage=(found,))
        damage = [
            *(Damage(file=name, what=what) for what in [altered(found)] if what),
            *file_damage(store, found),
        ]
    except OSError as error:
        raise StorageError(f"{error.filename or place} cannot be read: {error.strerror or error}") from error
    files = [file for table in found.tables for file in table.files]
    return ExaminedFiles(
        manifest=place,
        good=not damage and found.verdict in GOOD,
        damage=tuple(damage),
        id=found.id,
        epoch=found.epoch,
        verdict=found.verdict,
        files=len(files),
        bytes=sum(file.bytes for file in files),
    )


def _readable(store: Store, name: str, place: str) -> Manifest | Damage:
    """Read the manifest, or return why it is none."""
    try:
        text = store.text(name)
        if text is None:
            raise UnknownSnapshotError(f"there is no manifest {place}")
        return load(text, where=place)
    except LaterVersionError:
        raise
    except (BadInputError, UnicodeDecodeError) as error:
        return Damage(file=name, what=f"is no longer a valid manifest: {_bare(error, place)}")


def _bare(error: Exception, place: str) -> str:
    """Return the text of an error without the file, which is reported anyway."""
    return str(error).removeprefix(place).strip(" :")
