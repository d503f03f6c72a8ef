"""R10 for an app that does not run: its inputs are cut where its group would go on, as the trigger states."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.checks import Verdict
from snapkafka.errors import TriggerRefusedError
from snapkafka.protocol import NOBODY
from snapkafka.testing import Broker

from .replaying import counting

pytestmark = pytest.mark.timeout(300)

BEFORE, COUNT = 20, 30


@pytest.mark.parametrize("ends", ["in order", "by a kill"])
def test_r10_an_app_that_does_not_run_is_part_of_a_snapshot(
    kafka: Broker, namespace: str, tmp_path: Path, ends: str
) -> None:
    """Its positions are what its group has committed. After a stop in order nothing runs again; after a kill the
    events past that do, and the snapshot says so. Retired, it is no part of a snapshot any more."""
    with counting(kafka, namespace, tmp_path) as run:
        worker, mine = run.start_beside_another_app()
        effects = run.feed(COUNT)
        run.await_effects(COUNT)
        assert run.committed == 0
        if ends == "in order":
            run.system.interrupt(worker)
            run.await_left(mine)
        else:
            run.system.kill(worker)
            run.bury(mine)
            run.await_empty_group()
        waiting = run.feed(BEFORE)

        captured = run.capture("without it")
        cuts = run.cuts(captured)
        assert len(cuts) == 2
        assert {cut.receiver for cut in cuts.values()} == {NOBODY}, "no process has cut them"
        committed = effects if ends == "in order" else dict.fromkeys(effects, 0)
        assert {partition: cut.position for partition, cut in cuts.items()} == committed
        assert {partition: cut.log_end for partition, cut in cuts.items()} == waiting
        assert {cut.app for cut in captured.changelogs} == {run.app, f"{run.app}-other"}
        again = 0 if ends == "in order" else COUNT  # each with a table write
        verdict = Verdict.VERIFIED_WITH_REPLAYS if again else Verdict.VERIFIED
        assert run.verdict(captured) == (verdict, {"replayed": again} if again else {})

        asyncio.run(ops.retire(run.system.connection, namespace, run.app))
        run.until("the retirement to be read", lambda: run.app in run.observer.state.retired)
        captured = run.capture("after it was retired")
        assert {cut.app for cut in captured.inputs} == {f"{run.app}-other"}
        assert run.verdict(captured)[0] is Verdict.VERIFIED


def test_r10_an_app_that_reads_from_the_latest_record_is_cut_there(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """It has committed nothing, and does not run: what lies in its input it will never read. What comes behind the
    trigger it would have, and is in flight."""
    with counting(kafka, namespace, tmp_path) as run:
        run.feed(BEFORE)
        worker, mine = run.start_beside_another_app(reset="latest")
        run.system.kill(worker)
        run.bury(mine)
        run.await_empty_group()
        skipped = run.feed(COUNT)
        assert run.committed == 0

        captured = run.capture("without it")
        assert {partition: cut.position for partition, cut in run.cuts(captured).items()} == skipped
        assert run.verdict(captured) == (Verdict.VERIFIED, {})


def test_r10_an_app_that_runs_without_snapkafka_is_no_stopped_one(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """R10: an app is stopped only if its group is seen to be empty. Started with SNAPKAFKA=off beside another one that
    takes part, it runs events of which its group has committed nothing yet: no snapshot is taken, by name. Stopped in
    order it is cut where it stopped, and no event would run twice."""
    with counting(kafka, namespace, tmp_path) as run:
        worker, mine = run.start_beside_another_app()
        run.system.interrupt(worker)
        run.await_left(mine)
        run.env["SNAPKAFKA"] = "off"
        without = run.start_one()
        effects = run.feed(COUNT)
        run.await_effects(COUNT)
        assert run.committed == 0, "or nothing would be wrong with what is committed"

        with pytest.raises(TriggerRefusedError) as refused:
            run.take("while it runs", ttl_ms=10_000)
        assert refused.value.facts["reason"] == "app-runs-without"
        assert f"app {run.app} runs without snapkafka: its consumer group has 1 members" in str(refused.value)

        run.system.interrupt(without)
        run.await_empty_group()
        captured = run.capture("after it was stopped")
        assert {partition: cut.position for partition, cut in run.cuts(captured).items()} == effects
        assert sum(cut.end for cut in captured.changelogs if cut.app == run.app) == COUNT
        assert run.verdict(captured)[0] is Verdict.VERIFIED
