"""`verdicts`: follow the verdicts of the ledger as they are appended, to start work when a snapshot is verified."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from snapkafka.checks.verdict import GOOD
from snapkafka.kafka.ledger.reading import LedgerReading, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.protocol.records import Verdict


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
