"""The asset of a namespace on a real Airflow (`airflow standalone`): a verified snapshot starts the report DAG."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from snapkafka.testing import wait_until
from tests.e2e.airflow_runs import DAGS, RATE, Airflow, airflow_for
from tests.e2e.parts import assemble, live

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]

#: The namespace that the example DAG names.
NAMESPACE = "shop"
REPORT = "snapkafka_report"


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


def ours(home: Path) -> list[psutil.Process]:
    """Every process of this Airflow, by its home in their environment (a process that sets its title loses that), or as
    their folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            alive = process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid()
            if alive and (process.environ().get("AIRFLOW_HOME") == str(home) or process.cwd() == str(home)):
                found.append(process)
    return found


@contextlib.contextmanager
def standalone(airflow: Airflow) -> Iterator[None]:
    """`airflow standalone`; it leaves most of its processes behind, so each is ended by its id."""
    process = airflow.start("standalone")
    started = time.monotonic()
    try:
        yield
        assert process.poll() is None, airflow.output[-3_000:]
    finally:
        processes = ours(airflow.home)
        print(f"standalone: {len(processes)} processes after {time.monotonic() - started:.0f} s")
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(psutil.TimeoutExpired):
            psutil.Process(process.pid).wait(10)
        while left := ours(airflow.home):
            for one in left:
                with contextlib.suppress(psutil.Error):
                    one.kill()
            time.sleep(0.1)
        process.wait()


def query(airflow: Airflow, sql: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(f"file:{airflow.home}/airflow.db?mode=ro", uri=True)) as database:
        return database.execute(sql).fetchall()


def test_a_verified_snapshot_starts_the_dag_that_is_scheduled_on_the_asset(tmp_path: Path) -> None:
    dags, storage = tmp_path / "dags", tmp_path / "snapshots"
    dags.mkdir()
    shutil.copy(DAGS / "example_snapkafka_report.py", dags)
    port = free_port()
    with live(NAMESPACE, rate=RATE) as system:
        airflow = airflow_for(
            system, tmp_path, dags=dags,
            AIRFLOW__API__PORT=port, AIRFLOW__API__WORKERS="1",
            AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"http://127.0.0.1:{port}/execution/",
            AIRFLOW__API__BASE_URL=f"http://127.0.0.1:{port}",
            AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION="False",
            AIRFLOW__CORE__PARALLELISM="1", AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES="1",
            AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT=free_port(),
            AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT=free_port(),
        )  # fmt: skip
        with standalone(airflow):
            wait_until(
                "the triggerer to watch the ledger",
                lambda: "1 watchers currently running" in airflow.output,  # listed once a minute
                timeout_s=240,
            )
            assert query(airflow, f"SELECT state FROM dag_run WHERE dag_id = '{REPORT}'") == []
            system.take("friday", storage=str(storage))
            assert assemble(system.bootstrap, NAMESPACE, ["friday"], storage)

            def states() -> list[object]:
                return [
                    row[0] for row in query(airflow, f"SELECT state FROM dag_run WHERE dag_id = '{REPORT}'")
                ]

            try:
                wait_until("the report's run", lambda: states() == ["success"], timeout_s=180)
            except BaseException:
                print(states(), airflow.output[-20_000:])
                raise
            ((extra,),) = query(airflow, "SELECT extra FROM asset_event")
            event = json.loads(str(extra))
            print("the event:", event)
            found = event.get("payload", event)
            assert (found["snapshot_id"], found["verdict"][:8]) == ("friday", "VERIFIED")
            logs = "".join(
                path.read_text() for path in (airflow.home / "logs").rglob("*.log") if REPORT in str(path)
            )
            assert (
                f"consistent as of {found['initiated_at_ms']}" in logs.replace("', '", " ")
                or str(found["initiated_at_ms"]) in logs
            )
        assert ours(airflow.home) == []
