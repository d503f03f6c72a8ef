"""The integrity of what a command reads: files compared with their manifest, and a manifest with the ledger's verdict.

Parts that were not compared are named beside the result; an altered part is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError, StorageError
from snapkafka.kafka.ledger.manifest_match import StoredManifest, not_compared
from snapkafka.kafka.ledger.reading import LedgerReading, read_ledger
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.store import altered
from snapkafka.units import format_bytes

from .engine import Placed

#: Files with more bytes in all are compared by their sizes alone: to read them takes about as long as to query them.
HASHED_BYTES_MAX: Final = 2 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The comparisons before a snapshot was read. `files`: the number compared with their manifest. `not_compared`:
    the other parts, a sentence each."""

    files: int = 0
    not_compared: tuple[str, ...] = ()


async def not_in_ledger(where: Connection | Cluster | None, found: Iterable[StoredManifest]) -> Iterable[str]:
    """Compare manifests with the verdicts of their ledgers; return why some were not.

    Args:
        where: None: there is no broker, so nothing is compared.

    Raises:
        StorageError: a manifest is not the one that was verified.
    """
    if where is None:
        return ["the manifest was not compared with the ledger: no broker is given"]
    readings: dict[str, LedgerReading | str] = {}
    reasons: list[str] = []
    for manifest in found:
        if manifest.namespace not in readings:
            try:
                readings[manifest.namespace] = await read_ledger(where, manifest.namespace)
            except (BrokerUnavailableError, LedgerUnusableError) as error:
                readings[manifest.namespace] = error.message
        reasons += not_compared(manifest, readings[manifest.namespace])
    return dict.fromkeys(reasons)


def stored_manifests(snapshots: Iterable[Placed]) -> tuple[StoredManifest, ...]:
    """Read the manifests of snapshots, and of those on which they build."""
    return tuple(StoredManifest.of(it.store, part) for it in snapshots for part in (it.manifest, *it.parents))


def compared_files(snapshots: Iterable[Placed]) -> Trust:
    """Compare the files of snapshots with their manifests, before they are read.

    Raises:
        StorageError: a manifest was edited, or a file has other bytes.
    """
    files, large = 0, False
    for item in snapshots:
        if why := altered(item.manifest):
            raise StorageError(f"manifest {item.store.manifest_place(item.manifest.id)} {why}")
        named = {file: None for table in item.tables for file in table.files}
        hashed = sum(file.bytes for file in named) <= HASHED_BYTES_MAX
        item.store.require_files(named, hashed=hashed)
        files, large = files + len(named) * hashed, large or not hashed
    by_size = f"files of more than {format_bytes(HASHED_BYTES_MAX)} were compared by their sizes alone"
    return Trust(files=files, not_compared=(by_size,) if large else ())
