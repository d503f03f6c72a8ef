"""The example DAGs on a real Airflow, against a real system under load: `airflow dags test`, in its own environment."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import psutil
import pytest

from snapkafka.protocol import SnapshotView
from snapkafka.testing import wait_until
from tests.e2e.parts import Live, live, white_after_the_marker
from tests.marked import marked

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

    def jobs(self) -> list[str]:
        """The names of the processes of the Spark job."""
        found = []
        for each in marked(self.home):
            with contextlib.suppress(psutil.Error):
                line = " ".join(each.cmdline())
                if "snapkafka.assembly" in line or "spark" in line:
                    found.append(each.name())
        return found

    def end_in_assembly(self, number: signal.Signals, *arguments: str) -> None:
        """Start a command of Airflow, and signal it once Spark's JVM runs: nothing of that job is left."""
        process = self.start(*arguments)
        try:
            wait = partial(wait_until, system=self.system.system)
            wait("the JVM of the Spark job", lambda: "java" in self.jobs(), timeout_s=300)
            os.kill(process.pid, number)
            wait("the Spark job to end", lambda: not self.jobs(), timeout_s=15)
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
        "MARK": str(tmp_path / "airflow"),
    }
    made = Airflow(system, tmp_path / "airflow", environ)
    for command in (("db", "migrate"), ("dags", "reserialize")):
        made.run(*command, fails=False)
    return made


def snapshots(system: Live) -> list[SnapshotView]:
    return [view for _, view in sorted(system.observer.state.snapshots.items())]


def is_good(view: SnapshotView) -> bool:
    return view.verdict is not None and view.verdict.verdict.startswith("VERIFIED")


def test_dags_build_on_each_other_and_survive_kills(system: Live, airflow: Airflow, tmp_path: Path) -> None:
    """One system for all of it, as it takes a minute to start: each part says what it shows."""
    storage, daily = tmp_path / "snapshots", "snapkafka_daily_full"

    # 1. The daily DAG, and the hourly one: trigger, captured (its trigger in line), assemble, verify, prune.
    for number, name in enumerate((daily, "snapkafka_hourly"), 1):
        output = airflow.dag(name, f"2026-05-0{number}")
        *_, taken = snapshots(system)
        assert is_good(taken)
        assert f"snapshot {taken.trigger.id} was captured" in output
        assert f"removed 0 snapshots and 0 leftovers; {number} stay" in output
        assert "state=success" in output
    first, hourly = snapshots(system)
    assert (first.trigger.type, hourly.trigger.type) == ("full", "incremental")
    manifest = json.loads((storage / f"{hourly.trigger.id}.json").read_text())
    assert [parent["id"] for parent in manifest["parents"]] == [first.trigger.id], "it is incremental"

    # 2. Killed in the middle of assembly, by SIGTERM: no Spark job is left.
    airflow.end_in_assembly(signal.SIGTERM, "dags", "test", daily, "2026-05-03")
    run_id = airflow.output.split("run_id='")[1].split("'")[0]
    *_, second = snapshots(system)
    assert second.verdict is None
    ids = [view.trigger.id for view in (first, hourly, second)]

    # 3. Its trigger and its assembly tried again; the latter killed by SIGKILL: no Spark job is left, either.
    airflow.task("trigger", run_id)
    assert [view.trigger.id for view in snapshots(system)] == ids
    airflow.end_in_assembly(signal.SIGKILL, "tasks", "test", daily, "assemble", run_id)

    # 4. Once more, to the end: one trigger, one snapshot, as its tables say, and nothing else lies there.
    airflow.task("assemble", run_id)
    output = airflow.task("verify", run_id)
    *_, second = snapshots(system)
    assert second.trigger.attempt == 1
    assert is_good(second) and second.verdict is not None
    assert f"snapshot {ids[-1]} is {second.verdict.verdict}" in output
    assert {json.loads(path.read_text())["id"] for path in storage.glob("*.json")} == {*ids}
    assert len([path for path in storage.iterdir() if path.is_dir()]) == len(ids)

    # 5. A record in the colour of a sender, after its marker: the task fails, with the very record in its log.
    topic, partition, offset = white_after_the_marker(system, manifest["captured"])
    output = airflow.dag("snapkafka_verify_again", "2026-05-04", snapshot_id=hourly.trigger.id)
    assert f"{topic}[{partition}] offset {offset}" in output
    assert f"snapshot {hourly.trigger.id} is INCONSISTENT" in output
    assert "state=failed" in output
