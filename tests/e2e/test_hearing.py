"""A process may learn of a snapshot by the ledger or by headers: each alone makes every worker red (R2), and the
snapshot is verified."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from snapkafka.demo import TOTAL, count_money
from tests.e2e.parts import assemble, live

#: `hear`: the cause that every report but the initiator's must name.
WAYS = {"ledger": "ledger", "headers": "header"}


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.parametrize("way", sorted(WAYS))
def test_each_way_alone_makes_every_worker_red(namespace: str, tmp_path: Path, way: str) -> None:
    """With `hear="headers"` and `"ledger"` each alone, every worker turns red and the snapshot verifies; the cause is
    counted in `Report`. One worker asks, and hears its own trigger."""
    with live(namespace, env=lambda app, number: {"SNAPKAFKA_DEMO_HEAR": way}) as system:
        views = [system.take_by_worker("accounts"), system.take_by_worker("clearing")]
        for view in views:
            assert view.failure is None, f"{view.failure}\n{system.logs()}"
            heard = Counter(report.heard for _, report in view.reports.values())
            assert heard == Counter({"trigger": 1, WAYS[way]: 3}), heard
        system.observer.stop_load()  # what is captured is captured; Spark gets the processors
        names = [view.trigger.id for view in views]
        assert assemble(system.bootstrap, namespace, names, tmp_path)
    for name in names:
        manifest = json.loads((tmp_path / f"{name}.json").read_text())
        assert manifest["verdict"] == "VERIFIED"
        assert count_money(tmp_path / f"{name}.json").total == TOTAL


@pytest.mark.timeout(200)
@pytest.mark.nightly
def test_without_the_recording_agent_there_is_no_snapshot(namespace: str) -> None:
    """With the recording agent paused, the end-to-end test fails: nothing is captured, and the culprit is named."""
    with live(namespace, modules={"accounts-1": "tests.e2e.paused_accounts"}) as system:
        view = system.observer.decided(system.observer.ask("paused", ttl_ms=2000))
        assert view.captured_at is None
        assert view.failure is not None
        assert view.failure.code == "ttl"
        paused = next(
            v for v in system.observer.state.processes.values() if v.hello.pid == system.system.workers[0].pid
        )
        assert f"process {paused.process} " in view.failure.culprit
