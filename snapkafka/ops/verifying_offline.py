"""`verify --offline`: check an assembled snapshot by its files alone, without broker, ledger or Spark."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from snapkafka.checks.verdict import Verdict
from snapkafka.errors import BadInputError, StorageError, UnknownSnapshotError
from snapkafka.kafka.ledger.reading import LATEST, epoch_in
from snapkafka.manifest import LaterVersionError, Manifest, load
from snapkafka.query.locate import find_manifest
from snapkafka.store import Store, open_manifest, open_store
from snapkafka.store.integrity import Damage, contradictions, file_damage, footer_reader
from snapkafka.store.row_digests import hash_library


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedFiles:
    """The result. `good`: nothing is damaged, and by the manifest the snapshot may be relied on.

    `verdict`: that of the manifest, empty if it cannot be read. `footers`: the library that read the rows and columns
    of the files; empty: none is installed, so these were not compared. `digests`: the library that recomputed the
    digests of the rows; empty: none is installed, so altered values under a renewed SHA-256 would not show.
    """

    manifest: str
    good: bool
    damage: tuple[Damage, ...]
    footers: str
    digests: str = ""
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
            return ExaminedFiles(manifest=place, good=False, damage=(found,), footers="")
        damage = [
            *(Damage(file=name, what=text) for text in contradictions(found)),
            *file_damage(store, found),
        ]
    except OSError as error:
        raise StorageError(f"{error.filename or place} cannot be read: {error.strerror or error}") from error
    files = [file for table in found.tables for file in table.files]
    return ExaminedFiles(
        manifest=place,
        good=not damage and Verdict(found.verdict).good,
        damage=tuple(damage),
        footers=footer_reader(),
        digests=footer_reader() and hash_library(),
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
