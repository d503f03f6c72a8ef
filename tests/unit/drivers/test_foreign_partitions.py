"""Partitions are added to an input of a process that does not speak Kafka; or its topic is deleted, or recreated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection

import pytest

from snapkafka.drivers import Bounds, Participant
from snapkafka.drivers.foreign.assignment import Input
from snapkafka.drivers.foreign.input_watch import InputWatch
from snapkafka.drivers.foreign.settings import Added, Left, Marker
from snapkafka.errors import BadInputError, BrokerUnavailableError, TriggerRefusedError
from snapkafka.protocol import Assigned, Bye, LedgerRecord, TopicPartition, Trigger
from snapkafka.service.doors import Session
from tests.unit.drivers.test_foreign import trigger
from tests.unit.drivers.test_foreign_inputs import CHANGE, P0, P1, Here, receiving
from tests.worlds.fakes import FakeTopic, Worker
from tests.worlds.foreign_world import marker_of, until, view

P2 = TopicPartition("change", 2)
IDENTITY = "7" * 32
SOON = Bounds(look_s=0.01)
#: It looks when it cuts and never else.
LATE = Bounds(look_s=3_600)


class Growing(Here):
    """A bank, and a till whose input grows from two partitions to three."""

    def another(self, bounds: Bounds | None = None) -> Participant:
        return super().another(bounds or SOON)

    def grow(self) -> None:
        self.admin.topics["change"] = FakeTopic(3, IDENTITY)
        self.admin.ends.setdefault(P2, 0)

    def recreate(self) -> None:
        self.admin.topics["change"] = FakeTopic(2, "8" * 32)

    @property
    def assigned(self) -> list[tuple[TopicPartition, ...]]:
        """What the till has announced, one after the other."""
        records = (entry.record for entry in self.cluster.the_ledger.entries)
        process = self.till.process
        return [r.inputs for r in records if isinstance(r, Assigned) and r.process == process]

    async def noticed(self) -> None:
        await until(lambda: P2 in self.till.positions, "the new partition")


@pytest.fixture
async def here() -> AsyncIterator[Growing]:
    found = Growing()
    yield found
    await found.till.leave("the test is over")


@pytest.fixture
async def streams() -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks: list[asyncio.Task[None]] = []
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def notice_of(process: Participant, seconds: float = 60.0) -> Marker | Added | Left:
    return await asyncio.wait_for(process.notices.get(), seconds)


# -- partitions that are added -------------------------------------------------------------------------------------


async def test_records_of_a_partition_that_is_added_are_received_from_the_first_one_on(
    here: Growing, streams: list[asyncio.Task[None]]
) -> None:
    """Also those that were there before anybody noticed; the other partitions go on where they were."""
    here.consumer.white(P0, b"0")
    await here.till.join([CHANGE])
    received = receiving(here.till, streams)
    await received.have(b"0")
    here.consumer.white(P2, b"before")
    here.grow()
    await received.have(b"0", b"before")
    here.consumer.white(P0, b"1")
    here.consumer.white(P2, b"after")
    await received.have(b"0", b"before", b"1", b"after")
    assert await notice_of(here.till) == Added({P2: 0})
    assert here.assigned == [(P0, P1), (P0, P1, P2)]
    await here.till.processed([(P2, 1)])
    assert here.admin.commits["till"] == {P0: 0, P1: 0, P2: 1}
    with pytest.raises(BadInputError, match=r"position 3 of change\[2\] is beyond 2"):
        await here.till.processed([(P2, 3)])


async def test_r11_a_snapshot_after_that_has_the_new_partition_and_what_is_in_flight_in_it(
    here: Growing, streams: list[asyncio.Task[None]]
) -> None:
    await here.till.join([CHANGE])
    received = receiving(here.till, streams)
    for value in (b"0", b"1", b"2"):
        here.consumer.white(P2, value, process=here.bank.process)
    here.grow()
    await received.have(b"0", b"1", b"2")
    assert await notice_of(here.till) == Added({P2: 0})
    epoch = trigger(here.cluster, "one")
    await marker_of(here.till)
    assert await here.cut("one", (P2, 2))
    assert await here.positions(epoch) == {P0: 0, P1: 0, P2: 2}
    (cut,) = [cut for cut in await here.inputs(epoch) if cut.partition == 2]
    assert (cut.log_end, cut.topic_id, cut.value_codec) == (3, IDENTITY, "json")
    assert (await here.captured(epoch)).replays == 0


async def test_r2_a_red_record_of_the_new_partition_waits_too(
    here: Growing, streams: list[asyncio.Task[None]]
) -> None:
    await here.till.join([CHANGE])
    received = receiving(here.till, streams)
    here.grow()
    await here.noticed()
    assert await notice_of(here.till) == Added({P2: 0})
    epoch = trigger(here.cluster, "one")
    await marker_of(here.till)
    here.consumer.white(P2, b"red", epoch, here.bank.process)
    here.consumer.white(P1, b"elsewhere", process=here.bank.process)
    await received.have(b"elsewhere")
    assert await here.cut("one", (P1, 1))
    await received.have(b"elsewhere", b"red")
    assert (await here.positions(epoch))[P2] == 0


async def lost_message(here: Growing) -> tuple[int, set[TopicPartition]]:
    """A bank sends into the new partition and leaves; then a snapshot is asked for, before anybody has looked.

    Returns:
        the epoch, and the partitions of the till in the snapshot.
    """
    here.till = here.another(LATE)
    await here.till.join([CHANGE])
    here.grow()
    gone = Worker(here.cluster.the_ledger, "branch", "more")
    here.consumer.white(P2, b"its last", process=gone.process)
    here.cluster.the_ledger.put(Bye(process=gone.process, n=900))
    epoch = trigger(here.cluster, "one", apps=("bank", "till"))
    await marker_of(here.till)
    assert await here.cut("one")
    return epoch, set(await here.positions(epoch))


async def test_r8_a_message_of_a_sender_that_has_left_is_in_flight_though_nobody_knew_of_the_partition(
    here: Growing,
) -> None:
    """No `Closed` names where it has sent, so the partition is looked for before the cut, and cut where it starts."""
    epoch, tps = await lost_message(here)
    assert tps == {P0, P1, P2}
    (cut,) = [cut for cut in await here.inputs(epoch) if cut.partition == 2]
    assert (cut.position, cut.log_end) == (0, 1)


async def test_r8_without_that_look_it_would_be_lost_from_the_snapshot(
    here: Growing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant."""

    async def look(_: InputWatch) -> None:
        return

    monkeypatch.setattr(InputWatch, "look", look)
    _, tps = await lost_message(here)
    assert tps == {P0, P1}


