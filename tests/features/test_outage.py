"""R4 and R15 for real: the broker that holds the ledger is away, and with it nothing else."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic

from snapkafka.demo.system import wait_until
from snapkafka.kafka.ledger import SETTINGS, topic_name
from snapkafka.kafka.triggering import compose_trigger
from snapkafka.protocol.completion import SnapshotView
from snapkafka.protocol.records import TopicPartition
from snapkafka.testing import EmbeddedKafka, create_topics

from .harness import PARTITIONS, Pair, Side, count_records, produce, running
from .judging import Judge, Row

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

AWAY_S = 30.0
RATE = 60
#: Both runs are looked at every quarter of a second or so, and commit every half: a second or two of thirty is noise. A
#: worker that waited for the ledger would lose eight seconds at a time.
AS_FAST, STOP_S = 0.9, 4.0
#: Of the workers; and what joining takes.
SESSION_S = 6.0
REJOIN_S = 60.0
BACK_S = 60.0
#: The first may meet inputs that move, the next finds no sign of the dead.
ATTEMPTS = 3
APP = "tests.features.apps.outage"
INPUTS, OUTPUTS = ("quick", "slow"), ("quick-out", "slow-out")


@dataclass
class Cluster:
    """A broker with everything, and another with the ledger and nothing else."""

    main: EmbeddedKafka
    other: EmbeddedKafka
    namespace: str


@pytest.fixture
def cluster(namespace: str) -> Iterator[Cluster]:
    with EmbeddedKafka() as main:
        bootstrap, prefix = main.bootstrap, f"{namespace}-outage"
        create_topics(bootstrap, *(f"{prefix}-in-{name}" for name in INPUTS), partitions=PARTITIONS)
        for side in ("ours", "plain"):
            create_topics(bootstrap, *(f"{prefix}-{side}-{name}" for name in OUTPUTS), partitions=PARTITIONS)
            create_topics(
                bootstrap,
                f"{prefix}-{side}-quick-changelog",
                partitions=PARTITIONS,
                config={"cleanup.policy": "compact"},
            )
        commit_once(bootstrap, f"{prefix}-in-quick")
        with EmbeddedKafka(beside=main) as other:
            admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
            wait_until("both brokers", lambda: len(admin.list_topics(timeout=20).brokers) == 2, timeout_s=60)
            ledger = NewTopic(
                topic_name(namespace), num_partitions=1, replica_assignment=[[2]], config=dict(SETTINGS)
            )
            admin.create_topics([ledger])[ledger.topic].result(30)
            yield Cluster(main, other, namespace)


def commit_once(bootstrap: str, topic: str) -> None:
    """Positions of groups are kept where the first one ever was: not on the broker that will go."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "first", "log_level": 0})
    consumer.commit(offsets=[KafkaPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()


@dataclass
class Watched:
    """What one of the two runs got done, over time: seconds, outputs written, positions committed."""

    side: Side
    seen: list[tuple[float, int, int]] = field(default_factory=list)

    def between(self, start: float, end: float) -> tuple[int, int, float]:
        """Outputs and commits gained, and the longest time without a new output."""
        seen = [item for item in self.seen if start <= item[0] <= end]
        longest, since = 0.0, seen[0][0]
        for (_, before, _), (at, now, _) in itertools.pairwise(seen):
            if now > before:
                longest, since = max(longest, at - since), at
        return seen[-1][1] - seen[0][1], seen[-1][2] - seen[0][2], max(longest, seen[-1][0] - since)


class Watch:
    """Looks at both runs all the while, and feeds them."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.sides = [Watched(side) for side in pair.sides]
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._look), threading.Thread(target=self._feed)]

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _look(self) -> None:
        observer = self.pair.observer
        while not self._over.wait(0.25):
            for watched in self.sides:
                outputs = [
                    TopicPartition(f"{watched.side.id}-quick-out", partition)
                    for partition in range(PARTITIONS)
                ]
                written = sum(observer.call(observer.admin.log_ends(outputs)).values())
                committed = observer.call(observer.admin.committed(watched.side.id))
                done = sum(offset for tp, (offset, _) in committed.items() if tp.topic.endswith("in-quick"))
                watched.seen.append((time.monotonic(), written, done))

    def _feed(self) -> None:
        second: list[tuple[str, bytes, int | None]] = [(f"k{n % 7}", b"{}", None) for n in range(RATE)]
        while not self._over.is_set():
            self.pair.send({"quick": second}, seconds=1.0)


def started(pair: Pair) -> int:
    return count_records(pair.bootstrap, pair.ours.id, ["slow-out"])["slow-out"]


def ask(pair: Pair, name: str, ttl_ms: int = 5_000) -> int:
    """A trigger from outside; its epoch."""
    observer = pair.observer
    work = compose_trigger(observer.admin, observer.state, snapshot_id=name, ttl_ms=ttl_ms)
    return observer.call(observer.ledger.append(observer.call(work))) + 1


def decided(pair: Pair, epoch: int) -> SnapshotView:
    snapshots = pair.observer.state.snapshots
    wait_until(
        f"the snapshot of epoch {epoch} to be decided",
        lambda: epoch in snapshots and not snapshots[epoch].open,
        timeout_s=BACK_S,
    )
    return snapshots[epoch]


def test_r4_nothing_waits_for_a_ledger_that_is_away(cluster: Cluster, tmp_path: Path) -> None:
    """Its broker is killed in mid-snapshot and comes back after 30 s. Meanwhile events, sends and commits go on as
    fast as without snapkafka; the snapshot fails by a reason; when the ledger is back the next one is captured."""
    with running(
        cluster.main.bootstrap,
        cluster.namespace,
        tmp_path,
        APP,
        inputs=INPUTS,
        outputs=OUTPUTS,
        changelogs=["quick"],
    ) as pair:
        with Watch(pair) as watch:
            wait_until(
                "both runs to be at work",
                lambda: all(side.seen and side.seen[-1][1] > 3 * RATE for side in watch.sides),
                timeout_s=60,
            )
            pair.snapshot()
            pair.sent["slow"] = produce(cluster.main.bootstrap, f"{pair.input}-slow", [("k", b"{}", None)])
            wait_until("the slow agent to start", lambda: started(pair) > 0, timeout_s=30, period_s=0.02)
            open_one = ask(pair, "cut short", ttl_ms=2_000)
            snapshots = pair.observer.state.snapshots
            wait_until(
                "the cut",
                lambda: open_one in snapshots and bool(snapshots[open_one].reports),
                timeout_s=30,
                period_s=0.01,
            )
            cluster.other.kill()
            gone = time.monotonic()
            assert pair.observer.state.snapshots.get(open_one) is None or (
                pair.observer.state.snapshots[open_one].open
            ), "it was captured before the ledger was gone"
            time.sleep(AWAY_S)  # this is the fault
            back = time.monotonic()
            cluster.other.start()
            view = decided(pair, open_one)
            pair.snapshot()
        ours, plain = (watched.between(gone, back) for watched in watch.sides)
        print(f"with snapkafka {ours}, without {plain}; {view.failure}")
        assert plain[0] > 0.5 * AWAY_S * RATE, (
            "without snapkafka it does not keep up either: nothing is shown"
        )
        assert ours[0] >= AS_FAST * plain[0], "events and sends"
        assert ours[1] >= AS_FAST * plain[1], "commits"
        assert ours[2] < plain[2] + STOP_S, "the longest stop"
        assert view.failure is not None
        assert view.failure.code == "ttl"
        assert view.failure.culprit
        pair.wait_for({"quick-out": len(pair.sent["quick"]), "slow-out": 2})
        pair.finish()
        judge = Judge(pair)
        judge.same(Row("away", INPUTS, OUTPUTS, tables=("quick",)))
        judge.consistent()


@pytest.mark.long
def test_r15_inputs_that_move_while_the_ledger_is_away_are_part_of_snapshots_when_it_is_back(
    cluster: Cluster, tmp_path: Path
) -> None:
    """One of two workers is killed while nothing can be said: the other takes its inputs over and goes on, and says so
    when the ledger is back; snapshots have all inputs then."""
    with (
        running(
            cluster.main.bootstrap,
            cluster.namespace,
            tmp_path,
            APP,
            inputs=INPUTS,
            outputs=OUTPUTS,
            changelogs=["quick"],
            workers=2,
        ) as pair,
        Watch(pair) as watch,
    ):
        system = pair.ours.system
        before = {source.receiver for source in pair.snapshot().inputs}
        assert len(before) == 2, "both have inputs"
        cluster.other.kill()
        system.kill(system.workers[0])
        time.sleep(SESSION_S)  # this is the fault: the inputs of the dead move when its session is over
        written = watch.sides[0].seen[-1][1]
        wait_until(
            "the one that is left to work",
            lambda: watch.sides[0].seen[-1][1] >= written + 5 * RATE,
            timeout_s=REJOIN_S,
            system=system,
        )
        assert all(view.left is None for view in pair.observer.state.processes.values())
        cluster.other.start()
        views = (decided(pair, ask(pair, f"with a corpse {attempt}")) for attempt in range(ATTEMPTS))
        view = next((view for view in views if view.failure is None), None)
        assert view is not None, "none was captured, long after the ledger was back"
        inputs = pair.captured(view.epoch).inputs
        assert len(inputs) == len(INPUTS) * PARTITIONS
        assert len({source.receiver for source in inputs} & before) == 1, "the one that is left has them all"
