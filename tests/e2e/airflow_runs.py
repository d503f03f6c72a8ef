"""A real Airflow with a database of its own, in its own environment, whose connection leads to a running system."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from tests.e2e.parts import Live

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
        except BaseException:
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


def airflow_for(system: Live, folder: Path) -> Airflow:
    """An Airflow in `folder`, set up; tables lie in its `snapshots`."""
    assert (AIRFLOW / "airflow").exists(), f"no Airflow in {AIRFLOW}: `make test-airflow` makes it"
    home = folder / "airflow"
    home.mkdir()
    connection = {
        "conn_type": "snapkafka",
        "host": system.bootstrap,
        "extra": {
            "namespace": system.namespace,
            "storage": str(folder / "snapshots"),
            "python": sys.executable,
        },
    }
    (folder / "snapshots").mkdir(exist_ok=True)
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


def spark_jobs(bootstrap: str) -> list[psutil.Process]:
    """Processes of Spark jobs on this broker, their JVMs too."""
    jobs = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or ()
        options = next((part.rpartition("/")[2] for part in line if part.startswith("--spec=/dev/fd/")), "")
        if "snapkafka.assembly" in line and options and bootstrap in _options(process.pid, options):
            jobs += [process, *process.children(recursive=True)]
    return jobs


def _options(pid: int, fd: str) -> str:
    """Return the options of a job; empty: it has ended."""
    try:
        return Path(f"/proc/{pid}/fd/{fd}").read_text("utf-8")
    except OSError:
        return ""


def all_gone(jobs: list[psutil.Process]) -> bool:
    return not any(job.is_running() and job.status() != psutil.STATUS_ZOMBIE for job in jobs)