async def test_r10_a_partition_that_is_added_while_the_state_is_recorded_is_cut_where_it_starts(
    here: Growing, streams: list[asyncio.Task[None]]
) -> None:
    """It is announced behind the cut, and nothing of it is handed out before."""
    here.consumer.white(P0, b"0")
    await here.till.join([CHANGE])
    received = receiving(here.till, streams)
    await received.have(b"0")
    epoch = trigger(here.cluster, "one")
    await marker_of(here.till)
    here.consumer.white(P2, b"white", process=here.bank.process)
    here.grow()
    looks = here.admin.asked_topics
    await until(lambda: here.admin.asked_topics > looks + 3, "some looks")
    assert here.assigned == [(P0, P1)]
    assert await here.cut("one", (P0, 1))
    assert await here.positions(epoch) == {P0: 1, P1: 0, P2: 0}
    await received.have(b"0", b"white")


async def test_a_snapshot_that_is_asked_for_between_the_two_fails_at_once_and_by_name(here: Growing) -> None:
    """Its trigger lies before the `Assigned` that states the new partition, and is read when that is under way."""
    ledger, done = here.cluster.the_ledger, list[int]()
    put = ledger.put

    def between(record: LedgerRecord | None) -> int:
        if isinstance(record, Assigned) and P2 in record.inputs and not done:
            done.append(0)
            done[0] = put(Trigger(n=700, id="between", ttl_ms=60_000)) + 1
        return put(record)

    ledger.put = between  # type: ignore[method-assign]
    await here.till.join([CHANGE])
    here.grow()
    await here.noticed()
    await until(lambda: not view(here.cluster).snapshots[done[0]].open, "the failure")
    failure = view(here.cluster).snapshots[done[0]].failure
    assert failure is not None
    assert (failure.code, failure.reason) == (
        "state-not-given",
        "till was being assigned partitions that were added to its inputs",
    )
    assert await notice_of(here.till) == Added({P2: 0})
    later = trigger(here.cluster, "two")
    await marker_of(here.till)
    assert await here.cut("two")
    assert await here.positions(later) == {P0: 0, P1: 0, P2: 0}


