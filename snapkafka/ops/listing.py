"""`list`, `show`, `verdicts` and `freshness`: the snapshots of a namespace with their status, verdicts as they are
appended, and the ages of the newest ones.

An alert on freshness is worth more than one on failures: whatever fails, the newest good snapshot grows old.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf

import msgspec

from snapkafka.checks.verdict import GOOD
from snapkafka.checks.verdict import Verdict as Kind
from snapkafka.errors import BadInputError, SnapkafkaError
from snapkafka.kafka.cluster.restorable import How, restorable
from snapkafka.kafka.ledger.reading import (
    LedgerReading,
    Opened,
    captured,
    find_captured_by,
    find_snapshot,
    good,
    opened,
    read_ledger,
)
from snapkafka.kafka.login.connection import Connection
from snapkafka.logs import about
from snapkafka.manifest import RestorableEntry
from snapkafka.ports import Cluster
from snapkafka.protocol import SnapshotView, Verdict
from snapkafka.protocol.gather import gather
from snapkafka.query.locate import stored
from snapkafka.units import wall_ms
from snapkafka.verbs import Result

from .info import Details, SnapshotInfo, details, summary, with_files
from .watching import Holding, Invariant, invariants_in

logger = logging.getLogger("snapkafka")

Clock = Callable[[], int]


async def list_snapshots(where: Connection | Cluster, namespace: str) -> tuple[SnapshotInfo, ...]:
    """List every snapshot of the namespace, oldest first."""
    reading = await read_ledger(where, namespace)
    if lost := reading.state.loss:
        logger.warning("snapkafka: %s", lost, extra=about())
    return summaries(reading)


def summaries(reading: LedgerReading) -> tuple[SnapshotInfo, ...]:
    """List the snapshots of a ledger that was read, oldest first."""
    return tuple(summary(reading, view) for _, view in sorted(reading.state.snapshots.items()))


async def show(
    where: Connection | Cluster,
    namespace: str,
    name: str = "",
    *,
    at_ms: int | None = None,
    clock: Clock = wall_ms,
) -> Details:
    """Describe one snapshot.

    Args:
        name: its id, its epoch, or `latest`, the last one triggered, whatever its status.
        at_ms: a moment: the last snapshot that was captured by then, by the ledger's clock.
    """
    if bool(name) == (at_ms is not None):
        raise BadInputError("name one snapshot", hint="by its id, by `latest`, or by --at")
    async with opened(where, namespace) as work:
        reading, now_ms = work.reading, clock()
        view = find_snapshot(reading.state, name) if at_ms is None else find_captured_by(reading, at_ms)
        found = details(reading, view, now_ms)
        if view.captured_at is None:
            return found
        if view.verdict is not None and view.verdict.manifest:
            with contextlib.suppress(SnapkafkaError):  # it may lie where only others read
                found = with_files(found, await asyncio.to_thread(stored, view.verdict.manifest))
        return msgspec.structs.replace(found, restorable=await _restorable(work, view, clock))


class Verified(Result, frozen=True, kw_only=True):
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
    """
    async with opened(where, namespace) as work:
        reading, end = work.reading, work.reading.state.end
        first = end if start is None else min(start, end)
        async for entry in work.ledger.read(first, until=None if live else end):
            if entry.offset >= end:
                reading.apply(entry)
            if entry.offset >= first and (found := _verified(reading, entry.offset, entry.record)):
                yield found


def _verified(reading: LedgerReading, offset: int, record: object) -> Verified | None:
    """Return a verdict with its snapshot; None if it is none, or the ledger no longer knows that."""
    if not isinstance(record, Verdict) or (view := reading.state.snapshots.get(record.epoch)) is None:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """The newest snapshots of a namespace, as of `now_ms`.

    `captured_ms`, `verified_ms`: when the newest captured and the newest good one were triggered (milliseconds since
    1970, by the ledger's clock): the instants that they show; None: there is none. `verified_id`: of the latter.
    `verdicts`: the number of verdicts of each kind in the ledger. `invariants`: those that are watched.
    `restorable`: of the newest good one.
    """

    now_ms: int
    captured_ms: int | None = None
    verified_ms: int | None = None
    verified_id: str = ""
    verdicts: Mapping[str, int]
    invariants: tuple[Invariant, ...] = ()
    restorable: RestorableEntry | None = None

    @property
    def captured_age_s(self) -> float | None:
        """Seconds since the newest captured snapshot was triggered."""
        return _age_s(self.now_ms, self.captured_ms)

    @property
    def verified_age_s(self) -> float | None:
        """Seconds since the newest good snapshot was triggered."""
        return _age_s(self.now_ms, self.verified_ms)

    @property
    def restorable_s(self) -> float | None:
        """Seconds until the log loses what the newest good snapshot needs; 0: it has lost it; None: unknown, or no
        snapshot."""
        if self.restorable is None or self.restorable.how == How.UNKNOWN:
            return None
        if self.restorable.how == How.GONE:
            return 0.0
        if self.restorable.how == How.ALWAYS:
            return inf
        until_s = datetime.fromisoformat(self.restorable.until).timestamp()
        return max(0.0, until_s - self.now_ms / 1_000)


