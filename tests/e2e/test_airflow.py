"""The example DAGs on a real Airflow, against a real system under load: `airflow dags test`, in its own environment."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from snapkafka.protocol import SnapshotView
from snapkafka.testing import wait_until
from tests.e2e.airflow_runs import RATE, Airflow, airflow_for, all_gone, spark_jobs
from tests.e2e.parts import Live, assemble, live
from tests.e2e.test_damage import white_after_the_marker

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]


@pytest.fixture
def system(namespace: str) -> Iterator[Live]:
    with live(namespace, rate=RATE) as running:
        yield running


@pytest.fixture
def airflow(system: Live, tmp_path: Path) -> Airflow:
    return airflow_for(system, tmp_path)


def snapshots(system: Live) -> list[SnapshotView]:
    return [view for _, view in sorted(system.observer.state.snapshots.items())]


def end_in_assembly(
    airflow: Airflow, system: Live, number: signal.Signals, *arguments: str
) -> list[psutil.Process]:
    """Start a command of Airflow, and signal it once Spark's JVM runs; the processes of that job."""
    process = airflow.start(*arguments)
    try:
        wait_until(
            "the JVM of the Spark job",
            lambda: any(job.name() == "java" for job in spark_jobs(system.bootstrap) if job.is_running()),
            timeout_s=300,
            system=system.system,
        )
        jobs = spark_jobs(system.bootstrap)
        os.kill(process.pid, number)
        if number == signal.SIGKILL:
            process.wait(60)
        return jobs
    finally:
        if number == signal.SIGTERM:
            wait_until("the Spark job to end", lambda: all_gone(jobs), timeout_s=15)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_the_hourly_dag_builds_on_a_full_snapshot_and_a_damaged_topic_fails_verification(
    system: Live, airflow: Airflow, tmp_path: Path
) -> None:
    """One system for all of it, as it takes a minute to start: each part says what it shows."""
    storage = tmp_path / "snapshots"

    # 1. The hourly DAG: trigger, captured (its trigger in line), assemble, verify, prune.
    system.take("full", storage=str(storage))
    assert assemble(system.bootstrap, system.namespace, ["full"], storage)
    output = airflow.dag("snapkafka_hourly", "2026-05-02")
    full, hourly = snapshots(system)
    assert (full.trigger.type, hourly.trigger.type) == ("full", "incremental")
    for view in (full, hourly):
        assert view.verdict is not None
        assert view.verdict.verdict.startswith("VERIFIED")
    manifest = json.loads((storage / f"{hourly.trigger.id}.json").read_text())
    assert [parent["id"] for parent in manifest["parents"]] == [full.trigger.id], "it is incremental"
    assert f"snapshot {hourly.trigger.id} was captured" in output
    assert "removed 0 snapshots and 0 leftovers; 2 stay" in output
    assert "state=success" in output

    # 2. A record in the colour of a sender, after its marker: the task fails, with the very record in its log.
    topic, partition, offset = white_after_the_marker(system, manifest["captured"], other_than=("", 0, 0))
    output = airflow.dag("snapkafka_verify_again", "2026-05-03", snapshot_id=hourly.trigger.id)
    assert f"{topic}[{partition}] offset {offset}" in output
    assert f"snapshot {hourly.trigger.id} is INCONSISTENT" in output
    assert "state=failed" in output


def test_a_dag_is_killed_and_retried_and_nothing_is_left_or_done_twice(
    system: Live, airflow: Airflow, tmp_path: Path
) -> None:
    """One system for all of it, as it takes a minute to start: each part says what it shows."""
    storage = tmp_path / "snapshots"

    # 1. The daily DAG: trigger, captured (its trigger in line), assemble, verify, prune.
    output = airflow.dag("snapkafka_daily_full", "2026-05-01")
    (first,) = snapshots(system)
    assert first.verdict is not None
    assert first.verdict.verdict.startswith("VERIFIED")
    assert f"snapshot {first.trigger.id} was captured" in output
    assert "removed 0 snapshots and 0 leftovers; 1 stay" in output

    # 2. Killed in the middle of assembly, by SIGTERM: no Spark job is left.
    started = time.monotonic()
    jobs = end_in_assembly(
        airflow, system, signal.SIGTERM, "dags", "test", "snapkafka_daily_full", "2026-05-02"
    )
    print(f"SIGTERM: {len(jobs)} processes are gone after {time.monotonic() - started:.1f} s of the run")
    output = airflow.output
    run_id = output.split("run_id='")[1].split("'")[0]
    _, second = snapshots(system)
    assert second.verdict is None
    assert not spark_jobs(system.bootstrap)

    # 3. Its trigger and its assembly tried again; the latter killed by SIGKILL: no Spark job is left, either.
    airflow.task("snapkafka_daily_full", "trigger", run_id)
    assert [view.trigger.id for view in snapshots(system)] == [first.trigger.id, second.trigger.id]
    jobs = end_in_assembly(
        airflow, system, signal.SIGKILL, "tasks", "test", "snapkafka_daily_full", "assemble", run_id
    )
    started = time.monotonic()
    wait_until("the Spark job to end", lambda: all_gone(jobs), timeout_s=15)
    print(f"SIGKILL: {len(jobs)} processes were gone after {time.monotonic() - started:.1f} s")

    # 4. Once more, to the end: one trigger, one snapshot, as its tables say, and nothing else lies there.
    airflow.task("snapkafka_daily_full", "assemble", run_id)
    output = airflow.task("snapkafka_daily_full", "verify", run_id)
    _, second = snapshots(system)
    assert second.trigger.attempt == 1
    assert second.verdict is not None
    assert f"snapshot {second.trigger.id} is {second.verdict.verdict}" in output
    assert second.verdict.verdict.startswith("VERIFIED")
    names = {first.trigger.id, second.trigger.id}
    manifests = [json.loads(path.read_text()) for path in storage.glob("*.json")]
    assert {item["id"] for item in manifests} == names
    assert len([path for path in storage.iterdir() if path.is_dir()]) == len(names)