async def test_a_stream_that_starts_after_partitions_were_added_has_them_and_a_committed_position_counts(
    here: Growing, streams: list[asyncio.Task[None]]
) -> None:
    """One that an earlier process committed, where the broker that was asked then knew less."""
    here.admin.commits["till"] = {P2: 1}
    await here.till.join([CHANGE])
    for number in range(3):
        here.consumer.white(P2, b"%d" % number)
    here.grow()
    await here.noticed()
    await receiving(here.till, streams).have(b"1", b"2")
    await receiving(here.till, streams).have(b"1", b"2")
    assert here.till.positions == {P0: 0, P1: 0, P2: 1}


async def test_partitions_are_added_under_causes_and_none_is_a_replay(
    here: Growing, streams: list[asyncio.Task[None]]
) -> None:
    for number in range(3):
        here.consumer.white(P0, b"%d" % number)
    await here.till.join([CHANGE])
    await receiving(here.till, streams).have(b"0", b"1", b"2")
    await here.till.send("deposits", b"a", b"1", cause=(P0, 1))
    here.grow()
    await here.noticed()
    await here.till.send("deposits", b"a", b"1", cause=(P0, 2))
    assert await notice_of(here.till) == Added({P2: 0})
    epoch = trigger(here.cluster, "one")
    await marker_of(here.till)
    assert await here.cut("one", (P0, 3))
    assert await here.positions(epoch) == {P0: 3, P1: 0, P2: 0}
    assert (await here.captured(epoch)).replays == 0


async def test_r9_who_is_replaced_takes_nothing_from_its_successor(here: Growing) -> None:
    """Another instance of the service has the process by now, and this one has not read that yet."""
    await here.till.join([CHANGE])
    earlier, here.till = here.till, here.another(LATE)
    assert earlier.process is not None
    ledger, assigned = here.cluster.the_ledger, asyncio.Event()
    more = Assigned(process=earlier.process, n=5_000, generation=earlier.process, inputs=(P0, P1, P2))

    async def append(record: LedgerRecord) -> int:
        if isinstance(record, Bye):
            await assigned.wait()
        offset = ledger.put(record)
        if isinstance(record, Assigned):
            ledger.put(more)
            assigned.set()
        return offset

    ledger.append = append  # type: ignore[method-assign]
    await here.till.join([CHANGE])
    here.grow()
    await until(lambda: bool(earlier.left), "the earlier one to leave")
    await earlier.leave("it is replaced")
    assert view(here.cluster).owner(("till", P0)) == here.till.process
    epoch = trigger(here.cluster, "one")
    await marker_of(here.till)
    assert await here.cut("one")
    assert await here.positions(epoch) == {P0: 0, P1: 0, P2: 0}


async def test_a_broker_that_does_not_answer_is_asked_again(
    here: Growing, streams: list[asyncio.Task[None]]
) -> None:
    """No cut without an answer: it is called again."""
    await here.till.join([CHANGE])
    received = receiving(here.till, streams)
    epoch = trigger(here.cluster, "one")
    await marker_of(here.till)
    here.admin.failure = BrokerUnavailableError("nobody answers")
    here.consumer.white(P2, b"2")
    here.grow()
    with pytest.raises(BrokerUnavailableError, match="nobody answers"):
        await here.cut("one")
    assert here.till.due is not None and not here.till.left
    here.admin.failure = None
    assert await here.cut("one")
    assert await here.positions(epoch) == {P0: 0, P1: 0, P2: 0}
    await received.have(b"2")


async def test_a_notice_that_an_earlier_stream_did_not_send_is_sent_by_the_next_one(here: Growing) -> None:
    """The partitions may have come after the first notice of that one, which lists what the process has."""
    await here.till.join([CHANGE])
    session = Session(here.till)
    first = session.notices(session.opened())
    here.grow()
    assert await asyncio.wait_for(anext(first), 20) == Added({P2: 0})
    here.till.notices.put_nowait(Marker("over", 1, 1))
    here.till.notices.put_nowait(Added({P2: 0}))
    assert await asyncio.wait_for(anext(session.notices(session.opened())), 20) == Added({P2: 0})
    assert here.till.notices.empty()


# -- topics that are deleted and recreated -------------------------------------------------------------------------


