"""A ledger as a system of several workers writes it over months: snapshots, verdicts, restarts, a failure now and then.

The records are those that the protocol writes for such a system, in their order and in their size; their offsets count
from 0, so epochs and process ids are those of a ledger that holds nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from snapkafka.protocol import (
    Abort,
    Assigned,
    Bye,
    ChangelogEnd,
    ChannelRange,
    CheckResult,
    Closed,
    CutReport,
    Hello,
    InputTopic,
    LedgerRecord,
    LogEnd,
    Position,
    Running,
    SentEnd,
    Table,
    TopicPartition,
    Trigger,
    Verdict,
)

#: Each app reads the topic of its name and writes to that of the other one.
APPS: Final = ("orders", "payments")
#: A worker restarts after so many snapshots of the system, one worker after the other.
RESTART_EVERY: Final = 25
#: One snapshot of so many is aborted.
ABORT_EVERY: Final = 100


def records(count: int, *, workers: int = 8, partitions: int = 16) -> list[LedgerRecord]:
    """The first `count` records of the ledger of two apps with half of the `workers` each, `partitions` per topic."""
    return list(islice(_System(workers, partitions).life(), count))


@dataclass(slots=True)
class _Worker:
    """A worker: its app, what it was assigned, how many records it wrote, where its latest `Assigned` stands."""

    app: str
    mine: tuple[int, ...]
    process: int = -1
    n: int = 0
    assigned: int = -1

    def next_n(self) -> int:
        self.n += 1
        return self.n

    @property
    def inputs(self) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(self.app, partition) for partition in self.mine)

    @property
    def changelogs(self) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(f"{self.app}-totals-changelog", partition) for partition in self.mine)


@dataclass(slots=True)
class _System:
    """The workers, and how far the system is: `at` is the next offset of the ledger, `work` grows with all that is
    processed."""

    workers: int
    partitions: int
    at: int = 0
    work: int = 1_000_000
    number: int = 0
    generation: int = 1
    running: list[_Worker] = field(default_factory=list)

    def life(self) -> Iterator[LedgerRecord]:
        """Every record, for ever."""
        for record in self._all():
            yield record
            self.at += 1

    def _all(self) -> Iterator[LedgerRecord]:
        each = self.workers // len(APPS)
        for number in range(self.workers):
            app, place = APPS[number % len(APPS)], number // len(APPS)
            self.running.append(_Worker(app, tuple(range(place, self.partitions, each))))
        for worker in self.running:
            yield from self._joins(worker)
        epoch = 0
        while True:
            self.number += 1
            self.work += 1_000
            previous, epoch = epoch, self.at + 1
            yield self._trigger()
            aborted = self.number % ABORT_EVERY == 0
            yield from self._captured(epoch, previous, aborted=aborted)
            if not aborted:
                yield self._verdict(epoch)
            if self.number % RESTART_EVERY == 0:
                worker = self.running[self.number // RESTART_EVERY % self.workers]
                yield Bye(process=worker.process, n=worker.next_n())
                self.generation += 1
                yield from self._joins(worker)

    def _joins(self, worker: _Worker) -> Iterator[LedgerRecord]:
        """A worker joins and all of its app are assigned what they had."""
        worker.process, worker.n = self.at, 0
        yield Hello(
            n=self.at,
            app=worker.app,
            host=f"{worker.app}-{worker.mine[0]}.example",
            pid=4_000 + self.at % 1_000,
            member=f"{worker.app}-0123456789abcdef-{self.at}",
            release="0.1.0",
            inputs=(InputTopic(topic=worker.app, partitions=self.partitions, topic_id="0" * 32),),
            tables=(
                Table(
                    name="totals",
                    changelog=f"{worker.app}-totals-changelog",
                    partitions=self.partitions,
                    topic_id="0" * 32,
                    copartitioned=True,
                ),
            ),
        )
        for other in self.running:
            if other.app == worker.app and other.process >= 0:
                other.assigned = self.at
                yield Assigned(
                    process=other.process,
                    n=other.next_n(),
                    generation=self.generation,
                    inputs=other.inputs,
                    changelogs=other.changelogs,
                    member=f"{other.app}-{other.process}",
                )

    def _trigger(self) -> Trigger:
        return Trigger(
            n=self.work,
            id=f"keep-2026112{self.number}",
            storage="s3://snapshots/shop",
            who="keep",
            ends=tuple(
                LogEnd(topic=app, partition=partition, end=self.work + 40)
                for app in APPS
                for partition in range(self.partitions)
            ),
            marker_topics=APPS,
        )

    def _captured(self, epoch: int, previous: int, *, aborted: bool) -> Iterator[LedgerRecord]:
        reports = {}
        for worker in self.running:
            reports[worker.process] = self.at
            yield CutReport(
                process=worker.process,
                n=worker.next_n(),
                epoch=epoch,
                previous=previous,
                heard="ledger",
                assigned=worker.assigned,
                positions=tuple(
                    Position(agent=f"{worker.app}.take", topic=topic, partition=partition, offset=self.work)
                    for topic, partition in worker.inputs
                ),
                running=tuple(
                    Running(agent=f"{worker.app}.take", topic=topic, partition=partition, offset=self.work)
                    for topic, partition in worker.inputs[:1]
                ),
                changelogs=worker.changelogs,
            )
        for worker in self.running[: 1 if aborted else None]:
            yield self._closed(worker, epoch, reports[worker.process])
        if aborted:
            yield Abort(n=self.work, epoch=epoch, code="ttl", reason="not captured within 5000 ms")

    def _closed(self, worker: _Worker, epoch: int, report: int) -> Closed:
        (other,) = (app for app in APPS if app != worker.app)
        out = [(other, partition, self.work + 20) for partition in range(self.partitions)]
        out += [(topic, partition, -1) for topic, partition in worker.changelogs]
        return Closed(
            process=worker.process,
            n=worker.next_n(),
            epoch=epoch,
            report=report,
            sent=tuple(
                SentEnd(topic=topic, partition=p, white_end=self.work + 10, last_seq=self.work, marker=marker)
                for topic, p, marker in out
            ),
            changelogs=tuple(
                ChangelogEnd(table="totals", topic=topic, partition=partition, end=self.work + 10)
                for topic, partition in worker.changelogs
            ),
            recorded=tuple(
                ChannelRange(
                    sender=sender.process, topic=topic, partition=p, start=self.work, end=self.work + 20
                )
                for topic, p in worker.inputs
                for sender in self.running
                if sender.app == other
            ),
            cut_us=160,
        )

    def _verdict(self, epoch: int) -> Verdict:
        return Verdict(
            n=self.work + 1,
            epoch=epoch,
            verdict="VERIFIED",
            checks=tuple(
                CheckResult(name=name, status="passed", records=10_000)
                for name in ("V1", "V2", "V3", "V4", "V5")
            ),
            manifest=f"s3://snapshots/shop/{epoch}/manifest.json",
            digest="0123456789abcdef" * 2,
            manifest_sha256="0123456789abcdef" * 4,
        )
