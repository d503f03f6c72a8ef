"""The integrity of what a command reads: files compared with their manifest, and a manifest with the ledger's verdict.

Parts that were not compared are named beside the result; an altered part is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError
from snapkafka.kafka.ledger.reading import LedgerReading, read_ledger
from snapkafka.kafka.ledger.verdicts import not_compared
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import Manifest, TableEntry
from snapkafka.ports import Cluster
from snapkafka.store import Store, require_unaltered

from .engine import Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The comparisons before a snapshot was read. `files`: the number compared with their manifest. `not_compared`:
    the other parts, a sentence each."""

    files: int = 0
    not_compared: tuple[str, ...] = ()


def compared_with_manifest(store: Store, tables: Iterable[TableEntry], *, unchecked: bool) -> Trust:
    """Compare the files of tables with their manifests.

    Args:
        unchecked: leave it out, and report that.

    Raises:
        StorageError: a file has other bytes.
    """
    if unchecked:
        return Trust(not_compared=("files were not compared with the manifest (--unchecked)",))
    return Trust(files=require_unaltered(store, (file for table in tables for file in table.files)))


async def compared_with_ledger(
    where: Connection | Cluster | None, found: Iterable[tuple[Store, Manifest]]
) -> tuple[str, ...]:
    """Compare manifests with the verdicts of their ledgers.

    Args:
        where: None: there is no broker, so nothing is compared.

    Returns:
        why a manifest was not compared, a sentence each.

    Raises:
        StorageError: a manifest is not the one that was verified.
    """
    if where is None:
        return ("the manifest was not compared with the ledger (add --bootstrap)",)
    readings: dict[str, LedgerReading | str] = {}
    reasons: list[str] = []
    for store, manifest in found:
        if manifest.namespace not in readings:
            try:
                readings[manifest.namespace] = await read_ledger(where, manifest.namespace)
            except (BrokerUnavailableError, LedgerUnusableError) as error:
                readings[manifest.namespace] = error.message
        reasons += not_compared(store, manifest, readings[manifest.namespace])
    return tuple(reasons)


async def trusted(
    where: Connection | Cluster | None, snapshots: Iterable[Placed], *, unchecked: bool
) -> Trust:
    """Compare the files of snapshots with their manifests, and these with the ledger if there is a broker.

    Raises:
        StorageError: something was altered.
    """
    snapshots = tuple(snapshots)
    of_manifests = [(item.store, part) for item in snapshots for part in (item.manifest, *item.parents)]
    not_compared = await compared_with_ledger(where, of_manifests)
    files, reasons = 0, dict.fromkeys(not_compared)
    for item in snapshots:
        found = await asyncio.to_thread(compared_with_manifest, item.store, item.tables, unchecked=unchecked)
        files += found.files
        reasons |= dict.fromkeys(found.not_compared)
    return Trust(files=files, not_compared=tuple(reasons))
