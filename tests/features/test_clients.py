"""A process that reads no inputs, or has lost them, does not stand in the way of snapshots (R11)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapkafka.testing import Broker
from tests.driver.live import live

from .harness import produce

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
    log = tmp_path / "client.txt"
    with live(kafka, namespace, tmp_path, topics=["asked"], tables=()) as run:
        env = {
            "FEATURES_ID": run.app,
            "SNAPKAFKA_BOOTSTRAP": kafka.bootstrap,
            "SNAPKAFKA_NAMESPACE": namespace,
            "SNAPKAFKA_DEMO_DATA": str(tmp_path / "client"),
        }
        run.start(MODULE, **env)
        run.await_workers()
        state = run.observer.state
        with client(kind, env, log) as process:
            run.until(f"the {kind} to be answered", lambda: answered(log) > 3)
            assert {view.hello.app for view in state.living()} == {run.app, f"{run.app}:client"}
            for n in range(4):
                before = answered(log)
                view = run.take(f"beside {n}", ttl_ms=4_000)
                assert view.failure is None, view.failure
                (joined,) = [v for v in state.living() if v.hello.pid == process.pid]
                assert joined.process in view.reports, "it has sent"
                run.until("it to go on", lambda: answered(log) > before)  # noqa: B023
            assert len([v for v in state.processes.values() if v.hello.pid == process.pid]) == 1
        view = run.take("killed", ttl_ms=2_000)
        assert view.failure is not None, "it may have sent"
        view = run.take("and gone", ttl_ms=4_000)
        assert view.failure is None, view.failure


@pytest.mark.nightly
def test_a_crashed_worker_that_left_its_group_and_hangs_holds_no_snapshot_up(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """It still reads the ledger and reports inputs that somebody else was given before the trigger."""
    with live(kafka, namespace, tmp_path, topics=["asked"], tables=()) as run:
        crashing = run.start(MODULE, FEATURES_ID=run.app, FEATURES_CRASHES="1")
        state = run.observer.state
        run.await_workers()
        run.start(MODULE, FEATURES_ID=run.app)
        run.await_workers()
        run.until(
            "each worker to have an input",
            lambda: sorted(len(view.inputs) for view in state.living()) == [1, 1],
        )
        for partition in range(2):
            produce(kafka.bootstrap, run.topic("asked"), [("k", b"-1", None)], partition=partition)
        heir = next(view for view in state.living() if view.hello.pid != crashing.pid)
        run.until("the other one to have both", lambda: len(heir.inputs) == 2, 90)
        for n in range(5):
            view = run.take(f"while it hangs {n}", ttl_ms=6_000)
            assert view.failure is None, view.failure
            (lost,) = [v for v in state.living() if v.hello.pid == crashing.pid]
            assert lost.process in view.reports, "it may have sent"
        assert crashing.status is None, "it hangs"
        for worker in list(run.system.workers):
            run.system.kill(worker)
