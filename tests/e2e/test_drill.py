"""A drill beside a running system: the backup is run, judged and removed, and production is left as it is."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from snapkafka.demo import CREDITS, INVARIANTS, PARTITIONS, REQUESTS, TOTAL, TRANSFERS, changelog
from snapkafka.protocol import TopicPartition
from snapkafka.testing import RunningSystem, wait_until
from tests.e2e.parts import assemble, command, live, settled
from tests.observing import Observer

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

APPS = ("accounts", "clearing")
OURS = (REQUESTS, TRANSFERS, CREDITS, changelog("accounts", "balances"), changelog("clearing", "passed"))


def fingerprint(observer: Observer) -> Any:
    """The ends of production's logs and what its groups have committed."""
    tps = [TopicPartition(topic, number) for topic in OURS for number in range(PARTITIONS)]
    ends = observer.call(observer.admin.log_ends(tps))
    return ends, {app: observer.call(observer.admin.committed(app)) for app in APPS}


def drill(system: RunningSystem, folder: Path, storage: Path, total: int = TOTAL) -> subprocess.Popen[str]:
    """Start the command as a scheduler would."""
    faust, options = [sys.executable, "-m", "faust", "-A"], ["worker", "-l", "warn", "--without-web"]
    workers = [shlex.join([*faust, f"snapkafka.demo.{app}", *options]) for app in APPS]
    arguments = ["--bootstrap", system.bootstrap, "--namespace", system.namespace, "--storage", str(storage)]
    arguments += ["--invariants", str(INVARIANTS), "--set", f"total={total}"]
    arguments += ["--json", str(folder / "drill.json")]
    env = os.environ | {
        "SNAPKAFKA_BOOTSTRAP": system.bootstrap,
        "SNAPKAFKA_NAMESPACE": system.namespace,
        "SNAPKAFKA_DEMO_DATA": str(folder / "data"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "snapkafka", "drill", *(f"--app={it}" for it in workers), *arguments],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def left(observer: Observer) -> list[str]:
    """Topics and consumer groups of any drill."""
    groups = [group.name for group in observer.call(observer.admin.groups())]
    return [
        name for name in (*observer.call(observer.admin.describe_topics()), *groups) if "fork.drill-" in name
    ]


def test_a_backup_is_drilled_beside_production_and_all_of_it_is_removed(
    namespace: str, tmp_path: Path
) -> None:
    storage = tmp_path / "storage"
    with live(namespace) as production:
        observer, system = production.observer, production.system
        command(observer, "trigger", "--wait", "--id", "backup", "--storage", str(storage))
        observer.stop_load()
        assert assemble(system.bootstrap, namespace, ["backup"], storage)
        before = settled(lambda: fingerprint(observer), system)

        done = drill(system, tmp_path, storage)
        output, _ = done.communicate(timeout=600)
        assert done.returncode == 0, output
        found = json.loads((tmp_path / "drill.json").read_text())
        assert found["trusted"] and found["removed"] and not found["reasons"]
        assert [phase["status"] for phase in found["phases"]] == ["done"] * 9
        assert found["source"]["verdict"] == "VERIFIED"
        checks = {it["name"]: it["status"] for it in found["of_fork"]["checks"]}
        assert [status for name, status in checks.items() if name.startswith("V6 ")] == ["passed"]
        assert found["in_flight"] > 0, "nothing was in flight: the test shows nothing"
        assert found["rto_s"] > 0 and found["rpo_s"] > 0
        assert left(observer) == []
        assert fingerprint(observer) == before, "production is only read"

        killed = drill(system, tmp_path, storage)
        wait_until("topics of the fork", lambda: bool(left(observer)), timeout_s=120, system=system)
        killed.send_signal(signal.SIGTERM)
        output, _ = killed.communicate(timeout=200)
        assert killed.returncode == 128 + signal.SIGTERM, output
        assert left(observer) == [], output
        assert fingerprint(observer) == before
        system.check_alive()
