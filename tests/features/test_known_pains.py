"""Pains of plain Faust, by the thread they were told in (docs/explanation/known-pains.md), on Faust's own classes; and
what becomes of some with snapkafka, on real workers. Of the others the page says where that is shown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faust
import pytest
from aiokafka.errors import ProducerFenced
from faust import Event
from faust.assignor.client_assignment import CopartitionedAssignment
from faust.assignor.copartitioned_assignor import CopartitionedAssignor
from faust.exceptions import ConsistencyError, PartitionsMismatch, ValueDecodeError
from faust.transport.consumer import TransactionManager
from faust.types import TP, ConsumerMessage, FutureMessage

from snapkafka.demo import Observer, System, observing, wait_until
from snapkafka.errors import TriggerRefusedError
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, create_topics
from tests.driver.test_install import take
from tests.kafka.waiting import until

from . import harness
from .test_exactly_once import FEW, fence

REQUESTS = TP("requests", 0)
CHANGELOG = TP("pains-counts-changelog", 0)


@pytest.fixture
def app() -> Any:
    return faust.App("pains", broker="kafka://127.0.0.1:1", store="memory://")


@pytest.mark.parametrize("running", [10, 11])
async def test_682_plain_faust_commits_past_an_event_that_runs(app: Any, running: int) -> None:
    """robinhood/faust#682: with concurrency a later event may be done first. The guard against that is off by one: the
    event right behind the position protects nothing, the next one does."""
    consumer = acking(app)
    consumer._committed_offset[REQUESTS] = 10
    for offset in {10, 11, 12} - {running}:
        consumer.ack(message_at(offset))
    assert commits_up_to(consumer) == 13, "all of them, though one runs still"


async def test_604_plain_faust_commits_past_an_event_that_was_never_acknowledged(app: Any) -> None:
    """robinhood/faust#604: an agent that acknowledges itself raises at the first record, and does so with the next."""
    consumer = acking(app)
    for offset in (1, 2):
        consumer.ack(message_at(offset))
    assert commits_up_to(consumer) == 3, "all of them, though nobody was through with the first"


async def test_604_plain_faust_gives_no_partition_back_before_everything_is_acknowledged(app: Any) -> None:
    """By default (`stream_wait_empty`). Who holds a record back holds the rebalance up, until the broker takes it for
    dead; where it does not wait, see `test_held_back.py`."""
    assert app.conf.stream_wait_empty
    consumer, message = acking(app), message_at(1)
    consumer._unacked_messages.add(message)
    consumer._new_offset = lambda _: None  # nothing to commit
    giving_back = asyncio.ensure_future(app._consumer_wait_empty(consumer, logging.getLogger()))
    await asyncio.wait([giving_back], timeout=0.2)
    assert not giving_back.done()
    consumer.ack(message)
    await asyncio.wait_for(giving_back, timeout=5)


