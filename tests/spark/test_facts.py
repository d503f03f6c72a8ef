"""What is asked of the cluster before anything is read."""

from __future__ import annotations

import os

import pytest

from snapkafka.assembly import Desk, cluster
from snapkafka.kafka import Connection
from snapkafka.testing import Broker
from snapkafka.units import wall_ms
from tests.spark.scene import Stage, play


@pytest.fixture(scope="module")
def stage(kafka: Broker) -> Stage:
    return play(kafka.bootstrap, f"f{os.getpid()}")


@pytest.mark.parametrize("behind_ms", [0, 2 * 3_600_000])
def test_ages_are_by_the_clock_of_the_broker(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, behind_ms: int
) -> None:
    """Assembly appends a record that every reader skips, and whose time the broker says; a clock of this machine that
    is behind makes no cut younger, and where only that can be asked it makes the age unknown."""
    captured = stage.captured
    assert captured is not None
    real = wall_ms
    monkeypatch.setattr("snapkafka.assembly.cluster.wall_ms", lambda: real() - behind_ms)
    with Desk(Connection(bootstrap=stage.bootstrap), stage.namespace) as desk:
        before = desk.reading.state.snapshots[stage.epoch]
        keeping = desk.look(captured, "read_uncommitted").keeping(stage.tp("balances"))
        triggered_ms = desk.ledger(captured).triggered_ms
        assert keeping is not None
        assert 0 <= keeping.age_ms <= real() - triggered_ms + 1_000
        assert desk.reading.state.snapshots[stage.epoch] == before, "it changes nothing"
    isolation = "read_uncommitted"
    alone = stage.ask(lambda it: cluster.look(it, captured, isolation=isolation, triggered_ms=triggered_ms))
    assert (alone.keeping(stage.tp("balances")) is None) == bool(behind_ms)


@pytest.mark.parametrize("isolation", cluster.ISOLATIONS)
def test_where_every_topic_is_gone_nothing_is_there(kafka: Broker, namespace: str, isolation: str) -> None:
    """So that it is told as any other loss, and no client fails over having nothing to ask."""
    lost = play(kafka.bootstrap, namespace)
    captured = lost.captured
    assert captured is not None
    lost.delete(*(lost.topic(name) for name in ("orders", "credits", "balances")))
    view = lost.ask(lambda admin: cluster.look(admin, captured, isolation=isolation))
    assert view.bounds == {}
