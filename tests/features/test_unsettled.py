"""R7 and R8 for real: sends that the broker refuses, and sends without a result, as a frozen broker has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from snapkafka.checks import CutView, Verdict
from snapkafka.demo import Observer, System, observing, wait_until
from snapkafka.protocol import TopicPartition
from snapkafka.testing import EmbeddedKafka, create_topics
from tests.chaos.judge import read_log, verdict_of
from tests.driver.live import take

from . import harness

pytestmark = pytest.mark.timeout(200)

MODULE = "tests.features.apps.unsettled"


@dataclass
class Live:
    """A worker on a broker of its own."""

    broker: EmbeddedKafka
    system: System
    observer: Observer
    app: str
    reported: Path

    def do(self, key: str, value: str) -> None:
        harness.produce(
            self.broker.bootstrap, f"{self.app}-in-orders", [(key, json.dumps(value).encode(), None)]
        )

    def wait_for(self, name: str) -> None:
        wait_until(
            f"the app to write {name}",
            (self.reported / name).exists,
            timeout_s=60,
            system=self.system,
            period_s=0.02,
        )

    def verdict(self, name: str) -> tuple[Verdict, dict[str, int], CutView]:
        """Of a new snapshot, with what was found."""
        for n in range(3):  # the result of a send may come while a snapshot is open
            snapshot = take(self.observer, f"{name} {n}", ttl_ms=20_000)
            if snapshot.failure is None:
                break
            assert snapshot.failure.code in ("send-failed", "send-unsettled"), snapshot.failure
        assert snapshot.failure is None, snapshot.failure
        log = self.observer.call(read_log(self.observer))
        verdict, counts = verdict_of(self.observer.state, log, snapshot.epoch)
        return verdict, dict(counts), CutView(self.observer.state.captured(snapshot.epoch), log.bounds)

    def table(self, view: CutView) -> dict[Any, Any]:
        """The table of a snapshot: the last white value of each key below the end."""
        found = {}
        topic = f"{self.app}-orders-changelog"
        white = {
            record[1:3]
            for place, records in self.observer.call(read_log(self.observer)).records.items()
            if place.topic == topic
            for record in records
            if view.in_state(record)
        }
        for record in harness.read_topics(self.broker.bootstrap, f"{self.app}-orders-changelog")[""]:
            if (record.partition, record.offset) in white:
                found[json.loads(record.key or b"")] = json.loads(record.value or b"null")
        return found


@pytest.fixture
def live(namespace: str, tmp_path: Path) -> Iterator[Live]:
    app, reported = f"{namespace}-unsettled", tmp_path / "told"
    reported.mkdir()
    with EmbeddedKafka() as broker:
        create_topics(broker.bootstrap, f"{app}-in-orders", f"{app}-orders-out", partitions=1)
        settings = {"cleanup.policy": "compact", "max.message.bytes": "2000"}
        create_topics(broker.bootstrap, f"{app}-orders-changelog", partitions=1, config=settings)
        system = System(bootstrap=broker.bootstrap, namespace=namespace, folder=tmp_path)
        env = {"FEATURES_ID": app, "FEATURES_INPUT": f"{app}-in", "FEATURES_TOLD": str(reported)}
        try:
            with observing(broker.bootstrap, namespace) as observer:
                system.start_worker(app, env, module=MODULE)
                observer.wait_for_workers(system)
                yield Live(broker, system, observer, app, reported)
        finally:
            harness.stop(system)


def test_r7_a_table_write_that_was_refused_and_is_the_last_is_in_the_verdict(live: Live) -> None:
    """The live table has the value, the log has not, and nothing that comes after it shows that anything is missing."""
    live.do("kept", "small")
    live.wait_for("done-kept")
    assert live.verdict("before")[:2] == (Verdict.VERIFIED, {})
    live.do("lost", "refuse")
    live.wait_for("done-lost")
    verdict, counts, view = live.verdict("after")
    assert (verdict, counts) == (Verdict.UNVERIFIABLE, {"send-failed": 1})
    (sender,) = (s for s in view.captured.senders if s.topic.endswith("-changelog"))
    assert [(item.first, item.last, item.refused) for item in sender.unacknowledged] == [(1, 1, True)]
    assert live.table(view) == {"kept": "small"}


def test_r8_a_send_that_timed_out_and_lies_in_the_log_counts_as_sent(live: Live) -> None:
    """The broker is stopped for longer than the producer waits, and serves what it was sent when it goes on."""
    live.do("before", "small")
    live.wait_for("done-before")
    live.do("late", "freeze")
    live.wait_for("waiting")
    live.broker.freeze()
    try:
        (live.reported / "frozen").touch()
        live.wait_for("failed")
    finally:
        live.broker.thaw()
    changelog = TopicPartition(f"{live.app}-orders-changelog", 0)
    wait_until(
        "the table write to land",
        lambda: live.observer.call(live.observer.admin.log_ends([changelog]))[changelog] == 2,
        timeout_s=30,
        system=live.system,
    )
    verdict, counts, view = live.verdict("after")
    assert counts.get("landed", 0) >= 1, "else nothing timed out"
    assert (verdict, set(counts)) == (Verdict.VERIFIED, {"landed"})
    assert live.table(view) == {"before": "small", "late": "freeze"}
    (sender,) = (s for s in view.captured.senders if s.topic == changelog.topic)
    assert (sender.white_end, sender.landed_end) == (1, 2)
    assert [item.refused for item in sender.unacknowledged] == [False]
