"""R10: where a recovered changelog holds effects of events that will run again, the snapshot says up to where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from snapkafka.testing import Broker

from .replaying import Counting, capture, counting

pytestmark = pytest.mark.timeout(300)

COUNT = 60
#: Before them, and committed.
BEFORE = 20
#: Behind them, and never begun before the crash.
LATER = 14


@dataclass(frozen=True, slots=True)
class Keeps:
    """Where a worker keeps its table. `disk`: the next one begins with what the killed one left on its disk."""

    name: str
    store: str = "memory://"
    disk: bool = False

    def __str__(self) -> str:
        return self.name

    def env(self, folder: Path) -> dict[str, str]:
        data = {"SNAPKAFKA_DEMO_DATA": str(folder / "data")} if self.disk else {}
        return {"FEATURES_STORE": self.store, "FEATURES_SLEEP": "0"} | data


MEMORY = Keeps("memory")
FRESH = Keeps("rocksdb-on-a-fresh-disk", "rocksdb://")
SAME = Keeps("rocksdb-on-the-same-disk", "rocksdb://", disk=True)


@pytest.mark.parametrize(
    "keeps", [MEMORY, *(pytest.param(keeps, marks=pytest.mark.nightly) for keeps in (FRESH, SAME))], ids=str
)
def test_after_a_crash_the_snapshot_says_up_to_where_events_run_again(
    kafka: Broker, tmp_path: Path, keeps: Keeps
) -> None:
    """The worker is killed when table and outputs are in the log and no position is committed. What the next one
    recovers tells by its causes which events have had effects; the first cuts of the replay name them. What its disk
    holds Faust does not read again: then it may be anything that was in the input when it began."""
    with counting(kafka, tmp_path, keeps.env(tmp_path)) as run:
        observer = run.observer
        zeroth = run.start(commit="0.5")
        observer.wait_for_workers(run.system)
        run.produce(BEFORE)
        run.wait_until("positions to be committed", lambda: run.committed == BEFORE)
        run.system.interrupt(zeroth)
        first = run.start()
        observer.wait_for_workers(run.system)
        assert capture(observer, "before the crash").replays == 0, "a start with nothing to read"
        effects = run.produce(COUNT)
        run.wait_for_effects(BEFORE + COUNT)
        run.system.kill(first)
        assert run.committed == BEFORE, "a position was committed: nothing is run again"
        ends = effects | run.produce(LATER)
        dead = set(observer.state.processes)
        run.start(sleep="0.3")
        wait_for_inputs(run, dead)
        run.bury(dead)
        run.wait_for_effects(BEFORE + COUNT + 1)  # one has run again
        captured = capture(observer, "replaying")
        assert captured.replays == 2, "of both inputs"
        reported = {cut.partition: cut.agents[0].replay_until for cut in captured.inputs}
        assert reported == (ends if keeps.disk else effects)
        assert all(cut.position < effects[cut.partition] for cut in captured.inputs)
        run.judge_replays(captured, effects)
        run.wait_for_effects(BEFORE + 2 * COUNT + LATER, timeout_s=90)
        after = capture(observer, "after the replay")
        assert {cut.partition: cut.position for cut in after.inputs} == ends
        assert after.replays == 0


@pytest.mark.parametrize(
    ("committed", "switch", "guarantee"),
    [
        pytest.param(True, "", "at_least_once", id="committed"),
        pytest.param(False, "", "at_least_once", id="nothing-committed", marks=pytest.mark.nightly),
        pytest.param(True, "", "exactly_once", id="exactly_once", marks=pytest.mark.nightly),
        pytest.param(True, "off", "at_least_once", id="plain_faust", marks=pytest.mark.nightly),
        pytest.param(
            False, "off", "at_least_once", id="plain_faust-nothing-committed", marks=pytest.mark.nightly
        ),
        pytest.param(True, "off", "exactly_once", id="plain_faust-exactly_once", marks=pytest.mark.nightly),
    ],
)
def test_what_waits_while_tables_are_recovered_is_run(
    kafka: Broker, tmp_path: Path, committed: bool, switch: str, guarantee: str
) -> None:
    """In a busy loop: what Faust fetches between its steps there it throws away, or takes for done. Not with us."""
    env = {"FEATURES_SLEEP": "0.05", "SNAPKAFKA": switch, "FEATURES_GUARANTEE": guarantee}
    with counting(kafka, tmp_path, env) as run:
        first = run.start(commit="0.5" if committed else "600")
        run.produce(BEFORE)
        run.wait_for_effects(BEFORE)
        run.wait_until("positions to be committed", lambda: run.committed == (BEFORE if committed else 0))
        run.system.kill(first)
        ends = run.produce(COUNT)
        run.start(lingers="1.2")

        def beyond() -> bool:
            """Something new has been run, in each partition: all that waited is run by then, or never."""
            run.produce(7)
            return all(max(ran, default=0) > ends[partition] for partition, ran in run.ran().items())

        run.wait_until("later events to be run", beyond, timeout_s=60)
        passed_over = {
            (partition, offset)
            for partition, ran in run.ran().items()
            for offset in set(range(ends[partition])) - set(ran)
        }
        assert bool(passed_over) == bool(switch), passed_over


def wait_for_inputs(run: Counting, before: set[int]) -> None:
    """Until a process that was not there before has both."""
    run.wait_until(
        "the next worker to get the inputs",
        lambda: any(len(v.inputs) == 2 for v in run.observer.state.living() if v.process not in before),
        timeout_s=120,
    )
