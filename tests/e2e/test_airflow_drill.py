"""The drill DAG on a real Airflow: a backup is run as a fork, and a killed task leaves nothing."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from pathlib import Path

import psutil
import pytest

from snapkafka.demo import INVARIANTS
from snapkafka.testing import wait_until
from tests.e2e.airflow_runs import RATE, airflow_for, all_gone
from tests.e2e.parts import assemble, live

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


def drill_processes(bootstrap: str) -> list[psutil.Process]:
    """The command `drill` on this broker and all that it has started."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or ()
        if "drill" in words and f"--bootstrap={bootstrap}" in words:
            found += [process, *process.children(recursive=True)]
    return found


def test_the_drill_dag_trusts_a_backup_and_killed_leaves_neither_processes_nor_topics(
    namespace: str, tmp_path: Path
) -> None:
    with live(namespace, rate=RATE) as system:
        view = system.take("backup", storage=str(tmp_path / "snapshots"))
        assert assemble(system.bootstrap, namespace, ["backup"], tmp_path / "snapshots")
        system.observer.stop_load()
        options = ("worker", "-l", "warn", "--without-web")
        workers = [
            shlex.join([sys.executable, "-m", "faust", "-A", f"snapkafka.demo.{app}", *options])
            for app in ("accounts", "clearing")
        ]
        airflow = airflow_for(
            system,
            tmp_path,
            AIRFLOW_VAR_SNAPKAFKA_DRILL_APPS=json.dumps(workers),
            SNAPKAFKA_BOOTSTRAP=system.bootstrap,
            SNAPKAFKA_NAMESPACE=namespace,
            SNAPKAFKA_DEMO_DATA=str(tmp_path / "data"),
            PYTHONPATH=os.pathsep.join([str(INVARIANTS.parents[2])]),
        )

        output = airflow.dag("snapkafka_drill", "2026-05-01")
        assert "state=success" in output
        assert "the backup can be trusted: backup" in output
        assert view.trigger.id in output

        # SIGTERM to the task in its middle: workers end, the fork is removed.
        def forked() -> list[str]:
            return [
                name
                for name in system.observer.call(system.observer.admin.describe_topics())
                if "fork." in name
            ]

        assert forked() == []
        run = airflow.start("dags", "test", "snapkafka_drill", "2026-05-02")
        try:
            wait_until("topics of the fork", lambda: bool(forked()), timeout_s=180)
            jobs = drill_processes(system.bootstrap)
            assert jobs
            os.kill(run.pid, signal.SIGTERM)
            wait_until("the drill to end", lambda: all_gone(jobs), timeout_s=200)
            assert not drill_processes(system.bootstrap)
            assert forked() == []
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
                run.wait()

        # SIGKILL: nobody can ask the command to end; it sees that it is alone.
        killed = airflow.start("dags", "test", "snapkafka_drill", "2026-05-03")
        try:
            wait_until("topics of the fork", lambda: bool(forked()), timeout_s=180)
            jobs = drill_processes(system.bootstrap)
            assert jobs
        finally:
            os.killpg(killed.pid, signal.SIGKILL)
            killed.wait()
        wait_until("the drill to end", lambda: all_gone(jobs), timeout_s=200)
        assert forked() == []
        system.system.check_alive()
