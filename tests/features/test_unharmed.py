"""R15: how far an app is rolled out, what snapkafka needs is not there, or is taken away from a worker that takes part.
The app does what it does without us, and nothing has to be restarted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from snapkafka import ops
from snapkafka.errors import TriggerRefusedError
from snapkafka.kafka import SETTINGS, Connection, topic_name
from snapkafka.testing import EmbeddedKafka, create_topics
from tests.kafka.doors import PASSWORD, guarded_broker
from tests.observing import Place

from .harness import Pair, both_counting
from .judging import Judge, Row
from .test_outage import begin_slow

pytestmark = pytest.mark.timeout(400)

ROW = Row("counted", ("counted",), ("counted-out",), tables=("counted",))
COUNT = 200
#: Events, and over how many seconds: longer than what happens meanwhile.
LOAD, LOAD_S = 600, 20.0


def feed(pair: Pair, count: int = COUNT, seconds: float = 4.0) -> None:
    pair.send({"counted": [(f"k{n % 7}", b"{}", None) for n in range(count)]}, seconds=seconds)


def compare(pair: Pair, count: int = COUNT) -> None:
    """Wait for what both runs write, stop them, and compare it."""
    pair.wait_for({"counted-out": count})
    pair.end()
    judge = Judge(pair)
    judge.same(ROW)
    judge.same_errors()
    judge.consistent()


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[EmbeddedKafka, str]]:
    with guarded_broker(["SHOP"], {"allow.everyone.if.no.acl.found": "true"}) as found:
        yield found


@pytest.mark.parametrize("operation", [AclOperation.ALL, AclOperation.WRITE])
def test_r15_a_principal_without_rights_on_the_ledger(
    guarded: tuple[EmbeddedKafka, str], namespace: str, tmp_path: Path, operation: AclOperation
) -> None:
    """It may do whatever it did before, and nothing with the ledger, or only read it."""
    broker, address = guarded
    ledger = topic_name(namespace)
    create_topics(broker.bootstrap, ledger, partitions=1, config=dict(SETTINGS))
    of_ours = (ResourceType.TOPIC, ledger, ResourcePatternType.LITERAL, "User:SHOP", "*")
    denied = AclBinding(*of_ours, operation, AclPermissionType.DENY)
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_acls([denied])[denied].result(30)
    env = {"SNAPKAFKA_BOOTSTRAP": address, "FEATURES_USER": "SHOP", "FEATURES_PASSWORD": PASSWORD}
    with both_counting(Place(broker.bootstrap, namespace, tmp_path), env=env, joins=False) as pair:
        feed(pair)
        assert not pair.observer.state.processes, "it has joined: this shows nothing"
        compare(pair)
    for line in ("not allowed", "this worker runs without snapshots"):
        assert line in pair.ours.log


@pytest.mark.parametrize("mode", ["observe", "stamp"])
def test_r15_each_mode_leaves_the_app_as_it_is(place: Place, mode: str) -> None:
    """Outputs, changelogs, headers and exceptions are those of an app without us. `observe` writes nothing anywhere and
    says what a snapshot would hold; `stamp` puts a header on every record, joins, and refuses snapshots."""
    env = {"FEATURES_MODE": mode}
    with both_counting(place, env=env, joins=mode == "stamp") as pair:
        feed(pair)
        if mode == "stamp":
            with pytest.raises(TriggerRefusedError):
                asyncio.run(ops.trigger(Connection(bootstrap=place.bootstrap), place.namespace))
        hellos = [view.hello.mode for view in pair.observer.state.processes.values()]
        compare(pair)
        stamped = [record.stamp is not None for records in pair.ours.records.values() for record in records]
        assert len(stamped) >= 2 * COUNT
        if mode == "observe":
            assert hellos == []
            assert not any(stamped)
            assert f"snapkafka observes: a snapshot of {pair.ours.id} would hold" in pair.ours.log
        else:
            assert hellos == ["stamp"]
            assert all(stamped)


@pytest.mark.nightly
def test_r15_paused_and_resumed_without_a_restart(place: Place) -> None:
    """What is under way fails by that name, nothing is started meanwhile, and the next is captured."""
    here = Connection(bootstrap=place.bootstrap)
    with both_counting(place) as pair:
        pair.snapshot()
        processes = set(pair.observer.state.processes)
        with ThreadPoolExecutor(1) as pool:
            load = pool.submit(feed, pair, LOAD, LOAD_S)
            begin_slow(pair)
            under_way = pair.observer.ask("under way", ttl_ms=20_000)
            asyncio.run(ops.pause(here, place.namespace))
            assert getattr(pair.observer.decided(under_way).failure, "code", "") == "paused"
            with pytest.raises(TriggerRefusedError) as refused:
                asyncio.run(ops.trigger(here, place.namespace))
            assert refused.value.facts["reason"] == "paused"
            asyncio.run(ops.resume(here, place.namespace))
            pair.snapshot()
            assert not load.done(), "nothing was sent during the last of it"
            load.result()
        pair.wait_for({"counted-out": LOAD})
        pair.snapshot()
        compare(pair, LOAD)
        assert set(pair.observer.state.processes) == processes, "a worker has joined anew"
