"""R6: a window that expires in red is a write: the white event that reads it later, or goes over the table, is torn."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from snapkafka.demo import System, observing, wait_until
from snapkafka.kafka import compose_trigger
from snapkafka.protocol import Status, TopicPartition
from snapkafka.testing import Broker, create_topics


async def produce(bootstrap: str, topic: str, value: bytes) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, value, b"k")


@pytest.mark.timeout(200)
@pytest.mark.parametrize("look", ["get", pytest.param("iterate", marks=pytest.mark.nightly)])
def test_r6_a_window_that_expires_in_red_tears_who_reads_it_in_white(
    kafka: Broker, namespace: str, tmp_path: Path, look: str
) -> None:
    """The state of the snapshot has 7 in the window: nothing in its changelog says that it expired. The event runs
    across the cut and reads 0, or nothing, as the window has gone since; without the rule it counted as white, beside
    that 7, and nothing was listed."""
    app, gate = f"windows-{namespace}", tmp_path / "gate"
    create_topics(kafka.bootstrap, f"{app}-in", f"{app}-out")
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    out = TopicPartition(f"{app}-out", 0)
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            env = {"SMALL_APP_ID": app, "WINDOWS_GATE": str(gate), "WINDOWS_LOOK": look}
            system.start_worker(app, env, module="tests.driver.windows_app")
            observer.wait_for_workers(system)

            def sent() -> int:
                return observer.call(observer.admin.log_ends([out]))[out]

            def send_and_await(value: bytes, records: int) -> None:
                observer.call(produce(kafka.bootstrap, f"{app}-in", value))
                wait_until(f"{records} records", lambda: sent() >= records, timeout_s=60, system=system)

            send_and_await(b"put", 1)
            send_and_await(b"wait", 2)
            trigger = observer.call(
                compose_trigger(observer.admin, observer.state, snapshot_id="s", ttl_ms=90_000)
            )
            epoch = observer.call(observer.ledger.append(trigger)) + 1
            wait_until(
                "the worker to turn red",
                lambda: epoch in observer.state.snapshots and bool(observer.state.snapshots[epoch].reports),
                timeout_s=30,
                system=system,
            )
            gone = gate.with_suffix(".gone")
            assert not gone.exists(), "the window is there when the worker turns red"
            wait_until("the window to expire", gone.exists, timeout_s=60, system=system)
            gate.touch()
            view = observer.state.snapshots[epoch]
            wait_until("the snapshot", lambda: not view.open, timeout_s=30, system=system)
            assert view.status is Status.CAPTURED, view.failure
            torn = [(one.agent, one.offset) for part in view.parts() for one in part.closed.torn]
            assert torn == [("count", 1)], "what it read is not in the snapshot"
            (state,) = observer.state.captured(epoch).changelogs
            assert state.end == 1, "the record of the 7, and none of its end"
            system.check_alive()
    finally:
        system.stop()
