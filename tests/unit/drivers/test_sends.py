"""What a producer of aiokafka that stamps feeds the machine: outcomes, unstamped records, markers, transactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from aiokafka.errors import KafkaTimeoutError, MessageSizeTooLargeError, ProducerFenced
from aiokafka.structs import TopicPartition

from snapkafka.drivers.aio_client import AioClient
from snapkafka.protocol.offsets import SeqRange
from snapkafka.protocol.records import Abort

from .producing import THERE, Broker, Driver, Faust


class Way:
    """A process that has joined, and its producer."""

    def __init__(self) -> None:
        self.broker, self.driver = Broker(), Driver()
        self.producer = self.broker.producer()
        self.driver.client = AioClient(self.producer, self.driver.sends)

    async def send(self, value: bytes = b"v") -> Any:
        return await self.producer.send("t", value, b"k", 0)

    @property
    def sent(self) -> Any:
        return self.driver.machine.colours.sent[THERE]

    def aborts(self) -> list[tuple[int, str]]:
        return [(it.epoch, it.code) for it in self.driver.found(Abort)]

    async def all_settled(self) -> None:
        await self.producer.flush()
        await self.driver.settle()
        assert not self.driver.machine.colours.busy


@pytest.fixture
async def way() -> AsyncIterator[Way]:
    made = Way()
    yield made
    await made.broker.close()


# -- outcomes ---------------------------------------------------------------------------------------------------------


async def test_r7_a_batch_that_fails_fails_all_its_records(way: Way) -> None:
    """A failed white send means no `Report` but `Abort`, with the reason; the seqs are named."""
    futures = [await way.send() for _ in range(3)]
    epoch = way.driver.snapshot()
    way.producer._message_accumulator._pop_batch(THERE).failure(RuntimeError("too late"))
    assert [future.exception() is not None for future in futures] == [True] * 3
    assert way.sent.unacknowledged == (SeqRange(first=0, last=2),)
    assert way.aborts() == [(epoch, "send-unsettled")]
    await way.all_settled()
    await way.send()  # and with `producer_acks=0`
    way.producer._message_accumulator._pop_batch(THERE).done_noack()
    assert way.sent.unacknowledged[-1].last == way.sent.next_seq - 1


async def test_changes_of_a_table_wait_for_no_room(way: Way) -> None:
    """They are stamped and appended in their order, markers among them, whatever is full; what is too large is
    refused."""
    client, size = way.driver.client, way.producer._message_accumulator._batch_size // 2
    assert client is not None
    for number in range(4):
        client.append_at_once(THERE, b"k", bytes([number]) * size)
        if number == 1:
            way.driver.snapshot()
    client.append_at_once(THERE, b"k", None)
    with pytest.raises(MessageSizeTooLargeError):
        client.append_at_once(THERE, b"k", bytes(way.producer._max_request_size))
    await way.all_settled()
    records = [it.record for it in way.broker.log[THERE]]
    values = [(it.value or b"")[:1] for it in records if it.key == b"k"]
    assert values == [b"\0", b"\1", b"\2", b"\3", b""]
    assert way.sent.next_seq == 6 and not way.aborts(), "five changes and a marker"


# -- records without a stamp ------------------------------------------------------------------------------------------


async def test_r15_a_marker_that_leaves_without_its_header_has_failed(way: Way) -> None:
    """It is nothing without it: its snapshot fails by name, and it is not sent for ever."""
    await way.send()
    await way.all_settled()
    way.broker.bytes_max = 90
    epoch = way.driver.snapshot()
    await way.all_settled()
    assert [found for found, _ in way.aborts()] == [epoch]
    assert way.broker.seqs() == [0, None]


async def test_r15_without_an_id_a_record_leaves_unstamped_and_the_app_is_known_to_run(way: Way) -> None:
    machine, early = way.driver.machine, []
    way.driver.follower.without_identity = lambda: early.append(1)  # type: ignore[method-assign]
    process, machine.process = machine.process, None
    await way.send()
    machine.process = process
    await way.send()
    await way.all_settled()
    assert (way.broker.seqs(), early, way.sent.bare_end) == ([None, 0], [1], 1)


async def test_r15_a_worker_that_stood_down_sends_as_without_us(way: Way) -> None:
    way.driver.absent = "failed"
    await way.producer.send("t", b"v", b"k", 0, headers=[("mine", b"1"), ("_sk", b"of what it forwards")])
    await way.producer.flush()
    assert [record.headers for record in way.broker.records()] == [[("mine", b"1")]]


# -- transactions of Faust --------------------------------------------------------------------------------------------


class Committing:
    """Two sends in a transaction of Faust's."""

    def __init__(self) -> None:
        self.broker, self.driver = Broker(), Driver()
        self.driver.machine.marks = False
        self.faust = Faust(self.broker, self.driver, processing_guarantee="exactly_once")
        self.producer = self.another()

    def another(self) -> Any:
        return self.broker.connect(self.faust.producer._new_producer(transactional_id="app-0-1"))

    async def two(self) -> None:
        await self.producer.begin_transaction()
        for _ in range(2):
            await (await self.producer.send("t", b"v", b"k", 0))
        assert self.driver.machine.colours.busy, "acknowledged, but not committed"

    async def end(self, how: str | Exception) -> None:
        if isinstance(how, Exception):
            self.producer._txn_manager.fatal_error(how)  # as its sender does with what ends it
        elif how == "revoked":
            ours = SimpleNamespace(_tps_to_transactional_ids=lambda tps: tps)
            self.faust.outgoing.on_rebalanced(SimpleNamespace(assignment=set, transactions=ours))
        elif how == "another":
            self.another()
        else:
            await getattr(self.producer, how)()


