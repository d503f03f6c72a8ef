"""R10 for an app that does not run: its inputs are cut where its group would go on, as the trigger states."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.checks import Verdict
from snapkafka.errors import TriggerRefusedError
from snapkafka.kafka import Connection
from snapkafka.protocol import NOBODY
from snapkafka.testing import Broker, create_topics

from .replaying import MODULE, Counting, capture, counting

pytestmark = pytest.mark.timeout(300)

BEFORE, COUNT = 20, 30


def start_another_app(run: Counting) -> None:
    """It reads the same input for itself, and stays."""
    other = f"{run.app}-other"
    create_topics(run.bootstrap, f"{other}-counted-out", partitions=2)
    create_topics(
        run.bootstrap, f"{other}-counted-changelog", partitions=2, config={"cleanup.policy": "compact"}
    )
    env = run.env | {"FEATURES_ID": other, "FEATURES_COMMIT": "0.5"}
    run.system.start_worker(other, env, module=MODULE)


def wait_for_its_session(run: Counting) -> None:
    """A worker that was killed is a member of its group until its session is over: so long nobody knows better."""
    observer = run.observer
    run.wait_until(
        "its group to be empty",
        lambda: not observer.call(observer.admin.group_members(run.app)),
        timeout_s=30,
    )


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
            wait_for_its_session(run)
        waiting = run.produce(BEFORE)

        captured = capture(observer, "without it")
        cuts = {cut.partition: cut for cut in captured.inputs if cut.app == run.app}
        assert len(cuts) == 2
        assert {cut.receiver for cut in cuts.values()} == {NOBODY}, "no process has cut them"
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


def test_r10_an_app_that_reads_from_the_latest_record_is_cut_there(kafka: Broker, tmp_path: Path) -> None:
    """It has committed nothing, and does not run: what lies in its input it will never read. What comes behind the
    trigger it would have, and is in flight."""
    with counting(kafka, tmp_path, {"FEATURES_SLEEP": "0"}) as run:
        observer = run.observer
        run.produce(BEFORE)
        worker = run.start(commit="600", reset="latest")
        start_another_app(run)
        observer.wait_for_workers(run.system)
        (mine,) = {view.process for view in observer.state.living() if view.hello.app == run.app}
        run.wait_until("its inputs", lambda: bool(observer.state.processes[mine].inputs))
        run.system.kill(worker)
        run.bury({mine})
        wait_for_its_session(run)
        skipped = run.produce(COUNT)
        assert run.committed == 0

        captured = capture(observer, "without it")
        cuts = {cut.partition: cut for cut in captured.inputs if cut.app == run.app}
        assert {partition: cut.position for partition, cut in cuts.items()} == skipped
        assert run.verdict(captured) == (Verdict.VERIFIED, {})


def test_r10_an_app_that_runs_without_snapkafka_is_no_stopped_one(kafka: Broker, tmp_path: Path) -> None:
    """R10: an app is stopped only if its group is seen to be empty. Started with SNAPKAFKA=off beside another one that
    takes part, it runs events of which its group has committed nothing yet: no snapshot is taken, by name. Stopped in
    order it is cut where it stopped, and no event would run twice."""
    with counting(kafka, tmp_path, {"FEATURES_SLEEP": "0"}) as run:
        observer = run.observer
        worker = run.start(commit="600")
        start_another_app(run)
        observer.wait_for_workers(run.system)
        (mine,) = {view.process for view in observer.state.living() if view.hello.app == run.app}
        run.system.interrupt(worker)
        run.wait_until("its Bye", lambda: observer.state.processes[mine].left is not None)
        without = run.system.start_worker(
            run.app, run.env | {"FEATURES_COMMIT": "600", "SNAPKAFKA": "off"}, module=MODULE
        )
        effects = run.produce(COUNT)
        run.wait_for_effects(COUNT)
        assert run.committed == 0, "or nothing would be wrong with what is committed"

        with pytest.raises(TriggerRefusedError) as refused:
            observer.take("while it runs", ttl_ms=10_000)
        assert refused.value.facts["reason"] == "app-runs-without"
        assert f"app {run.app} runs without snapkafka: its consumer group has 1 members" in str(refused.value)

        run.system.interrupt(without)
        wait_for_its_session(run)
        captured = capture(observer, "after it was stopped")
        cuts = {cut.partition: cut for cut in captured.inputs if cut.app == run.app}
        assert {partition: cut.position for partition, cut in cuts.items()} == effects
        assert sum(cut.end for cut in captured.changelogs if cut.app == run.app) == COUNT
        assert run.verdict(captured)[0] is Verdict.VERIFIED
