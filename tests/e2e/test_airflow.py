"""The example DAGs on a real Airflow, against a real system under load: `airflow dags test`, in its own environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest

from snapkafka.demo.system import wait_until
from snapkafka.protocol.completion import SnapshotView
from tests.e2e.parts import Live, live
from tests.e2e.test_damage import white_after_the_marker

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(3600)]

CHECKOUT: Final = Path(__file__).parents[2]
AIRFLOW: Final = Path(os.environ.get("SNAPKAFKA_TEST_AIRFLOW", CHECKOUT / ".venv/airflow")) / "bin"
DAGS: Final = CHECKOUT / "connectors/airflow/src/snapkafka_airflow/example_dags"
#: Longer than any run seen on a busy machine; a hanging one is ended.
RUN_S: Final = 900


@dataclass
class Airflow:
    """An Airflow with a database of its own, whose connection leads to the system and whose Spark job runs here."""

    home: Path
    environ: dict[str, str]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command of Airflow, in a process group of its own; its output goes to `log`."""
        with self.log.open("wb") as out:
            return subprocess.Popen(
                [str(AIRFLOW / "airflow"), *arguments],
                env=self.environ,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self, *arguments: str) -> tuple[int, str]:
        """Exit status and output."""
        process = self.start(*arguments)
        try:
            status = process.wait(RUN_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            print(self.output[-20_000:])
            raise
        return status, self.output

    @property
    def log(self) -> Path:
        return self.home / "output.txt"

    @property
    def output(self) -> str:
        """Of the command that was started last."""
        return self.log.read_text(errors="replace")

    def dag(self, name: str, date: str, **conf: str) -> str:
        """Run a DAG, each task in its order; the output, with the logs of tasks."""
        return self._timed("dags", "test", name, date, "-c", json.dumps(conf))

    def task(self, dag: str, task: str, run_id: str) -> str:
        """Run a task of a run again, as a retry does; the output."""
        return self._timed("tasks", "test", dag, task, run_id)

    def _timed(self, *arguments: str) -> str:
        started = time.monotonic()
        status, output = self.run(*arguments)
        print(output[-20_000:])
        print(f"airflow {' '.join(arguments)}: {status} after {time.monotonic() - started:.0f} s", flush=True)
        return output


@pytest.fixture
def system(namespace: str) -> Iterator[Live]:
    with live(namespace) as running:
        yield running


@pytest.fixture
def airflow(system: Live, tmp_path: Path) -> Airflow:
    assert (AIRFLOW / "airflow").exists(), f"no Airflow in {AIRFLOW}: `make test-airflow` makes it"
    home = tmp_path / "airflow"
    home.mkdir()
    connection = {
        "conn_type": "snapkafka",
        "host": system.bootstrap,
        "extra": {
            "namespace": system.namespace,
            "storage": str(tmp_path / "snapshots"),
            "python": sys.executable,
        },
    }
    (tmp_path / "snapshots").mkdir()
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SNAPKAFKA"))
    }
    environ |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SNAPKAFKA_DEFAULT": json.dumps(connection),
        "PATH": f"{AIRFLOW}:{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
    }
    made = Airflow(home, environ)
    status, output = made.run("db", "migrate")
    assert status == 0, output[-3000:]
    status, output = made.run("dags", "reserialize")
    assert status == 0, output[-3000:]
    return made


def snapshots(system: Live) -> list[SnapshotView]:
    return [view for _, view in sorted(system.observer.state.snapshots.items())]


def spark_jobs(bootstrap: str) -> list[psutil.Process]:
    """Processes of Spark jobs on this broker, their JVMs too."""
    jobs = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if "snapkafka.assembly" in line and f"--bootstrap={bootstrap}" in line:
            jobs += [process, *process.children(recursive=True)]
    return jobs


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


def all_gone(jobs: list[psutil.Process]) -> bool:
    return not any(job.is_running() and job.status() != psutil.STATUS_ZOMBIE for job in jobs)


def test_a_dag_runs_to_success_is_killed_and_retried_and_a_damaged_topic_fails_it(
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
    manifest = json.loads((storage / f"{first.trigger.id}.json").read_text())

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

    # 5. A record in the colour of a sender, after its marker: the task fails, with the very record in its log.
    topic, partition, offset = white_after_the_marker(system, manifest["captured"], other_than=("", 0, 0))
    output = airflow.dag("snapkafka_verify_again", "2026-05-03", snapshot_id=first.trigger.id)
    assert f"{topic}[{partition}] offset {offset}" in output
    assert f"snapshot {first.trigger.id} is INCONSISTENT" in output
