"""A process that reads no inputs, or has lost them, does not stand in the way of snapshots (R11)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from snapkafka.demo import System, observing, wait_until
from snapkafka.testing import Broker, create_topics
from tests.driver.live import take

pytestmark = pytest.mark.timeout(300)

MODULE = "tests.features.apps.clients"


@contextlib.contextmanager
def client(kind: str, env: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE, kind],
            env=os.environ | env | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def answered(log: Path) -> int:
    return log.read_text(errors="replace").count("answered")


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["client", "producer"])
def test_411_a_client_beside_a_worker_holds_no_snapshot_up(
    kafka: Broker, namespace: str, tmp_path: Path, kind: str
) -> None:
    """`app.start_client()`, as in a web service; and an app that only produces."""
    app = f"{namespace}-clients"
    create_topics(kafka.bootstrap, f"{app}-asked", partitions=2)
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    env = {
        "FEATURES_ID": app,
        "SNAPKAFKA_BOOTSTRAP": kafka.bootstrap,
        "SNAPKAFKA_NAMESPACE": namespace,
        "SNAPKAFKA_DEMO_DATA": str(tmp_path / "client"),
    }
    log = tmp_path / "client.txt"
    try:
        system.start_worker(app, env, module=MODULE)
        with observing(kafka.bootstrap, namespace) as observer:
            observer.wait_for_workers(system)
            with client(kind, env, log) as process:
                wait_until(
                    f"the {kind} to be answered\n{log.read_text(errors='replace')[-2000:]}",
                    lambda: answered(log) > 3,
                    timeout_s=40,
                    system=system,
                )
                state = observer.state
                assert {view.hello.app for view in state.living()} == {app, f"{app}:client"}
                for n in range(4):
                    before = answered(log)
                    view = take(observer, f"beside {n}", ttl_ms=4_000)
                    assert view.failure is None, view.failure
                    (joined,) = [v for v in state.living() if v.hello.pid == process.pid]
                    assert joined.process in view.closed, "it has sent, so it closes"
                    wait_until("it to go on", lambda: answered(log) > before, timeout_s=10)  # noqa: B023
                assert len([v for v in state.processes.values() if v.hello.pid == process.pid]) == 1
            view = take(observer, "killed", ttl_ms=2_000)
            assert view.failure is not None, "it may have sent"
            view = take(observer, "and gone", ttl_ms=4_000)
            assert view.failure is None, view.failure
    finally:
        system.stop()


@pytest.mark.nightly
def test_a_crashed_worker_that_left_its_group_and_hangs_holds_no_snapshot_up(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """It still reads the ledger and reports inputs that somebody else was given before the trigger."""
    app = f"{namespace}-clients"
    create_topics(kafka.bootstrap, f"{app}-asked", partitions=2)
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    env = {"FEATURES_ID": app}
    try:
        crashing = system.start_worker(app, env | {"FEATURES_CRASHES": "1"}, module=MODULE)
        with observing(kafka.bootstrap, namespace) as observer:
            state = observer.state
            observer.wait_for_workers(system)
            system.start_worker(app, env, module=MODULE)
            observer.wait_for_workers(system)
            wait_until(
                "each worker to have an input",
                lambda: sorted(len(view.inputs) for view in state.living()) == [1, 1],
                timeout_s=60,
                system=system,
            )
            asyncio.run(ask_every_partition(kafka.bootstrap, f"{app}-asked", -1))
            heir = next(view for view in state.living() if view.hello.pid != crashing.pid)
            wait_until(
                "the other one to have both", lambda: len(heir.inputs) == 2, timeout_s=90, system=system
            )
            for n in range(5):
                view = take(observer, f"while it hangs {n}", ttl_ms=6_000)
                assert view.failure is None, view.failure
                (lost,) = [v for v in state.living() if v.hello.pid == crashing.pid]
                assert lost.process in view.closed, "it may have sent"
            assert crashing.process.poll() is None, "it hangs"
    finally:
        for worker in list(system.workers):
            system.kill(worker)


async def ask_every_partition(bootstrap: str, topic: str, number: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for partition in range(2):
            await producer.send_and_wait(topic, str(number).encode(), key=b"k", partition=partition)
