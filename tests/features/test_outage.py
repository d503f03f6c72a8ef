"""R4 and R15 for real: the broker that holds the ledger is away, and with it nothing else."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic

from snapkafka.kafka import SETTINGS, Connection, KafkaTopicAdmin, topic_name
from snapkafka.protocol import TopicPartition
from snapkafka.testing import EmbeddedKafka, create_topics, wait_until
from tests.driver.live import Feed
from tests.freezing import freeze, thaw
from tests.observing import Place

from .harness import PARTITIONS, Pair, Side, both_counting, count_records, is_marker, produce
from .judging import Judge, Row

pytestmark = pytest.mark.timeout(400)

T = TypeVar("T")

AWAY_S = 30.0
RATE = 60
#: Longer than the slow event takes, and half as long as the ledger is away.
TTL_MS = 15_000
#: The controller misses a broker after 3 s without a word; a broker that is there answers at once.
MISSED_S, ANSWER_S = 20.0, 10.0
#: Both runs commit every half second: a second or two of thirty is noise. A worker that waited for the ledger would
#: lose eight seconds at a time.
AS_FAST, STOP_S = 0.9, 4.0
BACK_S = 60.0
INPUTS, OUTPUTS = ("counted", "slow"), ("counted-out", "slow-out")


@pytest.fixture
def cluster(namespace: str) -> Iterator[tuple[EmbeddedKafka, EmbeddedKafka]]:
    """A broker with everything, which is the controller, and another one with the ledger and nothing else."""
    topics = [f"{namespace}-counting-in-{name}" for name in INPUTS]
    for side in ("ours", "plain"):
        topics += [f"{namespace}-counting-{side}-{name}" for name in (*OUTPUTS, "counted-changelog")]
    with EmbeddedKafka(properties={"log.message.timestamp.type": "LogAppendTime"}) as main:
        create_topics(main.bootstrap, *topics, partitions=PARTITIONS)
        # Positions of groups are kept where the first one ever was: not on the broker that will go.
        consumer = Consumer({"bootstrap.servers": main.bootstrap, "group.id": "first", "log_level": 0})
        consumer.commit(offsets=[KafkaPartition(topics[0], 0, 0)], asynchronous=False)
        consumer.close()
        other = EmbeddedKafka()
        other.cluster_id = main.cluster_id
        other.properties |= {"process.roles": "broker", "node.id": "2"}
        other.properties["controller.quorum.voters"] = main.voters
        other.properties["listeners"] = f"CLIENT://{other.bootstrap}"
        with other:
            wait_until("both brokers", lambda: brokers(main.bootstrap) == 2, timeout_s=60)
            admin = AdminClient({"bootstrap.servers": main.bootstrap, "log_level": 0})
            ledger = NewTopic(topic_name(namespace), 1, replica_assignment=[[2]], config=dict(SETTINGS))
            admin.create_topics([ledger])[ledger.topic].result(30)
            yield main, other


def answered(pair: Pair, ask: Callable[[KafkaTopicAdmin], Coroutine[Any, Any, T]]) -> T:
    """By a client that is made now: it hears of the brokers that are there, and asks no other one."""

    async def answer() -> T:
        admin = KafkaTopicAdmin(Connection(bootstrap=pair.bootstrap))
        try:
            return await ask(admin)
        finally:
            await admin.close()

    return asyncio.run(asyncio.wait_for(answer(), ANSWER_S))


def written(pair: Pair, side: Side) -> int:
    outputs = [TopicPartition(f"{side.id}-counted-out", partition) for partition in range(PARTITIONS)]
    return sum(answered(pair, lambda admin: admin.log_ends(outputs)).values())


def committed(pair: Pair) -> dict[str, int]:
    """How far both runs have committed `counted`."""

    def position(side: Side) -> int:
        places = answered(pair, lambda admin: admin.committed(side.id))
        return sum(at for tp, (at, _) in places.items() if tp.topic.endswith("in-counted"))

    return {side.id: position(side) for side in pair.sides}


def brokers(bootstrap: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})  # a new one, as in `answered`
    return len(admin.list_topics(timeout=ANSWER_S).brokers)


def outputs_between(side: Side, start_ms: float, end_ms: float) -> tuple[int, float]:
    """How many were appended meanwhile, and the longest time without one in seconds; by the clock of the broker."""
    records = [record for record in side.records["counted-out"] if not is_marker(record)]
    times = sorted(record.timestamp_ms for record in records if start_ms <= record.timestamp_ms <= end_ms)
    stops = [after - before for before, after in itertools.pairwise([start_ms, *times, end_ms])]
    return len(times), max(stops) / 1_000


def begin_slow(pair: Pair) -> None:
    """An event of some seconds, that runs."""

    def started() -> int:
        return count_records(pair.bootstrap, pair.ours.id, ["slow-out"])["slow-out"]

    before = started()
    sent = produce(pair.bootstrap, f"{pair.input}-slow", [("k", b"{}", None)])
    pair.sent.setdefault("slow", []).extend(sent)
    wait_until("the slow agent to start", lambda: started() > before, timeout_s=30, period_s=0.02)


KILLED = pytest.param(EmbeddedKafka.kill, EmbeddedKafka.start, id="killed", marks=pytest.mark.nightly)
FROZEN = pytest.param(freeze, thaw, id="frozen", marks=pytest.mark.nightly)


@pytest.mark.parametrize(("goes", "comes_back"), [KILLED, FROZEN])
def test_r4_nothing_waits_for_a_ledger_that_is_away(
    cluster: tuple[EmbeddedKafka, EmbeddedKafka],
    namespace: str,
    tmp_path: Path,
    goes: Callable[[EmbeddedKafka], None],
    comes_back: Callable[[EmbeddedKafka], None],
) -> None:
    """Its broker is killed, or frozen, when a report of a cut is on its way there, and comes back after 30 s. Meanwhile
    events, sends and commits go on as fast as without snapkafka. The snapshot is captured then, though its time is
    over: the report comes before the word that it is late (R12), and is as true as one in time; the next one, too."""
    hold, (main, other) = tmp_path / "hold", cluster
    with both_counting(Place(main.bootstrap, namespace, tmp_path), env={"FEATURES_HOLD": str(hold)}) as pair:
        with Feed(pair.bootstrap, f"{pair.input}-counted", RATE) as feed:
            pair.sent["counted"] = feed.places
            wait_until("work", lambda: min(written(pair, it) for it in pair.sides) > 3 * RATE, timeout_s=60)
            begin_slow(pair)
            hold.touch()
            open_one = pair.observer.ask("cut short", ttl_ms=TTL_MS)
            wait_until("the cut", hold.with_suffix(".held").exists, timeout_s=30, period_s=0.01)
            goes(other)
            gone_ms = time.time() * 1_000
            hold.unlink()
            try:
                wait_until("one broker", lambda: brokers(main.bootstrap) == 1, timeout_s=MISSED_S)
                before = committed(pair)
                time.sleep(AWAY_S - (time.time() - gone_ms / 1_000))  # this is the fault
                after = committed(pair)
                back_ms = time.time() * 1_000
            finally:
                comes_back(other)
            view = pair.observer.decided(open_one, BACK_S)
            assert view.captured_at is not None, view.failure
            assert pair.observer.times[view.captured_at] >= back_ms, "its report was there before"
            pair.epochs.append(open_one)
            pair.snapshot(retries=3)  # who was silent may be declared dead while the first one is requested
        pair.wait_for({"counted-out": len(pair.sent["counted"]), "slow-out": 2})
        pair.finish()
        gained = {side.id: after[side.id] - before[side.id] for side in pair.sides}
        ours, plain = (outputs_between(side, gone_ms, back_ms) for side in pair.sides)
        print(f"with snapkafka and without: outputs and stops {ours}, {plain}; commits {gained}")
        assert plain[0] > 0.5 * AWAY_S * RATE, "plain Faust does not keep up: this shows nothing"
        assert ours[0] >= AS_FAST * plain[0], "events and sends"
        assert gained[pair.ours.id] >= AS_FAST * gained[pair.plain.id] > 0, "commits"
        assert ours[1] < plain[1] + STOP_S, "the longest stop"
        judge = Judge(pair)
        judge.same(Row("away", INPUTS, OUTPUTS, tables=("counted",)))
        judge.consistent()
