"""R10 for an app that does not run: its inputs are cut where its group would go on, by a process of another app."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.checks import Verdict
from snapkafka.kafka.connection import Connection
from snapkafka.testing import Broker, create_topics

from .replaying import Counting, capture, counting

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

BEFORE, COUNT = 20, 30


def start_another_app(run: Counting) -> str:
    """It reads the same input for itself, and stays."""
    other = f"{run.app}-other"
    create_topics(run.bootstrap, f"{other}-counted-out", partitions=2)
    create_topics(
        run.bootstrap, f"{other}-counted-changelog", partitions=2, config={"cleanup.policy": "compact"}
    )
    env = run.env | {"FEATURES_ID": other, "FEATURES_COMMIT": "0.5"}
    run.system.start_worker(other, env, module="tests.features.apps.recovering")
    return other


@pytest.mark.parametrize("ends", ["in order", "by a kill"])
def test_r10_an_app_that_does_not_run_is_part_of_a_snapshot(kafka: Broker, tmp_path: Path, ends: str) -> None:
    """Its positions are what its group has committed. After a stop in order nothing runs again; after a kill the
    events past that do, and the snapshot says so. Retired, it is no part of a snapshot any more."""
    with counting(kafka, tmp_path, {"FEATURES_SLEEP": "0"}) as run:
        observer = run.observer
        worker = run.start(commit="600")
        start_another_app(run)
        observer.wait_for_workers(run.system)
        (mine,) = {view.process for view in observer.state.living() if view.hello.app == run.app}
        effects = run.produce(COUNT)
        run.wait_for_effects(COUNT)
        assert run.committed == 0
        if ends == "in order":
            run.system.interrupt(worker)
            run.wait_until("its Bye", lambda: observer.state.processes[mine].left is not None)
        else:
            run.system.kill(worker)
            run.bury({mine})
        waiting = run.produce(BEFORE)

        captured = capture(observer, "without it")
        cuts = {cut.partition: cut for cut in captured.inputs if cut.app == run.app}
        assert len(cuts) == 2
        assert mine not in {cut.receiver for cut in cuts.values()}, "another process has cut them"
        committed = effects if ends == "in order" else dict.fromkeys(effects, 0)
        assert {partition: cut.position for partition, cut in cuts.items()} == committed
        assert {partition: cut.log_end for partition, cut in cuts.items()} == waiting
        assert {cut.app for cut in captured.changelogs} == {run.app, f"{run.app}-other"}
        again = 0 if ends == "in order" else COUNT  # each with a table write
        verdict = Verdict.VERIFIED_WITH_REPLAYS if again else Verdict.VERIFIED
        assert run.verdict(captured) == (verdict, {"replayed": again} if again else {})

        asyncio.run(ops.retire(Connection(bootstrap=run.bootstrap), run.system.namespace, run.app))
        run.wait_until("the retirement to be read", lambda: run.app in observer.state.retired)
        captured = capture(observer, "after it was retired")
        assert {cut.app for cut in captured.inputs} == {f"{run.app}-other"}
        assert run.verdict(captured)[0] is Verdict.VERIFIED
