"""The ledger as it was read: its fold, the time of each record, and the snapshot that a name means."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

from snapkafka.checks.verdict import GOOD
from snapkafka.config import namespace_problem
from snapkafka.errors import (
    BadInputError,
    SnapshotFailedError,
    TimedOutError,
    UnknownSnapshotError,
)
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin, administration, namespaces_hint
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster, Entry, Ledger, TopicAdmin
from snapkafka.protocol import Captured
from snapkafka.protocol.gather import gather
from snapkafka.protocol.ledger_state import LedgerState, ProcessView, SnapshotView, begins

from .kafka_ledger import KafkaLedger


@dataclass(slots=True)
class LedgerReading:
    """The ledger up to `state.end`. `times_ms`: offset -> when the broker appended it. `garbage`: records that are
    not ledger records."""

    topic: str
    state: LedgerState = field(default_factory=LedgerState)
    times_ms: dict[int, int] = field(default_factory=dict)
    garbage: int = 0

    def apply(self, entry: Entry) -> None:
        """Apply the next entry."""
        if begins(entry.record, entry.offset):
            self.state = LedgerState()
        self.state.apply(entry.offset, entry.record)
        self.times_ms[entry.offset] = entry.timestamp_ms
        self.garbage += entry.record is None

    async def catch_up(self, ledger: Ledger, to: int | None = None) -> None:
        """Read on up to `to`, or up to the ledger's end as it is now."""
        until = await ledger.end() if to is None else to
        async for entry in ledger.read(self.state.end, until=until):
            self.apply(entry)

    def capture_ms(self, snapshot: SnapshotView) -> int | None:
        """Return the time from the trigger to the record that completed it, both by the ledger's clock; None if not
        captured."""
        if snapshot.captured_at is None:
            return None
        return self.times_ms[snapshot.captured_at] - self.times_ms[snapshot.epoch - 1]


@dataclass(slots=True)
class Opened:
    """The cluster for one verb: the ledger, the topics, and the ledger as it was read."""

    namespace: str
    ledger: Ledger
    admin: TopicAdmin
    reading: LedgerReading
    bootstrap: str  # for commands that are shown

    async def catch_up(self, *, to: int | None = None) -> None:
        """Read the ledger up to `to`, or up to its end as it is now."""
        await self.reading.catch_up(self.ledger, to)


@contextlib.asynccontextmanager
async def opened(
    where: Connection | Cluster, namespace: str, *, create: bool = False
) -> AsyncIterator[Opened]:
    """Open the ledger and read it to its end.

    Args:
        create: create a missing ledger; otherwise it is an error.

    Raises:
        BadInputError: the namespace is invalid.
        LedgerUnusableError, BrokerUnavailableError: the ledger cannot be read.
    """
    if problem := namespace_problem(namespace):
        async with administration(where) as asked:
            raise BadInputError(problem, hint=await namespaces_hint(asked))
    ledger: Ledger
    admin: TopicAdmin
    if isinstance(where, Connection):
        ledger, admin = KafkaLedger(where, namespace), KafkaTopicAdmin(where)
    else:
        ledger, admin = where.ledger(namespace), where.admin()
    try:
        await ledger.open(create=create)
        shown = where.bootstrap if isinstance(where, Connection) else "BROKER"
        yield Opened(namespace, ledger, admin, await read_to_end(ledger), shown)
    finally:
        await admin.close()
        await ledger.close()


async def read_to_end(ledger: Ledger) -> LedgerReading:
    """Read an open ledger to its present end.

    Raises:
        LedgerUnusableError: its beginning was deleted; it cannot be read.
    """
    reading = LedgerReading(ledger.topic)
    await reading.catch_up(ledger)
    return reading


async def read_ledger(where: Connection | Cluster, namespace: str) -> LedgerReading:
    """Read the ledger to its present end."""
    async with opened(where, namespace) as work:
        return work.reading


