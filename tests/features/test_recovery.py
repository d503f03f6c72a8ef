"""R10: where a recovered changelog holds effects of events that will run again, the snapshot says up to where."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka.testing import Broker

from .replaying import counting

pytestmark = pytest.mark.timeout(300)

COUNT = 60
#: Before them, and committed.
BEFORE = 20
#: Behind them, and never begun before the crash.
LATER = 14


#: Where a worker keeps its table: the store, and whether the next one begins with what the killed one left on its disk.
KEEPS = [
    pytest.param("memory://", False, id="memory"),
    pytest.param("rocksdb://", False, id="rocksdb-on-a-fresh-disk", marks=pytest.mark.nightly),
    pytest.param("rocksdb://", True, id="rocksdb-on-the-same-disk", marks=pytest.mark.nightly),
]


@pytest.mark.parametrize(("store", "same_disk"), KEEPS)
def test_after_a_crash_the_snapshot_says_up_to_where_events_run_again(
    kafka: Broker, namespace: str, tmp_path: Path, store: str, same_disk: bool
) -> None:
    """The worker is killed when table and outputs are in the log and no position is committed. What the next one
    recovers tells by its causes which events have had effects; the first cuts of the replay name them. What its disk
    holds Faust does not read again: then it may be anything that was in the input when it began."""
    env = {"FEATURES_STORE": store} | ({"SNAPKAFKA_DEMO_DATA": str(tmp_path / "data")} if same_disk else {})
    with counting(kafka, namespace, tmp_path, env) as run:
        zeroth = run.start_one(commit="0.5")
        run.await_workers()
        run.feed(BEFORE)
        run.until("positions to be committed", lambda: run.committed == BEFORE)
        run.system.interrupt(zeroth)
        first = run.start_one()
        run.await_workers()
        assert run.capture("before the crash").replays == 0, "a start with nothing to read"
        effects = run.feed(COUNT)
        run.await_effects(BEFORE + COUNT)
        run.system.kill(first)
        assert run.committed == BEFORE, "a position was committed: nothing is run again"
        ends = effects | run.feed(LATER)
        dead = set(run.observer.state.processes)
        run.start_one(sleep="0.3")
        run.await_successor(dead)
        run.bury(*dead)
        run.await_effects(BEFORE + COUNT + 1)  # one has run again
        captured = run.capture("replaying")
        assert captured.replays == 2, "of both inputs"
        reported = {cut.partition: cut.agents[0].replay_until for cut in captured.inputs}
        assert reported == (ends if same_disk else effects)
        assert all(cut.position < effects[cut.partition] for cut in captured.inputs)
        run.judge_replays(captured, effects)
        run.await_effects(BEFORE + 2 * COUNT + LATER, timeout_s=90)
        after = run.capture("after the replay")
        assert {cut.partition: cut.position for cut in after.inputs} == ends
        assert after.replays == 0


@pytest.mark.parametrize(
    ("committed", "switch", "guarantee"),
    [
        pytest.param(True, "", "at_least_once", id="committed"),
        *(
            pytest.param(*case, id=name, marks=pytest.mark.nightly)
            for name, case in {
                "nothing-committed": (False, "", "at_least_once"),
                "exactly_once": (True, "", "exactly_once"),
                "plain_faust": (True, "off", "at_least_once"),
                "plain_faust-nothing-committed": (False, "off", "at_least_once"),
                "plain_faust-exactly_once": (True, "off", "exactly_once"),
            }.items()
        ),
    ],
)
def test_what_waits_while_tables_are_recovered_is_run(
    kafka: Broker, namespace: str, tmp_path: Path, committed: bool, switch: str, guarantee: str
) -> None:
    """In a busy loop: what Faust fetches between its steps there it throws away, or takes for done. Not with us."""
    env = {"FEATURES_SLEEP": "0.05", "SNAPKAFKA": switch, "FEATURES_GUARANTEE": guarantee}
    with counting(kafka, namespace, tmp_path, env) as run:
        first = run.start_one(commit="0.5" if committed else "600")
        run.feed(BEFORE)
        run.await_effects(BEFORE)
        run.until("positions to be committed", lambda: run.committed == (BEFORE if committed else 0))
        run.system.kill(first)
        ends = run.feed(COUNT)
        run.start_one(lingers="1.2")

        def beyond() -> bool:
            """Something new has been run, in each partition: all that waited is run by then, or never."""
            run.feed(7)
            return all(max(ran, default=0) > ends[partition] for partition, ran in run.ran().items())

        run.until("later events to be run", beyond)
        passed_over = [
            (partition, offset)
            for partition, ran in run.ran().items()
            for offset in set(range(ends[partition])) - set(ran)
        ]
        assert bool(passed_over) == bool(switch), passed_over