async def freshness(
    where: Connection | Cluster, namespace: str, *, clock: Callable[[], int] = wall_ms
) -> Freshness:
    """Read the ledger, and the state of the logs that the newest good snapshot needs."""
    async with opened(where, namespace) as work:
        found = freshness_in(work.reading, clock())
        newest_good = _newest(work.reading, _usable)
        kept = None if newest_good is None else await _restorable(work, newest_good, clock)
        return replace(found, restorable=kept, now_ms=clock())


def freshness_in(reading: LedgerReading, now_ms: int) -> Freshness:
    """Return the facts from the ledger itself: all except how long a snapshot is restorable."""
    views = reading.state.snapshots.values()
    newest, newest_good = _newest(reading, captured), _newest(reading, _usable)
    return Freshness(
        now_ms=now_ms,
        captured_ms=None if newest is None else reading.times_ms[newest.epoch - 1],
        verified_ms=None if newest_good is None else reading.times_ms[newest_good.epoch - 1],
        verified_id="" if newest_good is None else newest_good.trigger.id,
        verdicts=dict(Counter(view.verdict.verdict for view in views if view.verdict is not None)),
        invariants=invariants_in(reading),
    )


def _usable(view: SnapshotView) -> bool:
    return captured(view) and good(view)


def _newest(reading: LedgerReading, wanted: Callable[[SnapshotView], bool]) -> SnapshotView | None:
    return max(filter(wanted, reading.state.snapshots.values()), key=lambda view: view.epoch, default=None)


async def _restorable(work: Opened, view: SnapshotView, clock: Clock) -> RestorableEntry:
    cut_ms = work.reading.times_ms[view.epoch - 1]
    return await restorable(work.admin, gather(work.reading.state, view.epoch), cut_ms=cut_ms, now=clock)


def _age_s(now_ms: int, then_ms: int | None) -> float | None:
    return None if then_ms is None else max(0, now_ms - then_ms) / 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """A metric: `samples` are pairs of the value of its label (empty if it has none) and its own value."""

    name: str
    help: str
    label: str = ""
    samples: tuple[tuple[str, float], ...]


def gauges(found: Freshness) -> tuple[Gauge, ...]:
    """Convert freshness to metrics. Unknown values have no sample, and an alert asks for its absence."""
    kinds = sorted({*map(str, Kind), *found.verdicts})
    watched = found.invariants
    rows = [
        (it.name, it.last.found if it.last and it.holding is not Holding.UNPROVEN else None) for it in watched
    ]
    held = [(it.name, it.last_ok.triggered_ms / 1_000 if it.last_ok else 0) for it in watched]
    since = [(it.name, of.triggered_ms / 1_000 if (of := it.not_evaluated_since) else None) for it in watched]

    def gauge(name: str, about: str, label: str, *samples: tuple[str, float | None]) -> Gauge:
        known = tuple((of, float(value)) for of, value in samples if value is not None)
        return Gauge(name=f"snapkafka_{name}", help=about, label=label, samples=known)

    return (
        gauge("captured_age_seconds", "Seconds since the newest captured snapshot was triggered", "",
              ("", found.captured_age_s)),
        gauge("verified_age_seconds", "Seconds since the newest good snapshot was triggered", "",
              ("", found.verified_age_s)),
        gauge("restorable_seconds", "Seconds until topics lose what the newest good snapshot needs", "",
              ("", found.restorable_s)),
        gauge("verdicts", "Snapshots of the ledger by their verdict", "verdict",
              *((kind, found.verdicts.get(kind, 0)) for kind in kinds)),
        gauge("invariant_violations", "Violating rows in the newest snapshot that proves an answer; 0: it holds",
              "name", *rows),
        gauge("invariant_last_ok_timestamp_seconds",
              "When the newest snapshot in which the invariant holds was triggered; 0: it never held", "name", *held),
        gauge("invariant_not_evaluated_since_timestamp_seconds",
              "When the first of the newest snapshots was triggered that prove no answer about it", "name", *since),
    )  # fmt: skip
