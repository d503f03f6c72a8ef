"""R7, R8 and R15 for real: sends that the broker refuses, also for our header alone, and sends without a result, as a
frozen broker has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from snapkafka.checks import CutView, Verdict
from snapkafka.protocol import TopicPartition
from snapkafka.protocol.records import SENT_BARE
from snapkafka.testing import EmbeddedKafka, create_topics
from tests.chaos.judge import log_record, read_log, verdict_of
from tests.driver.live import Live
from tests.freezing import freeze, thaw
from tests.observing import Place

from . import harness

pytestmark = pytest.mark.timeout(200)


class Unsettled(Live):
    """A worker on a broker of its own, which says in files of `reported` how far it is."""

    broker: EmbeddedKafka

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.reported = self.system.folder / "told"
        self.reported.mkdir()

    def do(self, key: str, value: str) -> None:
        record = (key, json.dumps(value).encode(), None)
        harness.produce(self.broker.bootstrap, self.topic("in-orders"), [record])
        if value != "freeze":
            self.wait_for(f"done-{key}")

    def wait_for(self, name: str) -> None:
        self.until(f"the app to write {name}", (self.reported / name).exists)

    def verdict(self, name: str) -> tuple[Verdict, dict[str, int], CutView]:
        """Of a new snapshot, with what was found."""
        for n in range(3):  # the result of a send may come while a snapshot is open
            snapshot = self.take(f"{name} {n}", ttl_ms=20_000)
            if snapshot.failure is None:
                break
            assert snapshot.failure.code in ("send-failed", "send-unsettled", SENT_BARE), snapshot.failure
        assert snapshot.failure is None, snapshot.failure
        observer = self.observer
        log = read_log(observer)
        verdict, counts = verdict_of(observer.state, log, snapshot.epoch)
        return verdict, dict(counts), CutView(observer.state.captured(snapshot.epoch), log.bounds)

    def table(self, view: CutView) -> dict[Any, Any]:
        """The table of a snapshot: the last white value of each key below the end."""
        found, ledger = {}, self.observer.ledger.ledger_id
        topic = self.topic("orders-changelog")
        for record in harness.read_topics(self.broker.bootstrap, topic)[""]:
            tp = TopicPartition(topic, record.partition)
            if view.in_state(log_record(tp, record.offset, record.stamp, ledger, {})):
                found[json.loads(record.key or b"")] = json.loads(record.value or b"null")
        return found


@pytest.fixture
def unsettled(namespace: str, tmp_path: Path) -> Iterator[Unsettled]:
    topics = ("in-orders", "orders-out")
    with (
        EmbeddedKafka() as broker,
        Unsettled.running(
            Place(broker.bootstrap, namespace, tmp_path), topics=topics, tables=(), partitions=1
        ) as run,
    ):
        settings = {"cleanup.policy": "compact", "max.message.bytes": "2000"}
        create_topics(broker.bootstrap, run.topic("orders-changelog"), partitions=1, config=settings)
        run.broker = broker
        run.start("tests.features.apps.unsettled", FEATURES_TOLD=str(run.reported))
        run.await_workers()
        yield run


def test_r7_a_table_write_that_was_refused_and_is_the_last_is_in_the_verdict(unsettled: Unsettled) -> None:
    """The live table has the value, the log has not, and nothing that comes after it shows that anything is missing."""
    unsettled.do("kept", "small")
    assert unsettled.verdict("before")[:2] == (Verdict.VERIFIED, {})
    unsettled.do("lost", "refuse")
    verdict, counts, view = unsettled.verdict("after")
    assert (verdict, counts) == (Verdict.UNVERIFIABLE, {"send-failed": 1})
    (sender,) = (s for s in view.captured.senders if s.topic.endswith("-changelog"))
    assert [(item.first, item.last, item.refused) for item in sender.unacknowledged] == [(1, 1, True)]
    assert unsettled.table(view) == {"kept": "small"}


def test_r15_a_table_write_that_fits_without_our_header_arrives(unsettled: Unsettled) -> None:
    unsettled.do("fits", "fit")
    unsettled.do("next", "small")
    verdict, counts, view = unsettled.verdict("after")
    assert (verdict, counts) == (Verdict.VERIFIED, {})
    assert {key: len(value) for key, value in unsettled.table(view).items()} == {"fits": 1_910, "next": 5}
    written = harness.read_topics(unsettled.broker.bootstrap, unsettled.topic("orders-changelog"))[""]
    assert [record.stamp is None for record in written] == [True, False]


def test_r8_a_send_that_timed_out_counts_with_the_next_one(unsettled: Unsettled) -> None:
    """The broker is stopped for longer than the producer waits, and serves what it was sent when it goes on. Nothing of
    its sender shows whether it is in the log, until something of it lies above."""
    unsettled.do("before", "small")
    unsettled.do("late", "freeze")
    unsettled.wait_for("waiting")
    freeze(unsettled.broker)
    try:
        (unsettled.reported / "frozen").touch()
        unsettled.wait_for("failed")
    finally:
        thaw(unsettled.broker)
    unsettled.until("the table write to land", lambda: unsettled.count("orders-changelog") == 2)
    verdict, counts, _ = unsettled.verdict("after")
    assert counts.get("white-unsettled", 0) >= 1, "else nothing timed out"
    assert verdict is Verdict.UNVERIFIABLE
    unsettled.do("next", "small")
    verdict, counts, view = unsettled.verdict("later")
    assert (verdict, set(counts)) == (Verdict.VERIFIED, {"landed"})
    assert unsettled.table(view) == {"before": "small", "late": "freeze", "next": "small"}
    (sender,) = (s for s in view.captured.senders if s.topic == unsettled.topic("orders-changelog"))
    assert sender.white_end == 3
    assert [item.refused for item in sender.unacknowledged] == [False]
