"""Assembled from a real broker whose logs are not as they were at the cut, or never were as one would have them:
topics that were made anew, times that are none, open transactions."""

import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from snapkafka.assembly import Desk, cluster
from snapkafka.assembly.spark_errors import as_ours
from snapkafka.checks import Status
from snapkafka.errors import BadInputError, OffsetsGoneError, TimedOutError
from snapkafka.kafka import Connection
from snapkafka.testing import Broker
from snapkafka.units import wall_ms
from tests.altering import alter_settings
from tests.spark.engines import Engine, rows
from tests.spark.scene import Stage, play, play_on
from tests.worlds.stores import LocalStore


@pytest.fixture
def stage(kafka: Broker, namespace: str) -> Stage:
    return play(kafka.bootstrap, namespace)


@pytest.mark.parametrize("name", ["orders", "balances"])
def test_a_topic_that_was_made_anew_is_known_by_its_id(
    engine: Engine, stage: Stage, tmp_path: Path, name: str
) -> None:
    """It has as many records as the snapshot needs: no offset gives it away."""
    stage.delete(topic := stage.topic(name))
    stage.ask(lambda admin: admin.create_topic(topic, partitions=2, settings={}))
    for _ in range(12):
        stage.send(stage.tp(name), b'"x"', b"1")
    with pytest.raises(OffsetsGoneError, match=f"{topic}"):
        engine.assemble(stage, LocalStore(tmp_path))
    assert list(tmp_path.iterdir()) == []
    outcomes = {found.name: found for found in engine.verify(stage)[1].outcomes}
    doubted = {check for check, found in outcomes.items() if found.status is Status.UNVERIFIABLE}
    assert doubted == {"V1", "V2", "V4", *(["V3"] if name == "balances" else [])}
    for check in doubted:
        assert topic in {witness.topic for witness in outcomes[check].witnesses}


@pytest.mark.nightly
def test_spark_names_a_time_in_nanoseconds(spark: Any, stage: Stage, tmp_path: Path) -> None:
    """Its reader ends at it; the embedded engine reads it (`test_engines`)."""
    settings = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
    alter_settings(stage.bootstrap, stage.topic("balances"), settings)
    nanoseconds = 1_790_000_000_123_456_789
    stage.players[0].send(stage.tp("balances"), b'"nano"', b"2", epoch=stage.epoch, at_ms=nanoseconds)
    play_on(stage, "next")
    with pytest.raises(Exception, match="overflow") as raised:
        Engine("spark", spark).assemble(stage, LocalStore(tmp_path), "next", whole=True)
    assert isinstance(as_ours(raised.value, print), BadInputError)


def test_transactions_that_are_open_across_the_cut(
    engine: Engine, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are waited for: what is committed in the end is there, what is aborted is not; who waits in vain says so."""
    producers = [_transactional(stage, n) for n in range(2)]
    plain, orders = stage.producer, stage.tp("orders")
    (_, beta), store = stage.players, LocalStore(tmp_path)
    stage.producer = producers[0]
    committed = beta.send(orders, b'"committed"', b"1", epoch=stage.epoch)
    stage.producer = producers[1]
    aborted = stage.send(stage.tp("balances"), b'"aborted"', b"1")
    stage.producer = plain
    last = beta.send(orders, b'"after"', b"1", epoch=stage.epoch)
    play_on(stage, "next", (b'"more"', b"1"))

    with monkeypatch.context() as patch:
        patch.setattr(cluster, "STABLE_TIMEOUT_S", 0.5)
        with pytest.raises(TimedOutError):
            engine.assemble(stage, store, "next", whole=True)
    ends = [producers[0].commit_transaction, producers[1].abort_transaction]
    timers = [threading.Timer(2, end, (20,)) for end in ends]
    for timer in timers:
        timer.start()
    manifest = engine.assemble(stage, store, "next", whole=True)
    assert all(timer.finished.is_set() for timer in timers), "it has not waited"
    assert manifest.verdict == "VERIFIED"
    messages = {
        row["offset"]: row["key"] for row in rows(store, manifest, "messages") if row["topic"] == orders.topic
    }
    assert (messages[committed], messages[last]) == ("committed", "after")
    state = {row["key"]: row["changelog_offset"] for row in rows(store, manifest, "state")}
    assert "more" in state
    assert aborted not in state.values()
    assert "aborted" not in state
    store = LocalStore(tmp_path / "raw")
    raw = engine.assemble(stage, store, "next", whole=True, isolation="read_uncommitted")
    assert "aborted" in {row["key"] for row in rows(store, raw, "state")}, "or nothing was shown"


def _transactional(stage: Stage, n: int) -> Producer:
    name = f"{stage.namespace}-{n}"
    producer = Producer({"bootstrap.servers": stage.bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(20)
    producer.begin_transaction()
    return producer


# -- what is asked of the cluster before anything is read ------------------------------------------------------------


def test_ages_are_by_the_clock_of_the_broker(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assembly appends a record that every reader skips, and whose time the broker says; a clock of this machine that
    is behind makes no cut younger, and where only that can be asked it makes the age unknown."""
    captured, now_ns, balances = stage.captured, time.time_ns, stage.tp("balances")
    assert captured is not None
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() - 2 * 3_600_000_000_000)
    with Desk(Connection(bootstrap=stage.bootstrap), stage.namespace) as desk:
        before = desk.reading.state.snapshots[stage.epoch]
        keeping = desk.look(captured, "read_uncommitted").keeping(balances)
        triggered_ms = desk.ledger(captured).triggered_ms
        assert keeping is not None
        assert 0 <= keeping.age_ms <= now_ns() // 1_000_000 - triggered_ms + 1_000
        assert desk.reading.state.snapshots[stage.epoch] == before, "it changes nothing"
    for age_ms, known in ((0, True), (wall_ms() - triggered_ms, False)):
        look = partial(cluster.look, captured=captured, isolation="read_uncommitted", age_ms=age_ms)
        assert (stage.ask(look).keeping(balances) is not None) == known
