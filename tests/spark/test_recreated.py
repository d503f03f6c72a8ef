"""Topics that are recreated while processes run, on a real broker: nothing of the old topic counts for the new one.

Played by hand, with the machine's own memory of what was sent (`protocol.sent`).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from snapkafka.assembly import Desk, Settings, assemble, verify
from snapkafka.checks import CheckOutcome
from snapkafka.errors import OffsetsGoneError
from snapkafka.kafka import Connection, KafkaLedger, KafkaTopicAdmin
from snapkafka.manifest import Manifest
from snapkafka.protocol import (
    Bye,
    ChangelogEnd,
    Closed,
    CutReport,
    Hello,
    InputTopic,
    LogEnd,
    Position,
    Sent,
    SentEnd,
    Table,
    TopicPartition,
    Trigger,
)
from snapkafka.store import LocalStore
from snapkafka.testing import Broker
from tests.spark.reading import settings_of
from tests.spark.scene import Sender, Stage

pytestmark = pytest.mark.nightly

Cause = tuple[TopicPartition, int]


@dataclass
class Worker:
    """A process, its memory of what it sent, and where it stands."""

    sender: Sender
    red: int = 0
    sent: dict[TopicPartition, Sent] = field(default_factory=lambda: defaultdict(Sent))
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    tables: dict[TopicPartition, int] = field(default_factory=dict)

    def send(self, tp: TopicPartition, key: str, *, cause: Cause | None = None) -> int:
        sent = self.sent[tp]
        offset = self.sender.send(
            tp, key.encode(), b"1", epoch=self.red, seq=sent.next_seq, cause=cause, at_ms=0
        )
        sent.acked(self.red, sent.next_seq, offset)
        sent.next_seq += 1
        return offset


class Play:
    """The broker, and who plays."""

    def __init__(self, bootstrap: str, namespace: str) -> None:
        self.runner = asyncio.Runner()
        connection = Connection(bootstrap=bootstrap)
        self.admin = KafkaTopicAdmin(connection)
        ledger = KafkaLedger(connection, namespace)
        self.runner.run(ledger.open())
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
        self.stage = Stage(bootstrap, namespace, ledger, producer)
        self.workers: list[Worker] = []
        self.numbers = 100

    def tp(self, name: str, partition: int = 0) -> TopicPartition:
        return self.stage.tp(name, partition)

    def create(self, name: str, partitions: int = 1, *, table: bool = False) -> None:
        """Create a topic anew; one of this name is deleted first."""
        topic = self.stage.topic(name)
        self.runner.run(self.admin.delete_topics(topic))
        settings = {"cleanup.policy": "compact"} if table else {}

        deadline = time.monotonic() + 30
        while self.runner.run(self.admin.describe_topics([topic])):
            assert time.monotonic() < deadline, f"{topic} is still there"
            time.sleep(0.1)
        while not self.runner.run(self.admin.create_topic(topic, partitions=partitions, settings=settings)):
            assert time.monotonic() < deadline, f"{topic} is still there"
            time.sleep(0.1)

    def id_of(self, name: str) -> str:
        topic = self.stage.topic(name)
        return self.runner.run(self.admin.describe_topics([topic]))[topic].topic_id

    def join(
        self, app: str, inputs: tuple[str, ...] = (), tables: tuple[str, ...] = (), of: int = 1
    ) -> Worker:
        """A process joins, and finds the topics as they are."""
        self.numbers += 1
        hello = Hello(
            n=self.numbers,
            app=app,
            inputs=tuple(
                InputTopic(topic=self.stage.topic(name), partitions=of, topic_id=self.id_of(name))
                for name in inputs
            ),
            tables=tuple(
                Table(name=name, changelog=self.stage.topic(name), partitions=of, topic_id=self.id_of(name))
                for name in tables
            ),
        )
        worker = Worker(Sender(self.stage, self.runner.run(self.stage.append(hello)), app))
        worker.red = self.stage.epoch
        self.workers.append(worker)
        return worker

    def leave(self, worker: Worker) -> None:
        self.runner.run(worker.sender.write_record(Bye))
        self.workers.remove(worker)

    def snapshot(self, name: str) -> int:
        """Everybody cuts where it stands, and closes."""
        places = sorted({tp for worker in self.workers for tp in worker.positions})
        before = self.runner.run(self.admin.log_ends(places))
        ends = tuple(LogEnd(topic=tp.topic, partition=tp.partition, end=before[tp]) for tp in places)
        self.numbers += 1
        trigger = Trigger(n=self.numbers, id=name, ends=ends)
        epoch = self.stage.epoch = self.runner.run(self.stage.append(trigger)) + 1
        reports = [self.runner.run(self._report(worker, epoch)) for worker in self.workers]
        for worker, report in zip(self.workers, reports, strict=True):
            self.runner.run(self._close(worker, epoch, report))
            worker.red = epoch
        return epoch

    async def _report(self, worker: Worker, epoch: int) -> int:
        return await worker.sender.write_record(
            CutReport,
            epoch=epoch,
            previous=worker.red,
            heard="ledger",
            assigned=-1,
            positions=tuple(
                Position(agent="*", topic=tp.topic, partition=tp.partition, offset=at)
                for tp, at in worker.positions.items()
            ),
            changelogs=tuple(worker.tables),
        )

    async def _close(self, worker: Worker, epoch: int, report: int) -> None:
        ends = await self.admin.log_ends(sorted(worker.positions))
        await worker.sender.write_record(
            Closed,
            epoch=epoch,
            report=report,
            sent=tuple(self._sent(worker, tp, sent, epoch) for tp, sent in worker.sent.items()),
            changelogs=tuple(
                ChangelogEnd(
                    table=tp.topic.rsplit("-", 1)[1], topic=tp.topic, partition=tp.partition, end=end
                )
                for tp, end in worker.tables.items()
            ),
            input_ends=tuple(
                LogEnd(topic=tp.topic, partition=tp.partition, end=end) for tp, end in ends.items()
            ),
        )

    @staticmethod
    def _sent(worker: Worker, tp: TopicPartition, sent: Sent, epoch: int) -> SentEnd:
        last_seq, white_end = sent.white(epoch)
        return SentEnd(
            topic=tp.topic,
            partition=tp.partition,
            white_end=white_end,
            last_seq=last_seq,
            recreated=sent.recreated >= worker.red,
        )

    def close(self) -> None:
        self.runner.run(self.stage.ledger.close())
        self.runner.run(self.admin.close())
        self.runner.close()


@contextmanager
def played(broker: Broker, name: str) -> Iterator[Play]:
    play = Play(broker.bootstrap, f"rc{os.getpid()}{name}")
    try:
        yield play
    finally:
        play.close()


@contextmanager
def settings_for(play: Play, name: str) -> Iterator[tuple[Desk, Settings]]:
    with Desk(Connection(bootstrap=play.stage.bootstrap), play.stage.namespace) as desk:
        captured = desk.captured(name)
        yield (
            desk,
            settings_of(desk.ledger(captured), bootstrap=play.stage.bootstrap),
        )


def assembled(spark: SparkSession, play: Play, name: str, folder: Path) -> Manifest:
    with settings_for(play, name) as (desk, settings):
        view = desk.look(desk.captured(name), "read_committed")
        return assemble(spark, view, settings, LocalStore(folder))


def verified(spark: SparkSession, play: Play, name: str) -> list[CheckOutcome]:
    with settings_for(play, name) as (desk, settings):
        view = desk.look(desk.captured(name), "read_committed")
        return verify(spark, view, settings).outcomes


def reasons(manifest: Manifest) -> str:
    return " ".join(w.what for check in manifest.checks for w in check.witnesses)


def test_a_changelog_that_was_recreated_while_its_writer_ran_is_not_verified_by_who_joined_since(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    """The writer holds 20 keys, the new changelog one of them; a worker that joined since knows the new topic."""
    with played(kafka, "log") as play:
        play.create("in", 2)
        play.create("table", 2, table=True)
        writer = play.join("shop", ("in",), ("table",), of=2)
        held = {f"k{n}" for n in range(20)}
        for key in sorted(held):
            writer.send(play.tp("table"), key)
        writer.positions, writer.tables = {play.tp("in"): 0}, {play.tp("table"): 20}
        play.create("table", 2, table=True)
        other = play.join("shop", ("in",), ("table",), of=2)
        other.positions, other.tables = {play.tp("in", 1): 0}, {play.tp("table", 1): 0}
        play.snapshot("first")  # what shows that it was recreated is told here
        writer.tables[play.tp("table")] = writer.send(play.tp("table"), "k0") + 1
        play.snapshot("second")
        play.snapshot("third")
        with pytest.raises(OffsetsGoneError) as refused:
            assembled(spark, play, "third", tmp_path)
        who = f"process {writer.sender.process} of shop joined"
        assert f"topic {play.stage.topic('table')} was recreated since {who}" in str(refused.value)
        outcomes = {found.check: found for found in verified(spark, play, "third")}
        assert outcomes["V3"].status == "unverifiable"
        assert "recreated since process" in str(outcomes["V3"].witnesses[0]), "and not: compacted"
        assert {found.status for found in outcomes.values()} <= {"passed", "unverifiable"}


def test_a_position_in_a_topic_that_is_gone_is_not_verified_by_who_joined_since(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    with played(kafka, "pos") as play:
        play.create("in", 2)
        reader = play.join("shop", ("in",), of=2)
        for n in range(3):
            play.stage.send(play.tp("in"), b"%d" % n, b"1")
        reader.positions = {play.tp("in"): 3}
        play.create("in", 2)
        for n in range(5):
            play.stage.send(play.tp("in"), b"%d" % n, b"1")
        other = play.join("shop", ("in",), of=2)
        other.positions = {play.tp("in", 1): 0}
        play.snapshot("snap")
        with pytest.raises(OffsetsGoneError):
            assembled(spark, play, "snap", tmp_path)
        assert {found.status for found in verified(spark, play, "snap")} <= {"passed", "unverifiable"}


def test_a_topic_that_was_recreated_after_the_cut_is_not_taken_for_the_old_one(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    """Whoever joins then finds the new one, and has no part in the snapshot."""
    with played(kafka, "late") as play:
        play.create("in")
        reader = play.join("shop", ("in",))
        reader.positions = {play.tp("in"): 0}
        play.snapshot("snap")
        play.create("in")
        play.join("shop", ("in",))
        with pytest.raises(OffsetsGoneError):
            assembled(spark, play, "snap", tmp_path)


def test_a_sender_that_runs_on_when_its_output_is_recreated_is_accused_of_nothing(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    """The oracle: of what lies in the new topic every reader has received no more than was sent at the cut. Its reader
    was restarted, and has effects of events of the old topic in its table, whose offsets are red ones in the new."""
    with played(kafka, "out") as play:
        for name in ("in", "mid", "audit"):
            play.create(name)
        play.create("table", table=True)
        sender = play.join("pass", ("in",))
        sender.positions = {play.tp("in"): 0}
        old = play.join("take", ("mid",), ("table",))
        for n in range(5):
            at = sender.send(play.tp("mid"), f"m{n}")
            old.send(play.tp("table"), f"m{n}", cause=(play.tp("mid"), at))
        play.leave(old)

        play.create("mid")
        new = play.join("take", ("mid",), ("table",))
        new.positions, new.tables = {play.tp("mid"): 0}, {play.tp("table"): 5}
        play.snapshot("unsent")  # nothing was sent there since
        sender.send(play.tp("mid"), "n0")
        play.snapshot("shown")  # an acknowledgement has shown it
        for n in range(1, 3):
            sender.send(play.tp("mid"), f"n{n}")
        new.positions[play.tp("mid")] = 1
        last = play.snapshot("next")
        for n in range(3, 8):
            assert sender.red == last
            sender.send(play.tp("mid"), f"n{n}")  # red, at the offsets of what was received of the old topic

        found = {name: assembled(spark, play, name, tmp_path) for name in ("unsent", "shown", "next")}
        assert found["unsent"].verdict == "UNVERIFIABLE", reasons(found["unsent"])
        assert "the topic was recreated since that process joined" in reasons(found["unsent"])
        assert found["shown"].verdict == "UNVERIFIABLE"
        assert f"topic {play.stage.topic('mid')} was recreated" in found["shown"].captured.contaminated
        assert found["next"].verdict == "VERIFIED", reasons(found["next"])
        rows = {table.name: table.rows for table in found["next"].tables}
        received, sent = 1, 3  # of the new topic, at that cut
        assert rows["messages"] == sent - received
        assert rows["state"] == 5
