"""R10 with two workers: the one that is left takes over what the killed one had, on the tables of a standby."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka.checks import Verdict
from snapkafka.demo import Worker
from snapkafka.testing import Broker

from .replaying import capture, counting
from .test_recovery import BEFORE, COUNT, LATER

pytestmark = pytest.mark.timeout(300)


@pytest.mark.nightly
@pytest.mark.parametrize("store", ["memory", pytest.param("rocksdb", marks=pytest.mark.nightly)])
def test_after_a_crash_the_standby_that_takes_over_says_up_to_where_events_run_again(
    kafka: Broker, tmp_path: Path, store: str
) -> None:
    """Two workers, each the standby of the other's part of the table. One is killed when effects are in the log
    that no committed position covers. What the other one has read as a standby, and what it recovers on top, tells
    by its causes which events have had effects. Its own events run again, too: Faust commits none of them in the
    rebalance. With its old disk the killed one comes back."""
    slow, sign = tmp_path / "slow", tmp_path / "commit"
    sign.touch()
    env = {
        "FEATURES_STORE": f"{store}://",
        "FEATURES_SLEEP": "0.3",
        "FEATURES_SLOW": str(slow),
        "FEATURES_COMMIT_WHEN": str(sign),
    }
    with counting(kafka, tmp_path, env) as run:
        observer = run.observer

        def commits(count: int) -> bool:
            with sign.open("a") as reported:
                reported.write(".")
            return run.committed == count

        def has_heard(worker: Worker) -> bool:
            heard = sign.with_name(f"{sign.name}.{worker.pid}")
            return heard.exists() and heard.read_text() == str(sign.stat().st_size)

        disk = {"SNAPKAFKA_DEMO_DATA": str(tmp_path / "its disk")}
        run.env |= disk
        goes = run.start()
        run.env |= {"SNAPKAFKA_DEMO_DATA": str(tmp_path / "another disk")}
        stays = run.start()
        observer.wait_for_workers(run.system)
        processes = {view.hello.pid: view.process for view in observer.state.living()}
        run.produce(BEFORE)
        run.wait_for_effects(BEFORE)
        run.wait_until("positions to be committed", lambda: commits(BEFORE))
        run.wait_until("no commit to be due", lambda: has_heard(goes) and has_heard(stays))
        assert capture(observer, "before the crash").replays == 0
        effects = run.produce(COUNT)
        run.wait_for_effects(BEFORE + COUNT)
        assert run.committed == BEFORE, "a position was committed: nothing is run again"
        slow.touch()
        run.system.kill(goes)
        view = observer.state.processes[processes[stays.pid]]
        run.wait_until("the standby to have both inputs", lambda: len(view.inputs) == 2, timeout_s=120)
        ends = effects | run.produce(LATER)
        run.bury({processes[goes.pid]})
        captured = capture(observer, "replaying")
        reported = {cut.partition: cut.agents[0].replay_until for cut in captured.inputs}
        assert reported == effects
        assert captured.replays == 2
        run.judge_replays(captured, effects)
        slow.unlink()
        run.wait_for_effects(BEFORE + 2 * COUNT + LATER, timeout_s=90)
        after = capture(observer, "after the replay")
        assert {cut.partition: cut.position for cut in after.inputs} == ends
        assert after.replays == 0
        run.wait_until("positions to be committed", lambda: commits(sum(ends.values())))

        run.env |= disk
        run.start()
        observer.wait_for_workers(run.system)
        run.produce(LATER)
        run.wait_for_effects(BEFORE + 2 * COUNT + 2 * LATER)
        both = capture(observer, "both again")
        assert both.replays == 0
        assert run.verdict(both) == (Verdict.VERIFIED, {})
