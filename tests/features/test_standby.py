"""Tables with a standby replica, two workers each, with snapkafka and without."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from snapkafka.demo.observer import observing
from snapkafka.demo.system import System, wait_until
from snapkafka.kafka.triggering import compose_trigger
from snapkafka.protocol.records import TopicPartition
from snapkafka.testing import Broker, create_topics

from .harness import running
from .judging import Judge, Row

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

ROWS = [Row("standby-tables", ("kept",), ("kept-out",), tables=("kept",))]
SECONDS = 6.0
COUNT = 250
RECORDS: Sequence[tuple[str, bytes, int | None]] = [
    (f"k{n % 11}", json.dumps({"n": n}).encode(), None) for n in range(COUNT)
]


@pytest.fixture(scope="module")
def judge(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with running(
        kafka.bootstrap,
        f"t{uuid.uuid4().hex[:8]}",
        tmp_path_factory.mktemp("standby"),
        "tests.features.apps.standing",
        inputs=["kept"],
        outputs=["kept-out"],
        changelogs=["kept"],
        workers=2,
    ) as pair:
        pair.load({"kept": RECORDS}, seconds=SECONDS)
        pair.wait_for({"kept-out": COUNT})
        pair.finish()
        yield Judge(pair)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row(judge: Judge, row: Row) -> None:
    judge.same(row)
    judge.captured(row)


def test_every_snapshot_is_consistent(judge: Judge) -> None:
    assert len(judge.snapshots) >= 3, "two under load, and the last one"
    assert all(len(captured.processes) == 2 for captured in judge.snapshots)
    judge.consistent()


def test_the_same_exceptions(judge: Judge) -> None:
    judge.same_errors()


def test_r2_a_red_record_of_a_standby_changelog_turns_its_reader_red(kafka: Broker, tmp_path: Path) -> None:
    """R2: turn red before taking in red, whoever reads it. The second worker hears by headers only, and gets no other
    record than those of the changelog that it is a standby of."""
    namespace = f"t{uuid.uuid4().hex[:8]}"
    app, source = f"{namespace}-app", f"{namespace}-in"
    create_topics(kafka.bootstrap, f"{source}-kept", f"{app}-kept-out", partitions=2)
    create_topics(
        kafka.bootstrap, f"{app}-kept-changelog", partitions=2, config={"cleanup.policy": "compact"}
    )
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    env = {"FEATURES_ID": app, "FEATURES_INPUT": source}
    module = "tests.features.apps.standing"
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            first = system.start_worker(app, env, module=module)
            second = system.start_worker(app, env | {"FEATURES_HEAR": "headers"}, module=module)
            observer.wait_for_workers(system)
            views = {view.hello.pid: view for view in observer.state.living()}
            writes, stands_by = views[first.pid], views[second.pid]
            (read,) = writes.inputs
            trigger = observer.call(
                compose_trigger(observer.admin, observer.state, snapshot_id="s", ttl_ms=30_000)
            )
            epoch = observer.call(observer.ledger.append(trigger)) + 1
            snapshots = observer.state.snapshots
            wait_until(
                "the first worker to have cut",
                lambda: epoch in snapshots and writes.process in snapshots[epoch].reports,
                timeout_s=30,
                system=system,
            )
            assert stands_by.process not in snapshots[epoch].reports, "it has heard of it otherwise"
            observer.call(_write(kafka.bootstrap, read))
            wait_until(
                "the snapshot to be decided", lambda: not snapshots[epoch].open, timeout_s=60, system=system
            )
            assert snapshots[epoch].failure is None, snapshots[epoch].failure
            heard = {cut.process: cut.heard for cut in observer.state.captured(epoch).processes}
            assert heard == {writes.process: "ledger", stands_by.process: "header"}
    finally:
        system.stop()


async def _write(bootstrap: str, tp: TopicPartition) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for n in range(10):
            await producer.send(tp.topic, key=b"k%d" % n, value=b"{}", partition=tp.partition)
