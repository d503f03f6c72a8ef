"""What the ledger says: its fold, and when each record was appended."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from snapkafka.config import namespace_problem
from snapkafka.errors import BadInputError
from snapkafka.kafka.admin import KafkaTopicAdmin
from snapkafka.kafka.connection import Connection
from snapkafka.kafka.ledger import KafkaLedger, beginning_is_gone
from snapkafka.ports import Cluster, Entry, Ledger, TopicAdmin
from snapkafka.protocol.completion import LedgerState, ProcessView, SnapshotView
from snapkafka.protocol.records import Checkpoint

__all__ = [
    "LedgerReading",
    "Opened",
    "latest_of_apps",
    "opened",
    "outputs_of",
    "read_ledger",
]


@dataclass(slots=True)
class LedgerReading:
    """The ledger up to `state.end`. `times_ms`: offset -> when the broker appended it. `garbage`: records that are
    none of ours. `start`: where it begins. `entries`: all that was read, where somebody wants them."""

    topic: str
    start: int = 0
    state: LedgerState = field(init=False)
    times_ms: dict[int, int] = field(default_factory=dict)
    garbage: int = 0
    entries: list[Entry] | None = None

    def __post_init__(self) -> None:
        self.state = LedgerState(start=self.start)

    def apply(self, entry: Entry) -> None:
        """Take in the next entry."""
        self.state.apply(entry.offset, entry.record)
        self.times_ms[entry.offset] = entry.timestamp_ms
        self.garbage += entry.record is None
        if isinstance(entry.record, Checkpoint):
            for kept in entry.record.kept:
                self.times_ms.setdefault(kept.offset, kept.at_ms)
        if self.entries is not None:
            self.entries.append(entry)

    def capture_ms(self, snapshot: SnapshotView) -> int | None:
        """From the trigger to the record that completed it, both in the ledger's own time; None if not captured."""
        if snapshot.captured_at is None:
            return None
        return self.times_ms[snapshot.captured_at] - self.times_ms[snapshot.epoch - 1]


@dataclass(slots=True)
class Opened:
    """A cluster at work for one verb: the ledger, the topics, and the ledger as it was read."""

    namespace: str
    ledger: Ledger
    admin: TopicAdmin
    reading: LedgerReading
    bootstrap: str = "BROKER"  # for commands that are shown

    async def catch_up(self, *, to: int | None = None) -> None:
        """Read the ledger up to `to`, or up to its end as it is now."""
        until = await self.ledger.end() if to is None else to
        async for entry in self.ledger.read(max(self.reading.start, self.reading.state.end), until=until):
            self.reading.apply(entry)


@contextlib.asynccontextmanager
async def opened(
    where: Connection | Cluster, namespace: str, *, remember: bool = False
) -> AsyncIterator[Opened]:
    """Open the ledger (it is never made here) and read it to its end.

    Args:
        remember: keep all that was read, in `reading.entries`.

    Raises:
        BadInputError: the namespace is none.
        LedgerUnusableError, BrokerUnavailableError: the ledger cannot be read.
    """
    if problem := namespace_problem(namespace):
        raise BadInputError(problem, hint="give --namespace, or set SNAPKAFKA_NAMESPACE")
    ledger: Ledger
    admin: TopicAdmin
    if isinstance(where, Connection):
        ledger, admin = KafkaLedger(where, namespace), KafkaTopicAdmin(where)
    else:
        ledger, admin = where.ledger(namespace), where.admin()
    try:
        await ledger.open(create=False)
        reading = LedgerReading(ledger.topic, start=await ledger.start(), entries=[] if remember else None)
        work = Opened(namespace=namespace, ledger=ledger, admin=admin, reading=reading)
        if isinstance(where, Connection):
            work.bootstrap = where.bootstrap
        await work.catch_up()
        if not reading.state.whole:
            raise beginning_is_gone(ledger.topic, reading.start)
        yield work
    finally:
        await admin.close()
        await ledger.close()


async def read_ledger(where: Connection | Cluster, namespace: str) -> LedgerReading:
    """The ledger as it is now."""
    async with opened(where, namespace) as work:
        return work.reading


def latest_of_apps(state: LedgerState) -> list[ProcessView]:
    """Of each app that is not retired, the process that joined last."""
    latest = {view.hello.app: view for _, view in sorted(state.processes.items())}
    return [view for app, view in sorted(latest.items()) if app not in state.retired]


def outputs_of(state: LedgerState) -> set[str]:
    """The topics that processes have written to, changelogs apart, as the snapshots so far tell."""
    changelogs = {table.changelog for view in state.processes.values() for table in view.hello.tables}
    written = {
        end.topic
        for snapshot in state.snapshots.values()
        for _, closed in (*snapshot.closed.values(), *snapshot.supplements_closed.values())
        for end in closed.sent
    }
    return written - changelogs
