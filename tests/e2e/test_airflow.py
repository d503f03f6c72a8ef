"""The example DAGs on a real Airflow, against a real system under load: `airflow dags test`, in its own environment."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest

from snapkafka.protocol import SnapshotView
from snapkafka.testing import wait_until
from tests.e2e.parts import Live, assemble, live, white_after_the_marker

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]

CHECKOUT: Final = Path(__file__).parents[2]
AIRFLOW: Final = Path(os.environ.get("SNAPKAFKA_TEST_AIRFLOW", CHECKOUT / ".venv/airflow")) / "bin"
DAGS: Final = CHECKOUT / "connectors/airflow/src/snapkafka_airflow/example_dags"
#: Transfers a second: Airflow and Spark need the machine more than the load does.
RATE: Final = 10
#: Longer than any run seen on a busy machine; a hanging one is ended.
RUN_S: Final = 900


@dataclass
class Airflow:
    """An Airflow with a database of its own, whose connection leads to the system and whose Spark job runs here."""

    system: Live
    home: Path
    environ: dict[str, str]

    @property
    def output(self) -> str:
        """Of the command that was started last."""
        return (self.home / "output.txt").read_text(errors="replace")

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command of Airflow, in a process group of its own."""
        with (self.home / "output.txt").open("wb") as out:
            return subprocess.Popen(
                [str(AIRFLOW / "airflow"), *arguments], env=self.environ, cwd=self.home,
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def run(self, *arguments: str, fails: bool = True) -> str:
        """Run it to its end; the output, with the logs of tasks."""
        process = self.start(*arguments)
        try:
            status = process.wait(RUN_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            print(self.output[-20_000:])
        assert fails or status == 0
        return self.output

    def dag(self, name: str, date: str, **conf: str) -> str:
        """Run a DAG, each task in its order."""
        return self.run("dags", "test", name, date, "-c", json.dumps(conf))

    def task(self, task: str, run_id: str) -> str:
        """Run a task of a run again, as a retry does."""
        return self.run("tasks", "test", "snapkafka_daily_full", task, run_id)

    def jobs(self) -> list[psutil.Process]:
        """Processes of Spark jobs on the system's broker, their JVMs too."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            line = process.info["cmdline"] or ()
            fd = next((part.rpartition("/")[2] for part in line if part.startswith("--spec=/dev/fd/")), "")
            if "snapkafka.assembly" not in line or not fd:
                continue
            try:
                options = Path(f"/proc/{process.pid}/fd/{fd}").read_text("utf-8")
            except OSError:  # it has ended
                continue
            if self.system.bootstrap in options:
                found += [process, *process.children(recursive=True)]
        return found

    def end_in_assembly(self, number: signal.Signals, *arguments: str) -> None:
        """Start a command of Airflow, and signal it once Spark's JVM runs: nothing of that job is left."""
        process, jobs = self.start(*arguments), list[psutil.Process]()

        def runs() -> bool:
            jobs[:] = self.jobs()
            return any(job.name() == "java" for job in jobs if job.is_running())

        def gone() -> bool:
            return not any(job.is_running() and job.status() != psutil.STATUS_ZOMBIE for job in jobs)

        try:
            wait_until("the JVM of the Spark job", runs, timeout_s=300, system=self.system.system)
            os.kill(process.pid, number)
            wait_until("the Spark job to end", gone, timeout_s=15)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
        assert not self.jobs()


@pytest.fixture
def system(namespace: str) -> Iterator[Live]:
    with live(namespace, rate=RATE) as running:
        yield running


@pytest.fixture
def airflow(system: Live, tmp_path: Path) -> Airflow:
    assert (AIRFLOW / "airflow").exists(), f"no Airflow in {AIRFLOW}: `make test-airflow` makes it"
    for name in ("airflow", "snapshots"):
        (tmp_path / name).mkdir()
    extra = {"namespace": system.namespace, "storage": str(tmp_path / "snapshots"), "python": sys.executable}
    connection = {"conn_type": "snapkafka", "host": system.bootstrap, "extra": extra}
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SNAPKAFKA"))},
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SNAPKAFKA_DEFAULT": json.dumps(connection),
        "PATH": f"{AIRFLOW}:{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
    }
    made = Airflow(system, tmp_path / "airflow", environ)
    for command in (("db", "migrate"), ("dags", "reserialize")):
        made.run(*command, fails=False)
    return made


def snapshots(system: Live) -> list[SnapshotView]:
    return [view for _, view in sorted(system.observer.state.snapshots.items())]


def is_good(view: SnapshotView) -> bool:
    return view.verdict is not None and view.verdict.verdict.startswith("VERIFIED")


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
    assert is_good(full) and is_good(hourly)
    manifest = json.loads((storage / f"{hourly.trigger.id}.json").read_text())
    assert [parent["id"] for parent in manifest["parents"]] == [full.trigger.id], "it is incremental"
    assert f"snapshot {hourly.trigger.id} was captured" in output
    assert "removed 0 snapshots and 0 leftovers; 2 stay" in output
    assert "state=success" in output

    # 2. A record in the colour of a sender, after its marker: the task fails, with the very record in its log.
    topic, partition, offset = white_after_the_marker(system, manifest["captured"])
    output = airflow.dag("snapkafka_verify_again", "2026-05-03", snapshot_id=hourly.trigger.id)
    assert f"{topic}[{partition}] offset {offset}" in output
    assert f"snapshot {hourly.trigger.id} is INCONSISTENT" in output
    assert "state=failed" in output


def test_a_dag_is_killed_and_retried_and_nothing_is_left_or_done_twice(
    system: Live, airflow: Airflow, tmp_path: Path
) -> None:
    """One system for all of it, as it takes a minute to start: each part says what it shows."""
    # 1. The daily DAG: trigger, captured (its trigger in line), assemble, verify, prune.
    daily = "snapkafka_daily_full"
    output = airflow.dag(daily, "2026-05-01")
    (first,) = snapshots(system)
    assert is_good(first)
    assert f"snapshot {first.trigger.id} was captured" in output
    assert "removed 0 snapshots and 0 leftovers; 1 stay" in output

    # 2. Killed in the middle of assembly, by SIGTERM: no Spark job is left.
    airflow.end_in_assembly(signal.SIGTERM, "dags", "test", daily, "2026-05-02")
    run_id = airflow.output.split("run_id='")[1].split("'")[0]
    _, second = snapshots(system)
    assert second.verdict is None

    # 3. Its trigger and its assembly tried again; the latter killed by SIGKILL: no Spark job is left, either.
    airflow.task("trigger", run_id)
    assert [view.trigger.id for view in snapshots(system)] == [first.trigger.id, second.trigger.id]
    airflow.end_in_assembly(signal.SIGKILL, "tasks", "test", daily, "assemble", run_id)

    # 4. Once more, to the end: one trigger, one snapshot, as its tables say, and nothing else lies there.
    airflow.task("assemble", run_id)
    output = airflow.task("verify", run_id)
    _, second = snapshots(system)
    assert second.trigger.attempt == 1
    assert is_good(second) and second.verdict is not None
    assert f"snapshot {second.trigger.id} is {second.verdict.verdict}" in output
    names = {first.trigger.id, second.trigger.id}
    storage = tmp_path / "snapshots"
    assert {json.loads(path.read_text())["id"] for path in storage.glob("*.json")} == names
    assert len([path for path in storage.iterdir() if path.is_dir()]) == len(names)
