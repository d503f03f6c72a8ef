"""R10: where a recovered changelog holds effects of events that will run again, the snapshot says up to where. And for
an app that does not run: its inputs are cut where its group would go on, as the trigger states."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.checks import Verdict
from snapkafka.errors import TriggerRefusedError
from snapkafka.protocol import Captured, InputCut
from snapkafka.protocol.offsets import NOBODY
from snapkafka.testing import Worker, create_topics
from tests.chaos.judge import read_log, verdict_of
from tests.driver.live import Live
from tests.observing import Place

from .harness import count_records, produce, read_topics

pytestmark = pytest.mark.timeout(300)

COUNT = 60
#: Before them, and committed.
BEFORE = 20
#: Behind them, and never begun before the crash.
LATER = 14


class Counting(Live):
    """The app, its workers and its log; and another app that reads the same input for itself."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.env = {"FEATURES_COMMIT": "600", "FEATURES_ALONE": "yes", **self.names}

    def start_one(self, *, app: str = "", **env: str) -> Worker:
        """One more worker, with more of `FEATURES_...` for it alone."""
        more = {f"FEATURES_{name.upper()}": value for name, value in env.items()}
        module, app = "tests.features.apps.counting", app or self.app
        return self.system.start_worker(app, self.env | {"FEATURES_ID": app} | more, module=module)

    def start_beside_another_app(self, **env: str) -> tuple[Worker, int]:
        """Start a worker of this app, and one of another that stays; return that of this one, and its process."""
        worker = self.start_one(**env)
        other = f"{self.app}-other"
        create_topics(self.system.bootstrap, f"{other}-counted-out", partitions=2)
        compact = {"cleanup.policy": "compact"}
        create_topics(self.system.bootstrap, f"{other}-counted-changelog", partitions=2, config=compact)
        self.start_one(app=other, commit="0.5")
        self.await_workers()
        (mine,) = (v.process for v in self.observer.state.living() if v.hello.app == self.app)
        return worker, mine

    def feed(self, count: int) -> dict[int, int]:
        """Send so many records; where each partition ends now."""
        records = [(f"k{n % 7}", b"{}", None) for n in range(count)]
        places = produce(self.system.bootstrap, self.topic("in-counted"), records)
        return {partition: offset + 1 for partition, offset in sorted(places)}

    def await_effects(self, count: int, *, timeout_s: float = 60.0) -> None:
        """Until so many events have had theirs, in the table and in the output."""

        def written() -> bool:
            found = count_records(self.system.bootstrap, self.app, ["counted-out"])["counted-out"]
            return self.count("counted-changelog") >= count and found >= count

        self.until(f"the effects of {count} events to be in the log", written, timeout_s)

    def ran(self) -> dict[int, list[int]]:
        """By partition, which events have an output, in the order of these."""
        found: dict[int, list[int]] = {0: [], 1: []}
        for record in read_topics(self.system.bootstrap, self.topic("counted-out")).get("", ()):
            if source := record.header("src"):  # a marker has none
                _, _, partition, offset = source.split("|")
                found[int(partition)].append(int(offset))
        return found

    @property
    def done(self) -> int:
        """The committed positions of both partitions together."""
        return sum(self.committed.values())

    def await_left(self, *processes: int, timeout_s: float = 60.0) -> None:
        views = self.observer.state.processes
        self.until("all to have left", lambda: all(views[it].left is not None for it in processes), timeout_s)

    def bury(self, *dead: int) -> None:
        """A snapshot in vain: these processes are waited for, and after that they are not waited for again."""
        self.take("with a corpse", ttl_ms=500)
        self.await_left(*dead, timeout_s=20)

    def capture(self, name: str) -> Captured:
        view = self.take(name, ttl_ms=10_000)
        assert view.failure is None, view.failure
        return self.observer.state.captured(view.epoch)

    def cuts(self, captured: Captured) -> dict[int, InputCut]:
        """Of the inputs of this app, by partition."""
        return {cut.partition: cut for cut in captured.inputs if cut.app == self.app}

    def verdict(self, captured: Captured) -> tuple[Verdict, dict[str, int]]:
        """What the log says of a snapshot."""
        log = read_log(self.observer)
        verdict, counts = verdict_of(self.observer.state, log, captured.epoch)
        return verdict, dict(counts)


#: The app without workers; those that are started end with the block.
counting = partial(Counting.running, topics=["in-counted", "counted-out"], tables=["counted"])


#: Where a worker keeps its table: the store, and whether the next one begins with what the killed one left on its disk.
KEEPS = [
    pytest.param("memory://", False, id="memory"),
    pytest.param("rocksdb://", False, id="rocksdb-on-a-fresh-disk", marks=pytest.mark.nightly),
    pytest.param("rocksdb://", True, id="rocksdb-on-the-same-disk", marks=pytest.mark.nightly),
]