@pytest.mark.timeout(200)
def test_604_a_snapshot_waits_for_an_event_that_was_never_acknowledged(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """Faust commits past it in both runs. With snapkafka it counts as running, so no snapshot takes it for done: they
    fail, and name the process. Whoever starts after that does not see it again."""
    with harness.running(
        kafka.bootstrap,
        namespace,
        tmp_path,
        "tests.features.apps.pains",
        inputs=["by-hand", "in-batches"],
        outputs=["by-hand-out", "in-batches-out"],
    ) as pair:
        values = ["raise", *["acknowledge"] * 5]
        pair.send({"by-hand": [("k", f'"{value}"'.encode(), None) for value in values]}, seconds=0.1)
        partition, _ = pair.sent["by-hand"][0]
        tp = TopicPartition(f"{pair.input}-by-hand", partition)
        for side in pair.sides:
            wait_until(
                f"{side.id} to commit past all of them",
                partial(has_committed, pair.observer, side.id, tp, len(values)),
                timeout_s=30,
                system=side.system,
            )
        failure = pair.observer.state.snapshots[take(pair.observer, "held", ttl_ms=1000)].failure
        assert failure is not None
        assert failure.code == "ttl"
        assert "to finish events that began before the cut" in failure.culprit

        for side in pair.sides:
            side.system.kill(side.system.workers[0])
            pair.start(side)
        pair.send({"by-hand": [("k", b'"acknowledge"', None)]}, seconds=0.1)
        pair.wait_for({"by-hand-out": len(values)})
        for side in pair.sides:
            assert "ValueError" not in side.system.workers[0].last_lines(200), "it has come again"


def has_committed(observer: Observer, group: str, tp: TopicPartition, position: int) -> bool:
    return observer.call(observer.admin.committed(group)).get(tp, (0, ""))[0] == position


def acking(app: Any) -> Any:
    app.topics._acking_topics.add(REQUESTS.topic)
    return app.consumer


def commits_up_to(consumer: Any) -> int | None:
    """What the timer of the consumer would commit."""
    for _ in range(2):
        if (found := consumer._new_offset(REQUESTS)) is not None:
            consumer._committed_offset[REQUESTS] = found
    committed: int | None = consumer._committed_offset[REQUESTS]
    return committed


async def test_323_plain_faust_takes_a_commit_of_a_fenced_producer_for_done(app: Any) -> None:
    """#323, #517: what the transaction held is lost, and the worker ends; its positions count as committed."""
    crashed: list[BaseException] = []

    class Fenced:
        async def commit_transactions(self, *_: Any, **__: Any) -> None:
            raise ProducerFenced

    async def crash(reason: BaseException) -> None:
        crashed.append(reason)

    app.crash = crash
    app.assignor._topic_groups[REQUESTS.topic] = 0
    transactions = TransactionManager(app.transport, consumer=app.consumer, producer=Fenced())
    assert await transactions.commit({REQUESTS: 5})
    assert [type(reason) for reason in crashed] == [ProducerFenced]


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_177_plain_faust_sends_outside_the_transaction_what_it_does_not_read_itself(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """#177: under exactly-once such a record is there for everybody before the event is done, and stays when its
    transaction is aborted. What the app reads itself, and its changelog, is in the transaction and gone with it."""
    inside, outside = ["exact-mid", "exact-changelog"], ["exact-out"]
    with harness.running(
        kafka.bootstrap,
        namespace,
        tmp_path,
        "tests.features.apps.transactional",
        inputs=["exact"],
        outputs=["exact-out", "again-out", "exact-mid"],
        changelogs=["exact"],
        isolation="read_committed",
        env={"FEATURES_COMMIT": "600"},  # not in this test
    ) as pair:

        def there(isolation: str) -> dict[str, int]:
            return harness.count_records(kafka.bootstrap, pair.plain.id, inside + outside, isolation)

        pair.send({"exact": [(f"k{n}", b"{}", None) for n in range(FEW)]}, seconds=0.1)
        wait_until(
            "all effects to be in the log",
            lambda: set(there("read_uncommitted").values()) == {FEW},
            timeout_s=60,
        )
        before_any_commit = dict.fromkeys(inside, 0) | dict.fromkeys(outside, FEW)
        assert there("read_committed") == before_any_commit
        tps = [
            TopicPartition(f"{pair.plain.id}-{name}", n) for name in inside for n in range(harness.PARTITIONS)
        ]
        written = {tp: end for tp, end in log_ends(pair.observer, tps).items() if end}
        fence(pair)
        wait_until(
            "the end of each transaction to be in the log",
            lambda: all(log_ends(pair.observer, tps)[tp] > end for tp, end in written.items()),
            timeout_s=60,
        )
        assert there("read_committed") == before_any_commit, "aborted, and sent all the same"


def log_ends(observer: Observer, tps: list[TopicPartition]) -> Mapping[TopicPartition, int]:
    return observer.call(observer.admin.log_ends(tps))


def test_93_plain_faust_gives_a_worker_that_joins_no_partition() -> None:
    """#93: with standbys, as by default, whoever has a partition keeps it as long as nobody has more than his share."""
    workers = {"old": {0, 1}, "other": {2, 3}, "new": set[int]()}
    members = {name: CopartitionedAssignment(actives=set(held)) for name, held in workers.items()}
    given = CopartitionedAssignor(["requests"], members, num_partitions=4, replicas=1).get_assignment()
    assert {name: member.actives for name, member in given.items()} == workers


@pytest.mark.timeout(200)
def test_93_a_worker_without_partitions_neither_holds_a_snapshot_up_nor_spoils_it(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    app = f"small-{namespace}"
    create_topics(kafka.bootstrap, f"{app}-in", f"{app}-out", f"{app}-counts-changelog", partitions=2)
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            for _ in range(3):
                system.start_worker(app, {"SMALL_APP_ID": app}, module="tests.driver.small_app")
            observer.wait_for_workers(system)
            epoch = take(observer, "with an idle one", ttl_ms=15_000)
            (idle,) = (view.process for view in observer.state.living() if not view.inputs)
            assert observer.state.snapshots[epoch].failure is None
            captured = observer.state.captured(epoch)
            assert idle in {cut.process for cut in captured.processes}
            assert {source.receiver for source in captured.inputs} == {
                view.process for view in observer.state.living()
            } - {idle}
    finally:
        harness.stop(system)


def test_137_plain_faust_fails_at_a_write_where_partition_counts_differ(app: Any) -> None:
    """robinhood/faust#137, #325: nothing is said at the start."""
    table = app.Table("counts", default=int)
    app.consumer.topic_partitions = {REQUESTS.topic: 2, CHANGELOG.topic: 3}.get
    with pytest.raises(PartitionsMismatch):
        table._verify_source_topic_partitions(REQUESTS.topic)


@pytest.mark.timeout(200)
def test_137_a_snapshot_is_refused_where_partition_counts_differ(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """A worker that has started like any other tells the ledger both counts."""
    app = f"small-{namespace}"
    create_topics(kafka.bootstrap, f"{app}-in", f"{app}-out", partitions=2)
    create_topics(kafka.bootstrap, f"{app}-counts-changelog", partitions=3)
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            system.start_worker(app, {"SMALL_APP_ID": app}, module="tests.driver.small_app")
            observer.wait_for_workers(system)
            with pytest.raises(TriggerRefusedError) as refused:
                take(observer, "refused", ttl_ms=15_000)
    finally:
        harness.stop(system)
    assert f"{app}-counts-changelog" in str(refused.value)


async def test_385_plain_faust_never_expires_a_window_that_it_recovered(app: Any) -> None:
    """#385: which windows are due is in memory only. Nothing of it is in the changelog, and neither is that a window
    was expired: in a table that recovers, as in a snapshot, it is still there."""
    old, changelog = ("k", (0.0, 9.9)), []
    views, recovered = (
        app.Table(name, default=int).tumbling(10.0, expires=20.0).table for name in ("views", "recovered")
    )
    views.partition_for_key = lambda _: CHANGELOG.partition

    def send_changelog(_: int, key: Any, value: Any) -> Any:
        changelog.append((key, value))
        return FutureMessage(SimpleNamespace(partition=CHANGELOG.partition))

    views.send_changelog = send_changelog
    views[old] = 1
    await views._del_old_keys()
    assert old not in views
    assert changelog == [(old, 1)]

    recovered.apply_changelog_batch(
        [event_at(app, 0, key=list(key), value=value) for key, value in changelog]
    )
    await recovered._del_old_keys()
    assert recovered[old] == 1


class Order(faust.Record):
    id: int


@pytest.mark.parametrize(("value_type", "fails"), [(Order, True), (int, False), (bytes, False)])
async def test_plain_faust_fails_at_a_null_where_values_are_models(
    app: Any, value_type: type, fails: bool
) -> None:
    """What a marker would be to an agent that does not know it: a record without a value. Other agents get a None."""
    topic = app.topic(REQUESTS.topic, value_type=value_type)
    message = message_at(0)
    message.value = None
    event = await topic.decode(message)
    assert (event is None) == fails
    if fails:  # the error comes out where the agent waits for the next record
        with pytest.raises(ValueDecodeError):
            await topic.get()


class Log:
    """A changelog as recovery asks for it: where it begins, where it ends, and what became of it."""

    def __init__(self, app: Any, *, start: int = 0, end: int, kind: str = "Table") -> None:
        self.start, self.end = start, end
        self.sought: dict[TP, int] = {}
        self.resumed: set[TP] = set()
        self.recovery = app.tables.recovery
        self.recovery.active_tps.add(CHANGELOG)
        self.recovery.tp_to_table[CHANGELOG] = getattr(app, kind)("counts", default=int)

    async def earliest_offsets(self, *tps: TP) -> dict[TP, int]:
        return dict.fromkeys(tps, self.start)

    async def highwaters(self, *tps: TP) -> dict[TP, int]:
        return dict.fromkeys(tps, self.end)

    async def seek_wait(self, offsets: dict[TP, int]) -> None:
        self.sought.update(offsets)

    def stand_for(self, consumer: Any) -> None:
        consumer.highwaters, consumer.earliest_offsets = self.highwaters, self.earliest_offsets
        consumer.seek_wait = self.seek_wait
        consumer.resume_partitions = self.resumed.update
        consumer.assignment = set

    async def begin(self) -> None:
        """What recovery does before it reads."""
        recovery, tps = self.recovery, {CHANGELOG}
        await recovery._build_highwaters(self, tps, recovery.active_highwaters, "active")
        await recovery._build_offsets(self, tps, recovery.active_offsets, "active")
        await recovery._seek_offsets(self, tps, recovery.active_offsets, "active")


async def test_176_plain_faust_seeks_a_record_below_the_start_of_a_changelog(app: Any) -> None:
    """#176, #155, #651: it is not there, and the reset policy says what is read instead. With `latest` that is the end
    of the log, and recovery waits for ever for what it has passed over."""
    log = Log(app, start=5, end=8)
    await log.begin()
    assert log.sought == {CHANGELOG: 4}
    assert log.recovery.need_recovery()


async def test_597_plain_faust_takes_an_empty_changelog_for_recovered(app: Any) -> None:
    """#597: after retention has deleted everything there is nothing to wait for. In 0.15.3 Faust does not."""
    log = Log(app, start=5, end=5)
    await log.begin()
    assert not log.recovery.need_recovery()


async def test_158_plain_faust_ends_where_a_changelog_is_shorter_than_its_store(app: Any) -> None:
    """#158: the topic was made anew, and the store on disk remembers an offset of the old one. A worker ends whenever
    it starts, until somebody deletes its store."""
    log = Log(app, end=3)
    log.stand_for(app.consumer)
    log.recovery.active_offsets[CHANGELOG] = 500
    log.recovery.signal_recovery_start.set()
    with pytest.raises(ConsistencyError, match="500"):
        await type(log.recovery)._restart_recovery(log.recovery)


@pytest.mark.parametrize(("end", "waits"), [(2, False), (3, True)])
async def test_47_plain_faust_waits_for_a_record_where_a_transaction_ends(
    app: Any, end: int, waits: bool
) -> None:
    """#47: the last offset of the changelog, 2, is no record. Faust gives such a wait up only where it is transactional
    itself (`exactly_once`), after 10 s."""
    log = Log(app, end=end)
    recovery = log.recovery
    await log.begin()
    recovery._set_recovery_started()
    reading = asyncio.ensure_future(type(recovery)._slurp_changelogs(recovery))
    try:
        for offset in range(2):
            app.tables.changelog_queue.put_nowait(event_at(app, offset, key=f"k{offset}", value=1))
        await until(lambda: recovery.active_offsets[CHANGELOG] == 1)
        assert recovery.in_recovery == waits
    finally:
        reading.cancel()


@pytest.mark.parametrize(("kind", "read_on"), [("active", False), ("standby", True)])
async def test_212_plain_faust_reads_a_global_table_no_further_where_it_is_active(
    app: Any, kind: str, read_on: bool
) -> None:
    """#212, #283: whoever has a partition as active only reads it up to where it ended when he started. What others
    write to it after that (several apps) he never sees; who has it as a standby does. On workers: `test_copies.py`."""
    log = Log(app, end=0, kind="GlobalTable")
    recovery = log.recovery
    if kind == "standby":
        recovery.active_tps.clear()
        recovery.standby_tps.add(CHANGELOG)
    log.stand_for(app.consumer)
    recovery.signal_recovery_start.set()
    recovering = asyncio.ensure_future(type(recovery)._restart_recovery(recovery))
    try:
        await until(recovery.completed.is_set)
        assert (CHANGELOG in log.resumed) == read_on
    finally:
        recovering.cancel()


def event_at(app: Any, offset: int, *, key: Any, value: Any) -> Any:
    return Event(app, key, value, {}, message_at(offset, CHANGELOG))


def message_at(offset: int, tp: TP = REQUESTS) -> Any:
    return ConsumerMessage(tp.topic, tp.partition, offset, 0.0, 0, [], None, b"", None, 0, 0, tp)
