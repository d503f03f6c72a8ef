"""R2 where a standby reads: the row of standby tables is in `test_shared`."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from snapkafka.demo import System, observing, wait_until
from snapkafka.kafka import compose_trigger
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, create_topics

pytestmark = pytest.mark.timeout(300)


def test_r2_a_red_record_of_a_standby_changelog_turns_its_reader_red(kafka: Broker, tmp_path: Path) -> None:
    """R2: turn red before taking in red, whoever reads it. The second worker hears by headers only, and gets no other
    record than those of the changelog that it is a standby of."""
    namespace = f"t{uuid.uuid4().hex[:8]}"
    app, source = f"{namespace}-app", f"{namespace}-in"
    inputs = [f"{source}-{name}" for name in ("kept", "rates", "groups", "orders", "members")]
    changelogs = [f"{app}-{name}-changelog" for name in ("kept", "groups")]
    create_topics(kafka.bootstrap, *inputs, f"{app}-kept-out", partitions=2)
    create_topics(kafka.bootstrap, *changelogs, partitions=2, config={"cleanup.policy": "compact"})
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    env = {"FEATURES_ID": app, "FEATURES_INPUT": source}
    module = "tests.features.apps.shared"
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            first = system.start_worker(app, env, module=module)
            second = system.start_worker(app, env | {"FEATURES_HEAR": "headers"}, module=module)
            observer.wait_for_workers(system)
            views = {view.hello.pid: view for view in observer.state.living()}
            writes, stands_by = views[first.pid], views[second.pid]
            (read,) = (tp for tp in writes.inputs if tp.topic == inputs[0])
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
