"""A long ledger of several workers: snapshots, verdicts, restarts, a failure now and then.

Offsets count from 0, so epochs and process ids are those of a ledger that holds nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Final

from snapkafka.protocol import (
    Abort,
    Assigned,
    Bye,
    ChangelogEnd,
    ChannelRange,
    Hello,
    InputTopic,
    LedgerRecord,
    LogEnd,
    Position,
    Report,
    Running,
    SentEnd,
    Table,
    TopicPartition,
    Trigger,
    Verdict,
)

#: Each app reads the topic of its name and writes to that of the other one.
APPS: Final = ("orders", "payments")
WORKERS: Final = 8
#: A worker restarts after so many snapshots of the system; one snapshot of so many is aborted.
RESTART_EVERY: Final = 25
ABORT_EVERY: Final = 100


def records(number: int, *, partitions: int = 16) -> list[LedgerRecord]:
    """The first records of the ledger of two apps with half of the workers each, and `partitions` per topic."""
    return list(islice(_System(partitions).life(), number))


@dataclass(slots=True)
class _Worker:
    """A worker: its process, what it was assigned, and where its latest `Assigned` stands."""

    app: str
    other: str
    mine: range
    process: int = -1
    assigned: int = -1

    @property
    def inputs(self) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(self.app, partition) for partition in self.mine)

    @property
    def changelogs(self) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(f"{self.app}-log", partition) for partition in self.mine)


class _System:
    """The workers. `at`: the next offset of the ledger."""

    def __init__(self, partitions: int) -> None:
        self.partitions = range(partitions)
        self.at, self.numbers, self.generation = 0, count(1), 1
        each = WORKERS // len(APPS)
        self.workers = [
            _Worker(app, other, self.partitions[place::each])
            for place in range(each)
            for app, other in (APPS, APPS[::-1])
        ]

    def life(self) -> Iterator[LedgerRecord]:
        """Every record, for ever."""
        for record in self._all():
            yield record
            self.at += 1

    def _all(self) -> Iterator[LedgerRecord]:
        for worker in self.workers:
            yield from self._joins(worker)
        epoch = 0
        for number in count(1):
            previous, epoch, work = epoch, self.at + 1, 1_000 * number
            ends = (LogEnd(topic=app, partition=p, end=work + 40) for app in APPS for p in self.partitions)
            yield Trigger(n=work, id=f"keep-{number}", ends=tuple(ends), marker_topics=APPS)
            aborted = number % ABORT_EVERY == 0
            for worker in self.workers[: 1 if aborted else None]:
                yield self._report(worker, epoch, previous, work)
            if aborted:
                yield Abort(n=work, epoch=epoch, code="ttl", reason="not captured within 5000 ms")
            else:
                yield Verdict(n=work + 1, epoch=epoch, verdict="VERIFIED")
            if number % RESTART_EVERY == 0:
                worker = self.workers[number // RESTART_EVERY % WORKERS]
                yield Bye(process=worker.process, n=next(self.numbers))
                self.generation += 1
                yield from self._joins(worker)

    def _joins(self, worker: _Worker) -> Iterator[LedgerRecord]:
        """A worker joins and all of its app are assigned what they had."""
        worker.process = self.at
        inputs = (InputTopic(topic=worker.app, partitions=len(self.partitions)),)
        table = Table(name="totals", changelog=f"{worker.app}-log", partitions=len(self.partitions))
        yield Hello(n=self.at, app=worker.app, inputs=inputs, tables=(table,))
        for other in self.workers:
            if other.app == worker.app and other.process >= 0:
                other.assigned = self.at
                yield Assigned(
                    process=other.process, n=next(self.numbers), generation=self.generation,
                    inputs=other.inputs, changelogs=other.changelogs,
                )  # fmt: skip

    def _report(self, worker: _Worker, epoch: int, previous: int, work: int) -> Report:
        places = [{"agent": "take", **tp._asdict(), "offset": work} for tp in worker.inputs]
        out = [(TopicPartition(worker.other, p), work + 20) for p in self.partitions]
        out += [(tp, -1) for tp in worker.changelogs]
        sent = (
            SentEnd(**tp._asdict(), white_end=work + 10, last_seq=work, marker=marker) for tp, marker in out
        )
        changes = (ChangelogEnd(table="totals", **tp._asdict(), end=work + 10) for tp in worker.changelogs)
        channels = (
            ChannelRange(sender=sender.process, **tp._asdict(), start=work, end=work + 20)
            for tp in worker.inputs
            for sender in self.workers
            if sender.app == worker.other
        )
        return Report(
            process=worker.process, n=next(self.numbers), epoch=epoch, previous=previous, heard="ledger",
            assigned=worker.assigned, positions=tuple(Position(**place) for place in places),
            running=(Running(**places[0]),), sent=tuple(sent), changelogs=tuple(changes), recorded=tuple(channels),
        )  # fmt: skip