@pytest.mark.parametrize(("store", "same_disk"), KEEPS)
def test_r10_after_crashes(place: Place, store: str, same_disk: bool) -> None:
    """The worker is killed when table and outputs are in the log and no position is committed. What the next one
    recovers tells by its causes which events have had effects; the first cuts of the replay name them. What its disk
    holds Faust does not read again: then it may be anything that was in the input when it began."""
    with counting(place) as run:
        run.env |= {"FEATURES_STORE": store}
        run.env |= {"SNAPKAFKA_DEMO_DATA": str(place.folder / "data")} if same_disk else {}
        zeroth = run.start_one(commit="0.5")
        run.await_workers()
        run.feed(BEFORE)
        run.until("positions to be committed", lambda: run.done == BEFORE)
        run.system.interrupt(zeroth)
        first = run.start_one()
        run.await_workers()
        assert run.capture("before the crash").replays == 0, "a start with nothing to read"
        effects = run.feed(COUNT)
        run.await_effects(BEFORE + COUNT)
        run.system.kill(first)
        assert run.done == BEFORE, "a position was committed: nothing is run again"
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
        named = sum(effects[cut.partition] - cut.position for cut in captured.inputs)
        verdict, counts = run.verdict(captured)
        assert verdict is Verdict.VERIFIED_WITH_REPLAYS
        assert counts.pop("replayed") == named, "every effect of these"
        assert counts.keys() <= {"ran-twice"}
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
def test_what_waits_for_recovery_is_run(place: Place, committed: bool, switch: str, guarantee: str) -> None:
    """In a busy loop: what Faust fetches between its steps there it throws away, or takes for done. Not with us."""
    with counting(place) as run:
        run.env |= {"FEATURES_SLEEP": "0.05", "SNAPKAFKA": switch, "FEATURES_GUARANTEE": guarantee}
        first = run.start_one(commit="0.5" if committed else "600")
        run.feed(BEFORE)
        run.await_effects(BEFORE)
        run.until("positions to be committed", lambda: run.done == (BEFORE if committed else 0))
        run.system.kill(first)
        ends = run.feed(COUNT)
        run.start_one(lingers="1.2")

        def beyond() -> bool:
            """Something new has been run, in each partition: all that waited is run by then, or never."""
            run.feed(7)
            return all(max(ran, default=0) > ends[partition] for partition, ran in run.ran().items())

        run.until("later events to be run", beyond)
        passed_over = {at: {*range(ends[at])} - {*ran} for at, ran in run.ran().items()}
        assert any(passed_over.values()) == bool(switch), passed_over


# -- apps that do not run ----


@pytest.mark.parametrize("ends", ["in order", "by a kill"])
def test_r10_an_app_that_does_not_run(place: Place, ends: str) -> None:
    """Its positions are what its group has committed. After a stop in order nothing runs again; after a kill the
    events past that do, and the snapshot says so. Retired, it is no part of a snapshot any more."""
    with counting(place) as run:
        worker, mine = run.start_beside_another_app()
        effects = run.feed(COUNT)
        run.await_effects(COUNT)
        assert run.done == 0
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

        asyncio.run(ops.retire(run.system.connection, place.namespace, run.app))
        run.until("the retirement to be read", lambda: run.app in run.observer.state.retired)
        captured = run.capture("after it was retired")
        assert {cut.app for cut in captured.inputs} == {f"{run.app}-other"}
        assert run.verdict(captured)[0] is Verdict.VERIFIED


def test_r10_an_app_that_runs_without_snapkafka(place: Place) -> None:
    """R10: an app is stopped only if its group is seen to be empty. Started with SNAPKAFKA=off beside another one that
    takes part, it runs events of which its group has committed nothing yet: no snapshot is taken, by name. Stopped in
    order it is cut where it stopped, and no event would run twice."""
    with counting(place) as run:
        worker, mine = run.start_beside_another_app()
        run.system.interrupt(worker)
        run.await_left(mine)
        run.env["SNAPKAFKA"] = "off"
        without = run.start_one()
        effects = run.feed(COUNT)
        run.await_effects(COUNT)
        assert run.done == 0, "or nothing would be wrong with what is committed"

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


@pytest.mark.nightly
def test_r10_an_app_that_reads_from_the_latest_record_is_cut_there(place: Place) -> None:
    """It has committed nothing, and does not run: what lies in its input it will never read. What comes behind the
    trigger it would have, and is in flight."""
    with counting(place) as run:
        run.feed(BEFORE)
        worker, mine = run.start_beside_another_app(reset="latest")
        run.system.kill(worker)
        run.bury(mine)
        run.await_empty_group()
        skipped = run.feed(COUNT)
        assert run.done == 0

        captured = run.capture("without it")
        assert {partition: cut.position for partition, cut in run.cuts(captured).items()} == skipped
        assert run.verdict(captured) == (Verdict.VERIFIED, {})
