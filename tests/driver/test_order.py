"""An agent is handed a record after later ones, as Faust does now and then after a rebalance: the snapshot says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from snapkafka.demo import System, observing, wait_until
from snapkafka.protocol import Status, TopicPartition
from snapkafka.testing import Broker
from tests.driver.test_install import make_topics, produce, take

EVENTS = 60
HELD = 5  # of partition 0: see the app


@pytest.mark.timeout(200)
def test_what_comes_after_later_records_makes_the_cut_of_its_channel_void(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    app, gate = f"small-{namespace}", tmp_path / "let it pass"
    make_topics(kafka, app)
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            env = {"SMALL_APP_ID": app, "SMALL_APP_INSTALL": "late", "SMALL_APP_HELD": str(gate)}
            system.start_worker(app, env, module="tests.driver.small_app")
            observer.call(produce(kafka.bootstrap, f"{app}-in", EVENTS))
            tps = [TopicPartition(f"{app}-out", partition) for partition in range(2)]

            def passed() -> int:
                return sum(observer.call(observer.admin.log_ends(tps)).values())

            wait_until("all but one to pass", lambda: passed() == EVENTS - 1, timeout_s=90, system=system)
            void = take(observer, "void")
            view = observer.state.snapshots[void]
            assert view.status is Status.CAPTURED
            positions = {
                (cut.topic, cut.partition): cut.position for cut in observer.state.captured(void).inputs
            }
            assert positions[f"{app}-in", 0] > HELD, "nothing can tell that this one is missing, yet"
            assert not view.contaminated

            before = passed()  # markers, too
            gate.touch()
            wait_until("the worker to tell", lambda: bool(view.contaminated), timeout_s=30, system=system)
            assert f"was handed offset {HELD} of {app}-in[0] after a later one" in view.contaminated
            assert view.status is Status.CAPTURED
            said = _show(kafka.bootstrap, namespace)
            assert f"not verifiable: {view.contaminated}" in " ".join(said.split())

            wait_until("the last one to pass", lambda: passed() == before + 1, timeout_s=30, system=system)
            good = take(observer, "good")
            assert observer.state.snapshots[good].status is Status.CAPTURED
            assert not observer.state.snapshots[good].contaminated
            system.check_alive()
    finally:
        system.stop()


def _show(bootstrap: str, namespace: str) -> str:
    """What `show` says; `--json` has the same."""
    command = [sys.executable, "-m", "snapkafka.cli", "show", "void", "--bootstrap", bootstrap]
    command += ["--namespace", namespace]
    reported = json.loads(subprocess.run([*command, "--json"], capture_output=True, check=True).stdout)
    assert "after a later one" in reported["summary"]["contaminated"]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout
