"""An agent is handed a record after later ones, as Faust does now and then after a rebalance: the snapshot says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from snapkafka.protocol import Status
from snapkafka.testing import Broker
from tests.driver.live import live

EVENTS = 60
HELD = 5  # of partition 0: see the app


@pytest.mark.timeout(200)
def test_what_comes_after_later_records_makes_the_cut_of_its_channel_void(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    gate = tmp_path / "let it pass"
    with live(kafka, namespace, tmp_path) as run:
        run.start(SMALL_APP_INSTALL="late", SMALL_APP_HELD=str(gate))
        run.produce(EVENTS)
        run.until("all but one to pass", lambda: run.count("out") == EVENTS - 1, 90)
        view = run.take("void")
        assert view.status is Status.CAPTURED
        inputs = run.observer.state.captured(view.epoch).inputs
        positions = {(cut.topic, cut.partition): cut.position for cut in inputs}
        assert positions[run.topic("in"), 0] > HELD, "nothing can tell that this one is missing, yet"
        assert not view.contaminated

        before = run.count("out")  # markers, too
        gate.touch()
        run.until("the worker to tell", lambda: bool(view.contaminated))
        assert f"was handed offset {HELD} of {run.topic('in')}[0] after a later one" in view.contaminated
        assert view.status is Status.CAPTURED
        said = _show(kafka.bootstrap, namespace)
        assert f"not verifiable: {view.contaminated}" in " ".join(said.split())

        run.until("the last one to pass", lambda: run.count("out") == before + 1)
        good = run.take("good")
        assert good.status is Status.CAPTURED and not good.contaminated
        run.system.check_alive()


def _show(bootstrap: str, namespace: str) -> str:
    """What `show` says; `--json` has the same."""
    command = [sys.executable, "-m", "snapkafka.cli", "show", "void", "--bootstrap", bootstrap]
    command += ["--namespace", namespace]
    reported = json.loads(subprocess.run([*command, "--json"], capture_output=True, check=True).stdout)
    assert "after a later one" in reported["summary"]["contaminated"]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout
