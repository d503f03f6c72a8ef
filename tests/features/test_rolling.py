"""R15: a service is rolled out worker by worker, and taken back, under load and a snapshot about every second."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from snapkafka import ops
from snapkafka.errors import SnapshotFailedError, TriggerRefusedError
from snapkafka.kafka import Connection
from snapkafka.ops import SnapshotInfo
from snapkafka.protocol import TopicPartition
from tests.driver.live import Feed, Live
from tests.observing import Place

from .harness import PARTITIONS, Pair, Side, is_marker, read_topics, running
from .judging import Judge

pytestmark = pytest.mark.timeout(400)

APP = "tests.features.apps.relaying"
KIND = {"FEATURES_KIND": "rolling"}
RATE = 40
TTL_MS = 2_000
STEP_S = 60.0


class Roll:
    """Feeds both runs, asks for snapshots of ours, and counts what becomes of them."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.where = Connection(bootstrap=pair.bootstrap)
        self.outcomes: list[str] = []
        self.feed = Feed(pair.bootstrap, f"{pair.input}-going", RATE)
        self._over, self._asking = threading.Event(), threading.Thread(target=self._ask)

    def __enter__(self) -> Roll:
        self._asking.start()
        self.feed.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        print(*self.outcomes, sep="\n")
        self._asking.join()
        self.feed.__exit__()

    def _ask(self) -> None:
        pair = self.pair
        while not self._over.wait(0.8):
            try:
                pair.epochs.append(pair.ours.system.snapshot(ttl_ms=TTL_MS).epoch)
                self.outcomes.append("captured")
            except TriggerRefusedError as error:
                self.outcomes.append(f"refused: {error}")
            except SnapshotFailedError as error:
                self.outcomes.append(f"failed: {error}")

    def replace(self, switch: str) -> None:
        """Start a worker with the switch so, and let the oldest leave."""
        pair, system = self.pair, self.pair.ours.system
        env = {"FEATURES_ID": pair.ours.id, "FEATURES_INPUT": pair.input, "SNAPKAFKA": switch, **KIND}
        oldest = system.workers[0]
        worker = system.start_worker(pair.ours.id, env, module=APP)
        system.wait_until("the new worker to start", lambda: "OK ^" in worker.last_lines(3), timeout_s=STEP_S)
        system.interrupt(oldest)

    def pass_the_last_marker(self) -> None:
        """What docs/guide/risk.md says: a pause, and reading on, before a worker without us gets inputs with
        markers."""
        pair, observer = self.pair, self.pair.observer
        asyncio.run(ops.pause(self.where, pair.namespace))
        self.until("the pause", "refused: snapshots are paused")
        written = [TopicPartition(f"{pair.ours.id}-mid", n) for n in range(PARTITIONS)]
        ends = observer.call(observer.admin.log_ends(written))

        def passed() -> bool:
            committed = observer.call(observer.admin.committed(pair.ours.id))
            return all(tp in committed and committed[tp][0] >= end for tp, end in ends.items())

        pair.ours.system.wait_until("both workers to pass the last marker", passed, timeout_s=STEP_S)

    def until(self, what: str, wanted: str, *, count: int = 1) -> None:
        """Until so many snapshots from now on have come out so."""
        seen = len(self.outcomes)

        def came() -> bool:
            return sum(outcome.startswith(wanted) for outcome in self.outcomes[seen:]) >= count

        self.pair.ours.system.wait_until(what, came, timeout_s=STEP_S)


@pytest.mark.nightly
def test_r15_rolled_out_and_taken_back(place: Place) -> None:
    """With one worker of two the snapshot is refused by the name of an input without a reader with snapkafka, and no
    marker is sent; with both it is captured, and borne out by the log; without any again it is refused. All the while
    nothing is lost, and no worker without snapkafka meets a marker."""
    off = {"SNAPKAFKA": "off", **KIND}
    with running(
        place, APP, inputs=["going"], outputs=["mid", "out"], env=off, workers=2, joins=False
    ) as pair:
        with Roll(pair) as roll:
            roll.until("no snapshot without snapkafka", "refused")
            roll.replace("on")
            roll.until("half of the workers to be named by their inputs", "refused: no process of app")
            mixed = len(roll.outcomes)
            roll.replace("on")
            roll.until("snapshots of all", "captured", count=3)
            roll.pass_the_last_marker()
            roll.replace("off")
            asyncio.run(ops.resume(roll.where, place.namespace))
            roll.until("half of the workers to be named by their inputs again", "refused: no process of app")
            roll.replace("off")
            roll.until("no snapshot without snapkafka again", "refused")
        asyncio.run(ops.retire(roll.where, place.namespace, pair.ours.id))
        assert not any(outcome == "captured" for outcome in roll.outcomes[:mixed])
        named = [outcome for outcome in roll.outcomes if outcome.startswith("failed")]
        assert all(pair.ours.id in it or "are paused" in it for it in named), "each says by whom"

        def answered(side: Side) -> set[int]:
            records = read_topics(pair.bootstrap, f"{side.id}-out")[""]
            return {json.loads(record.value or b"-1") for record in records if not is_marker(record)}

        all_answered = lambda: all(answered(it) >= {*range(roll.feed.sent)} for it in pair.sides)  # noqa: E731
        pair.ours.system.wait_until("both runs to answer all", all_answered, timeout_s=STEP_S)
        pair.end()
        assert any(is_marker(record) for record in pair.ours.records["mid"]), "no marker was sent at all"
        answers = [record for record in pair.ours.records["out"] if not is_marker(record)]
        assert {it.key for it in answers} == {b"k%d" % n for n in range(7)}, "a marker went for a message"
        judge = Judge(pair)
        kinds = {finding.kind for epoch in pair.epochs for finding in judge.findings(epoch)}
        assert kinds <= {"replayed", "ran-twice"}, "events may run again, no more"


WORKERS = 20


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_r9_of_a_snapshot_each_second_of_a_rolling_restart_19_in_20_are_captured(place: Place) -> None:
    """Each worker is replaced, one after the other. What a rebalance fails by name is tried again by the verb."""
    over, taken = threading.Event(), list[Future[SnapshotInfo]]()
    with Live.running(place, tables=(), partitions=WORKERS) as live, ThreadPoolExecutor(2 * WORKERS) as pool:

        def ask() -> None:
            while not over.wait(1.0):
                asked = ops.trigger(live.system.connection, place.namespace, wait=True)
                taken.append(pool.submit(asyncio.run, asked))

        before = [live.start(**KIND) for _ in range(WORKERS)]
        live.await_workers()
        with Feed(place.bootstrap, live.topic("in-going"), RATE):
            asking = pool.submit(ask)
            try:
                for worker in before:
                    fresh = live.start(**KIND)
                    live.until("the new one", lambda it=fresh: "OK ^" in it.last_lines(3))  # type: ignore[misc]
                    live.system.interrupt(worker)
            finally:
                over.set()
                asking.result()
    became = Counter("captured" if it.exception() is None else str(it.exception()) for it in taken)
    print(*became.items(), sep="\n")
    assert len(taken) > WORKERS
    assert became["captured"] >= 0.95 * len(taken), became