@pytest.fixture
async def committing() -> AsyncIterator[Committing]:
    made = Committing()
    await made.two()
    yield made
    await made.broker.close()


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("commit_transaction", ""),
        *((how, "send-failed") for how in ("abort_transaction", "revoked", "another", ProducerFenced("it"))),
        (KafkaTimeoutError(), "send-unsettled"),
    ],
)
async def test_r7_a_transaction(committing: Committing, how: str | Exception, code: str) -> None:
    """Nobody reads what one has sent that is not committed: the open snapshot fails, and the seqs are given again. Of a
    commit that came to no end nobody knows what came."""
    epoch = committing.driver.snapshot()
    await committing.end(how)
    assert not committing.driver.machine.colours.busy
    assert [(it.epoch, it.code) for it in committing.driver.found(Abort)] == [(epoch, code)] * bool(code)
    sent = committing.driver.machine.colours.sent[THERE]
    assert [it.refused for it in sent.unacknowledged] == [False] * (code == "send-unsettled")
    assert sent.next_seq == (0 if code == "send-failed" else 2)


async def test_r7_positions_in_a_transaction_carry_the_plan_of_a_restore(committing: Committing) -> None:
    given = {TopicPartition("in", 0): 7}
    committing.driver.restored.commit_note = lambda offsets: {**offsets, "noted": True}  # type: ignore[method-assign]
    sending = asyncio.ensure_future(committing.producer.send_offsets_to_transaction(given, "app"))
    await asyncio.sleep(0)
    ((_, offsets, _),) = committing.producer._txn_manager._pending_txn_offsets
    assert offsets == {TopicPartition("in", 0): (7, ""), "noted": True}
    sending.cancel()


async def test_r15_a_fault_of_ours_in_how_a_transaction_failed_does_not_hide_that(
    committing: Committing, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, stood_down = RuntimeError("ours"), []
    monkeypatch.setattr(committing.driver, "stand_down", lambda _, error: stood_down.append(error))
    monkeypatch.setattr("snapkafka.drivers.faust.outbound.producer.not_committed", Mock(side_effect=ours))
    await committing.end(ConnectionError())
    assert stood_down == [ours] and committing.producer._txn_manager.is_fatal_error()