async def left(here: Growing) -> str:
    await until(lambda: bool(here.till.left), "its leaving")
    await until(lambda: not view(here.cluster).is_alive(here.till.process or 0), "its Bye")
    notice = await notice_of(here.till)
    assert isinstance(notice, Left)
    return notice.reason


async def test_where_an_input_is_recreated_the_session_ends_by_name_and_nothing_more_is_committed(
    here: Growing, streams: list[asyncio.Task[None]]
) -> None:
    for number in range(3):
        here.consumer.white(P0, b"%d" % number)
    await here.till.join([CHANGE])
    received = receiving(here.till, streams)
    await received.have(b"0", b"1", b"2")
    here.recreate()
    assert await left(here) == "its input change was recreated"
    with pytest.raises(TriggerRefusedError, match="no longer takes part: its input change was recreated"):
        await here.till.processed([(P0, 3)])
    with pytest.raises(TriggerRefusedError, match="its input change was recreated"):
        await received.task
    await here.till.leave("its stream has ended")
    assert here.admin.commits.get("till", {}) == {}


async def test_a_state_that_was_taken_over_a_recreated_input_is_in_no_snapshot(here: Growing) -> None:
    here.till = here.another(LATE)
    await here.till.join([CHANGE])
    epoch = trigger(here.cluster, "one")
    await marker_of(here.till)
    here.recreate()
    with pytest.raises(TriggerRefusedError, match="its input change was recreated"):
        await here.cut("one")
    await until(lambda: not view(here.cluster).snapshots[epoch].open, "the failure")
    failure = view(here.cluster).snapshots[epoch].failure
    assert failure is not None
    assert (failure.code, failure.reason) == ("state-not-given", "till left: its input change was recreated")
    assert await left(here) == "its input change was recreated"


async def test_an_input_that_is_deleted_ends_the_session_when_a_second_look_misses_it_too(
    here: Growing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that has just started may know less than others: once is not enough, but no cut is taken then."""
    here.till = here.another(LATE)
    await here.till.join([CHANGE])
    trigger(here.cluster, "one")
    await marker_of(here.till)
    topic = here.admin.topics.pop("change")
    with pytest.raises(BrokerUnavailableError, match="input change of till is not known to the broker"):
        await here.cut("one")
    here.admin.topics["change"] = topic
    assert await here.cut("one") and not here.till.left
    await here.till.leave("another one")
    here.till = here.another(SOON)
    await here.till.join([CHANGE])
    describe, missed = here.admin.describe_topics, asyncio.Event()

    async def once(topics: Collection[str] | None = None) -> dict[str, FakeTopic]:
        found = await describe(topics)
        if not missed.is_set():
            missed.set()
            del found["change"]
        return found

    monkeypatch.setattr(here.admin, "describe_topics", once)
    await missed.wait()
    looks = here.admin.asked_topics
    await until(lambda: here.admin.asked_topics > looks + 2, "more looks")
    assert not here.till.left
    del here.admin.topics["change"]
    assert await left(here) == "its input change was deleted"


async def test_a_position_that_was_committed_for_a_topic_that_is_no_more_is_refused(
    here: Growing, streams: list[asyncio.Task[None]]
) -> None:
    """Its records begin again at 0, so nothing below that position would be received."""
    for number in range(3):
        here.consumer.white(P0, b"%d" % number)
    await here.till.join([CHANGE])
    await receiving(here.till, streams).have(b"0", b"1", b"2")
    await here.till.processed([(P0, 2)])
    await here.till.leave("it comes again")
    here.till = here.another()
    await here.till.join([CHANGE])
    assert here.till.positions == {P0: 2, P1: 0}
    await here.till.leave("it comes again")
    here.recreate()
    here.till = here.another()
    with pytest.raises(
        BadInputError, match=r"committed position 2 of change\[0\] is of a topic that was recreated"
    ):
        await here.till.join([CHANGE])
    await here.till.leave("it could not join")
    here.till = here.another()
    await here.till.join([Input(topic="change", positions={0: 0, 1: 0})])
    assert here.till.positions == {P0: 0, P1: 0}


async def test_a_partition_that_is_added_to_a_topic_does_not_start_where_another_topic_was_committed(
    here: Growing,
) -> None:
    """One of that name that had more partitions."""
    here.admin.commits["till"] = {P2: 4}
    here.admin.notes[P2] = "topic id " + "8" * 32
    await here.till.join([CHANGE])
    here.grow()
    why = "the committed position 4 of change[2] is of a topic that was recreated since"
    assert await left(here) == why