def latest_of_apps(state: LedgerState) -> list[ProcessView]:
    """Return the process that joined last, for each app that is not retired."""
    latest = {view.hello.app: view for _, view in sorted(state.processes.items())}
    return [view for _, view in sorted(latest.items()) if state.unretired(view)]


def outputs_of(state: LedgerState) -> set[str]:
    """Return the topics to which processes have written, except changelogs, as the snapshots so far show."""
    changelogs = state.changelogs()
    written = {
        end.topic
        for snapshot in state.snapshots.values()
        for _, report in snapshot.reports.values()
        for end in report.sent
    }
    return written - changelogs


# -- which snapshot is meant ----------------------------------------------------------------------------------

#: The word for the last one. What it may mean depends on the verb: nobody who asks for tables wants a snapshot that has
#: none. The word and the epochs go before ids: such an id is refused.
LATEST: Final = "latest"
#: Kafka's offsets are integers of 64 bits.
OFFSET_DIGITS_MAX: Final = 19
#: No name is longer; of what somebody asks for instead, no more stands in the answer.
NAME_CHARS_SHOWN: Final = 200


def captured(view: SnapshotView) -> bool:
    return view.captured_at is not None


def good(view: SnapshotView) -> bool:
    """Return whether it is verified, so that it may be relied on."""
    return view.verdict is not None and view.verdict.verdict in GOOD


def epoch_in(name: str) -> int | None:
    """Read a name as an epoch; None if it is not a number, or one that no offset of Kafka's can be."""
    return int(name) if name.isdecimal() and len(name) <= OFFSET_DIGITS_MAX else None


def find_snapshot(
    state: LedgerState, name: str | int, *, usable: Callable[[SnapshotView], bool] = lambda view: True
) -> SnapshotView:
    """Find a snapshot of the ledger as the `latest`, by its epoch (a number is nothing else), or by its id.

    Of several attempts of one id the last is found.

    Args:
        usable: returns whether `latest` may mean a snapshot.

    Raises:
        UnknownSnapshotError: the ledger has none such.
    """
    if name == LATEST:
        epoch = max((view.epoch for view in state.snapshots.values() if usable(view)), default=None)
    elif isinstance(name, int):
        epoch = name if name in state.snapshots else None
    elif (epoch := epoch_in(name)) not in state.snapshots:
        epoch = state.latest_of.get(name)
    if epoch is None:
        hint = state.loss
        raise UnknownSnapshotError(f"no snapshot {str(name)[:NAME_CHARS_SHOWN]!r} in the ledger", hint=hint)
    return state.snapshots[epoch]


def find_captured(state: LedgerState, name: str) -> Captured:
    """Return a captured snapshot; see `find_snapshot`. `latest` is the last one that is captured.

    Raises:
        UnknownSnapshotError: the ledger has none such.
        SnapshotFailedError: it failed.
        TimedOutError: it is still being captured.
    """
    snapshot = find_snapshot(state, name, usable=captured)
    if snapshot.failure is not None:
        raise SnapshotFailedError(f"snapshot {name} failed: {snapshot.failure.reason}")
    if snapshot.captured_at is None:
        first = next(iter(state.waiting(snapshot.epoch)), "the ledger")
        raise TimedOutError(
            f"snapshot {name} is not captured yet: waiting for {first}",
            hint=f"`snapkafka show {name}` shows what it waits for",
        )
    return gather(state, snapshot.epoch)


def find_captured_by(reading: LedgerReading, at_ms: int) -> SnapshotView:
    """Find the last snapshot (by epoch) that was captured at or before a moment, by the ledger's clock.

    Raises:
        UnknownSnapshotError: there is none.
    """
    views = reading.state.snapshots.values()
    found = [v for v in views if v.captured_at is not None and reading.times_ms[v.captured_at] <= at_ms]
    if not found:
        raise UnknownSnapshotError("no snapshot of the ledger was captured at or before that time")
    return max(found, key=lambda view: view.epoch)
