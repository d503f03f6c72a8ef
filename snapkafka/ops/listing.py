"""`list`, `show` and `verdicts`: the snapshots of a namespace with their status, what a running one waits for, and
verdicts as they are appended, to start work when a snapshot is verified."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import msgspec

from snapkafka.checks.verdict import GOOD
from snapkafka.errors import BadInputError
from snapkafka.kafka.cluster.restorable import restorable
from snapkafka.kafka.ledger.reading import (
    LedgerReading,
    find_captured_by,
    find_epoch,
    find_snapshot,
    opened,
    read_ledger,
)
from snapkafka.kafka.login.connection import Connection
from snapkafka.logs import about
from snapkafka.ports import Cluster
from snapkafka.protocol.records import Verdict
from snapkafka.units import wall_ms

from .info import Details, SnapshotInfo, details, summary

logger = logging.getLogger("snapkafka")

Clock = Callable[[], int]


async def list_snapshots(where: Connection | Cluster, namespace: str) -> tuple[SnapshotInfo, ...]:
    """List every snapshot of the namespace, oldest first."""
    reading = await read_ledger(where, namespace)
    if lost := str(reading.state.tails):
        logger.warning("snapkafka: %s: snapshots recorded there are not listed", lost, extra=about())
    return summaries(reading)


def summaries(reading: LedgerReading) -> tuple[SnapshotInfo, ...]:
    """List the snapshots of a ledger that was read, oldest first."""
    return tuple(summary(reading, view) for _, view in sorted(reading.state.snapshots.items()))


async def show(
    where: Connection | Cluster,
    namespace: str,
    name: str = "",
    *,
    epoch: int | None = None,
    at_ms: int | None = None,
    clock: Clock = wall_ms,
) -> Details:
    """Describe one snapshot.

    Args:
        name: its id, its epoch, or `latest`, the last one triggered, whatever its status.
        epoch: its epoch, even if there is such an id.
        at_ms: a moment: the last snapshot that was captured by then, by the ledger's clock.

    Raises:
        UnknownSnapshotError: there is no such snapshot.
        BadInputError: not exactly one of the three is given.
    """
    if [bool(name), epoch is not None, at_ms is not None].count(True) != 1:
        raise BadInputError(
            "name one snapshot: an id, `latest`, --epoch or --at",
            hint="`snapkafka show latest` shows the latest",
        )
    async with opened(where, namespace) as work:
        reading, now_ms = work.reading, clock()
        if at_ms is not None:
            view = find_captured_by(reading, at_ms)
        else:
            view = find_snapshot(reading.state, name) if epoch is None else find_epoch(reading.state, epoch)
        found = details(reading, view, now_ms)
        if view.captured_at is None:
            return found
        captured = reading.state.captured(view.epoch)
        until = await restorable(work.admin, captured, cut_ms=found.triggered_ms, now=clock)
        return msgspec.structs.replace(found, restorable=until)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A verdict and its snapshot.

    `offset`: of the verdict in the ledger; reading may continue at the next one. `triggered_ms`: the instant that the
    tables show, `verified_ms`: when the verdict was appended, both by the ledger's clock (milliseconds since 1970).
    `good`: the snapshot may be relied on.
    """

    offset: int
    id: str
    epoch: int
    verdict: str
    good: bool
    manifest: str
    triggered_ms: int
    verified_ms: int


async def verdicts(
    where: Connection | Cluster, namespace: str, *, start: int | None = None, live: bool = True
) -> AsyncIterator[Verified]:
    """Yield the verdicts of a ledger in its order.

    Args:
        start: the first offset of interest; None: only verdicts from now on.
        live: wait for later ones; False: end at the present end of the ledger.

    Raises:
        LedgerUnusableError, BrokerUnavailableError: the ledger cannot be read.
    """
    async with opened(where, namespace, remember=True) as work:
        reading = work.reading
        known = reading.entries or []
        first = reading.state.end if start is None else start
        past = [entry for entry in known if entry.offset >= first]
        reading.entries = None
        for entry in past:
            if isinstance(entry.record, Verdict) and (
                found := _verified(work.reading, entry.offset, entry.record)
            ):
                yield found
        if not live:
            return
        async for entry in work.ledger.read(reading.state.end):
            reading.apply(entry)
            if isinstance(entry.record, Verdict) and (
                found := _verified(reading, entry.offset, entry.record)
            ):
                yield found


def _verified(reading: LedgerReading, offset: int, record: Verdict) -> Verified | None:
    """Return the verdict with its snapshot; None if the ledger no longer knows that."""
    view = reading.state.snapshots.get(record.epoch)
    if view is None:
        return None
    return Verified(
        offset=offset,
        id=view.trigger.id,
        epoch=record.epoch,
        verdict=record.verdict,
        good=record.verdict in GOOD,
        manifest=record.manifest,
        triggered_ms=reading.times_ms[record.epoch - 1],
        verified_ms=reading.times_ms[offset],
    )
