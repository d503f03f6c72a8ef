"""A process that does not speak Kafka: its state, its positions, which are those of the state, and its leaving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from unittest.mock import Mock

import pytest

from snapkafka.drivers import Bounds, Participant
from snapkafka.drivers.remote.inputs import Input
from snapkafka.drivers.remote.participant import Place
from snapkafka.errors import BadInputError, BrokerUnavailableError, OffsetsGoneError, TriggerRefusedError
from snapkafka.kafka import KafkaRecord
from snapkafka.ports import Topic
from snapkafka.protocol import ChannelEnded, Hello, InputCut, TopicPartition
from snapkafka.protocol.records import Bye, Dead, Retire
from snapkafka.wire import headers
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.remote_world import (
    FakeConsumer,
    RemoteBroker,
    captured,
    failure_of,
    marker_of,
    participant,
    trigger,
    until,
    view,
)

OUT = TopicPartition("deposits", 0)
CHANGE = Input(topic="change", value_codec="json")
P0, P1 = TopicPartition("change", 0), TopicPartition("change", 1)


class Here:
    """A bank, and a till that receives from two partitions of `change`."""

    def __init__(self) -> None:
        self.cluster, self.broker = FakeCluster(), RemoteBroker()
        self.admin = self.broker.admin
        self.admin.topics["change"] = Topic(2, "7" * 32)
        self.admin.ends |= {P0: 0, P1: 0}
        self.consumer = FakeConsumer(self.broker)
        self.bank = Worker(self.cluster.the_ledger, "bank", "deposits", sends=("change",))
        self.till, self.streams = self.another(), list[Received]()

    def another(self, bounds: Bounds | None = None) -> Participant:
        return participant(self.cluster, self.broker, consumer=self.consumer, bounds=bounds)

    def receiving(self) -> Received:
        self.streams.append(Received(self.till))
        return self.streams[-1]

    async def positions(self, epoch: int) -> dict[TopicPartition, int]:
        """Of the till, in the snapshot."""
        return {TopicPartition(cut.topic, cut.partition): cut.position for cut in await self.inputs(epoch)}

    async def inputs(self, epoch: int) -> list[InputCut]:
        return [cut for cut in (await captured(self.cluster, epoch)).inputs if cut.app == "till"]

    async def receives(self, count: int) -> Received:
        """Let the till join, and receive so many records of one partition: 0, 1, ..."""
        values = [b"%d" % number for number in range(count)]
        for value in values:
            self.consumer.white(P0, value)
        await self.till.join([CHANGE])
        received = self.receiving()
        await received.have(*values)
        return received

    async def asked(self, name: str) -> int:
        """Trigger a snapshot, of which the till hears; its epoch."""
        epoch = trigger(self.cluster, name)
        await marker_of(self.till)
        return epoch

    async def snapshot(self, name: str, *positions: Place) -> int:
        """Trigger a snapshot, which the till cuts; its epoch."""
        epoch = await self.asked(name)
        assert await self.cut(name, *positions)
        return epoch

    async def cut(self, name: str, *positions: Place) -> bool:
        await self.till.flush(name, "", 0, b"{}")
        return await self.till.cut(name, positions)


@pytest.fixture
async def here() -> AsyncIterator[Here]:
    found = Here()
    yield found
    await found.till.leave("the test is over")
    for stream in found.streams:
        stream.task.cancel()
    await asyncio.gather(*(stream.task for stream in found.streams), return_exceptions=True)


class Received:
    """What a stream has handed out so far."""

    def __init__(self, process: Participant) -> None:
        self.records: list[KafkaRecord] = []
        self.task = asyncio.ensure_future(self._read(process))

    async def _read(self, process: Participant) -> None:
        async for record in process.receive():
            self.records.append(record)

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]

    async def have(self, *values: bytes) -> None:
        """Wait for exactly these, in any order of the partitions; a moment later there are no others."""
        await until(lambda: len(self.records) >= len(values), f"{values}, got {self.values}")
        await asyncio.sleep(0.03)
        assert sorted(map(bytes, filter(None, self.values))) == sorted(values)


# -- its state ----------------------------------------------------------------------------------------------------


async def test_each_snapshot_has_the_state_that_was_given_for_it(here: Here) -> None:
    await here.till.join()
    epochs = [trigger(here.cluster, name) for name in ("one", "two")]
    for name, chunks in (("one", 3), ("two", 1)):
        assert (await marker_of(here.till)).snapshot_id == name
        here.broker.unsettled = 1
        with pytest.raises(BrokerUnavailableError):
            await here.till.flush(name, "", 0, b"all")
        for chunk in range(chunks):
            await here.till.flush(name, "", chunk, name.encode())
            await here.till.flush(name, "", chunk, name.encode())  # given again: nothing is doubled
        assert await here.till.cut(name)
    states = [here.broker.state((await captured(here.cluster, epoch)).epoch) for epoch in epochs]
    assert [list(state.values()) for state in states] == [[b"one"] * 3, [b"two"]]


async def test_r12_a_process_that_was_declared_dead_has_left(here: Here) -> None:
    """A client joins again when its session has ended."""
    await here.till.join()
    other = here.cluster.the_ledger.put(Hello(n=9, app="other"))
    assert here.till.process is not None
    here.cluster.the_ledger.put(Dead(process=other, n=1, dead=here.till.process))
    await until(lambda: bool(here.till.left), "its leaving")
    assert "its id is void" in here.till.left
    with pytest.raises(TriggerRefusedError):
        await here.till.send("deposits", b"a", b"10")


async def test_bounds(here: Here) -> None:
    here.till = till = here.another(
        Bounds(chunk_bytes_max=10, state_bytes_max=15, chunks_max=2, record_bytes_max=8)
    )
    await till.join()
    await here.asked("one")
    for call in (
        till.flush("one", "", 0, b"x" * 11),  # a piece
        till.flush("one", "x" * 201, 0, b"x"),  # the name of a channel
        till.send("deposits", b"x" * 4, b"x" * 5),
    ):
        with pytest.raises(BadInputError):
            await call
    for _ in range(2):
        await till.flush("one", "", 0, b"x" * 10)  # given again: it counts once
    with pytest.raises(BadInputError):
        await till.flush("one", "", 1, b"x" * 6)  # all pieces
    await till.flush("one", "", 1, b"x")
    with pytest.raises(BadInputError):
        await till.flush("one", "", 2, b"x")  # so many
    with pytest.raises(BadInputError):
        participant(here.cluster, here.broker, node="a/b")


# -- its inputs, and where they start ----------------------------------------------------------------------------


async def test_inputs_start_where_given_or_committed_or_at_the_start(here: Here) -> None:
    for number in range(9):
        here.consumer.white(P0, b"%d" % number)
        here.consumer.white(P1, b"%d" % number)
    here.admin.commits["till"] = {P1: 4, TopicPartition("other", 0): 3}
    here.admin.starts[P0] = 2
    await here.till.join([CHANGE])
    assert here.till.positions == {P0: 2, P1: 4}
    state = view(here.cluster)
    (hello,) = [v.hello for v in state.living() if v.hello.app == "till"]
    (topic,) = hello.inputs
    assert (topic.topic, topic.partitions, topic.topic_id) == ("change", 2, "7" * 32)
    assert (topic.key_codec, topic.value_codec) == ("raw", "json")
    assert state.owner(("till", P0)) == state.owner(("till", P1)) == here.till.process
    await here.till.leave("it comes again")
    here.till = here.another()
    await here.till.join([Input(topic="change", positions={1: 7})])
    assert here.till.positions == {P0: 2, P1: 7}


@pytest.mark.parametrize(
    ("inputs", "error"),
    [
        ([Input(topic="none")], BadInputError),
        ([CHANGE, CHANGE], BadInputError),
        ([Input(topic="change", value_codec="avro")], BadInputError),
        *(([Input(topic="change", positions=given)], BadInputError) for given in ({2: 0}, {0: 4}, {0: -1})),
        ([Input(topic="change", positions={0: 1})], OffsetsGoneError),
        ([CHANGE], OffsetsGoneError),  # what is committed
    ],
)
async def test_inputs_that_are_refused(here: Here, inputs: list[Input], error: type[Exception]) -> None:
    for _ in range(3):
        here.consumer.white(P0, b"1")
        here.consumer.white(P1, b"1")
    here.admin.starts |= {P0: 2, P1: 2}
    here.admin.commits["till"] = {P1: 1}
    with pytest.raises(error):
        await here.till.join(inputs)
    assert [entry for entry in here.cluster.the_ledger.entries if isinstance(entry.record, Hello)][1:] == []


async def test_a_group_with_members_and_an_app_that_is_stopped_are_no_names_for_it(here: Here) -> None:
    async def is_refused() -> None:
        with pytest.raises(TriggerRefusedError):
            await here.till.join([CHANGE])
        await here.till.leave("it could not join")
        here.till = here.another()

    here.admin.member_counts = [2]
    await is_refused()
    other = Worker(here.cluster.the_ledger, "till", "deposits")
    await is_refused()
    here.cluster.the_ledger.put(Bye(process=other.process, n=900))
    await is_refused()
    here.cluster.the_ledger.put(Retire(n=901, app="till"))
    await here.till.join([CHANGE])


# -- the cut -----------------------------------------------------------------------------------------------------


async def test_r2_a_red_record_and_all_behind_it_wait_until_the_process_has_cut(here: Here) -> None:
    """The bank turns red and sends; the till takes in all that it gets before it cuts, also of a forged epoch, but for
    markers, with a header of ours or without."""
    here.consumer.white(P0, b"white", process=here.bank.process)
    await here.till.join([CHANGE])
    received = here.receiving()
    epoch = await here.asked("one")
    here.till.feed = feed = Mock(wraps=here.till.feed)  # type: ignore[method-assign]
    bank, key = here.bank.process, headers.marker_key(here.bank.process)
    here.consumer.put(P0, None, None, key)
    marker = here.consumer.put(P0, None, headers.marker(0, headers.tp_check(*P0), epoch, bank, 1, 0), key)
    here.consumer.white(P0, b"red", epoch, bank)
    here.consumer.white(P0, b"behind", process=bank)
    here.consumer.white(P1, b"elsewhere", 1_000_000)
    await until(lambda: b"elsewhere" in received.values, "the other partition")
    await asyncio.sleep(0.05)
    taken = max(record.offset for record in received.records if record.tp == P0) + 1
    assert await here.cut("one", (P0, taken), (P1, 1))
    assert (await here.positions(epoch))[P0] == 1 < marker
    await until(lambda: b"behind" in received.values, "what was held")
    assert received.values.index(b"red") < received.values.index(b"behind") and None not in received.values
    feed.assert_any_call(ChannelEnded(tp=P0, offset=marker, sender=bank, epoch=epoch, previous=0))


@pytest.mark.parametrize(
    ("topic", "why"),
    [(None, "deleted"), (Topic(2, "8" * 32), "recreated"), (Topic(3, "7" * 32), "has new partitions")],
)
async def test_an_input_that_changes_ends_the_session(here: Here, topic: Topic | None, why: str) -> None:
    """Nothing more is committed; a snapshot that waits for the state fails by that name."""
    here.till = here.another(Bounds(look_s=0.02))
    received = await here.receives(1)
    epoch = await here.asked("one")
    here.admin.topics.pop("change")
    if topic is not None:
        here.admin.topics["change"] = topic
    await until(lambda: bool(here.till.left), "its leaving")
    assert here.till.left.startswith("its input change ") and here.till.left.endswith(why)
    failure = await failure_of(here.cluster, epoch)
    assert failure.code == "process-lost" and here.till.left in failure.reason
    for call in (here.till.processed([(P0, 1)]), here.till.send("deposits", b"a", b"1"), received.task):
        with pytest.raises(TriggerRefusedError):
            await call
    await here.till.leave("its stream has ended")
    assert here.admin.commits.get("till", {}) == {}


@pytest.mark.parametrize("topic", [Topic(2, "8" * 32), Topic(3, "7" * 32)])
async def test_r8_no_state_is_taken_over_an_input_that_has_changed_since(here: Here, topic: Topic) -> None:
    """A message of a sender that has left lies where nobody has looked yet: no `Report` names it."""
    here.till = here.another(Bounds(look_s=3_600))
    await here.till.join([CHANGE])
    await here.asked("one")
    here.admin.topics["change"] = topic
    with pytest.raises(TriggerRefusedError):
        await here.cut("one")


# -- how far it is -----------------------------------------------------------------------------------------------


async def test_positions_only_go_forward_and_never_beyond_what_was_received(here: Here) -> None:
    await here.receives(3)
    here.consumer.failure = BrokerUnavailableError("nobody answers")
    with pytest.raises(BrokerUnavailableError):
        await here.till.processed([(P0, 2)])
    here.consumer.failure = None
    await here.till.processed([(P0, 2)])
    assert here.admin.commits["till"] == {P0: 2, P1: 0}
    epoch = await here.asked("one")
    for places in (
        [(P0, 1)],  # behind
        [(P0, 4)],  # beyond
        [(P1, 1)],
        [(TopicPartition("change", 2), 0)],  # no input
        [(P0, 2), (P0, 3)],  # two of one
        [(P0, 3), (P1, -1)],
    ):
        with pytest.raises(BadInputError):
            await here.till.processed(places)
        with pytest.raises(BadInputError):
            await here.till.cut("one", places)
    assert here.till.positions == {P0: 2, P1: 0}
    assert view(here.cluster).snapshots[epoch].open  # nothing of that was its cut
    assert await here.cut("one", (P0, 2))
    assert await here.positions(epoch) == {P0: 2, P1: 0}
    with pytest.raises(TriggerRefusedError):
        await here.receiving().task


async def test_what_is_too_large_is_refused_by_name_and_kept(here: Here) -> None:
    here.till = here.another(Bounds(receive_bytes_max=5))
    here.consumer.white(P0, b"1234")
    here.consumer.white(P0, b"12345")
    await here.till.join([CHANGE])
    received = here.receiving()
    with pytest.raises(BadInputError):
        await received.task
    assert received.values == [b"1234"]
    with pytest.raises(BadInputError):
        await here.till.processed([(P0, 2)])
    await here.till.leave("it goes on past it")
    here.till = here.another(Bounds(receive_bytes_max=5))
    await here.till.join([Input(topic="change", positions={0: 2})])


# -- causes ------------------------------------------------------------------------------------------------------


async def test_a_send_names_its_cause_while_that_is_not_processed(here: Here) -> None:
    here.till = here.another(Bounds(causes_max=2))
    await here.receives(3)
    with pytest.raises(BadInputError):
        await here.till.send("deposits", b"a", b"1", cause=(P0, 3))
    await here.till.send("deposits", b"a", b"1", cause=(P0, 1))
    await here.till.send("deposits", b"a", b"2", cause=(P0, 1))
    await here.till.send("deposits", b"a", b"3", cause=(P0, 0))  # a later one has begun
    await here.till.send("deposits", b"a", b"4", cause=(P0, 2))
    with pytest.raises(BadInputError):
        await here.till.send("deposits", b"a", b"5", cause=(P0, 0))
    await here.till.processed([(P0, 3)])
    await here.till.send("deposits", b"a", b"5", cause=(P0, 1))  # it is over
    one, two = ((headers.topic_check("change"), 0, offset) for offset in (1, 2))
    assert [stamp.cause for stamp in here.broker.stamps_of(OUT)] == [one, one, None, two, None]
    senders = (await captured(here.cluster, await here.snapshot("one"))).senders
    (sent,) = [sender for sender in senders if sender.topic == OUT.topic]
    assert (sent.white_end, sent.last_seq) == (5, 4)
