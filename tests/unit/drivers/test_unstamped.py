"""Records that leave without our header, with the installed Faust and aiokafka and a log that refuses large batches."""

from __future__ import annotations

import asyncio
import sys
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import MessageSizeTooLargeError
from aiokafka.producer.transaction_manager import TransactionManager
from aiokafka.record.memory_records import MemoryRecords
from faust.exceptions import ProducerSendError

from snapkafka.drivers.faust.outbound import unstamped
from snapkafka.drivers.faust.outbound.unstamped import AIOKAFKA, UnstampedRecords
from snapkafka.drivers.faust.support import checksum
from snapkafka.protocol import Abort, Cause, Closed, TopicPartition
from snapkafka.wire import headers as wire
from tests.unit.drivers.sending import Driver
from tests.unit.drivers.test_batches import THERE, Log, send, settle

LIMIT = 2_000
#: With these a batch of one fits by less than our header takes.
FITS = b"." * 1_920


class Limited(Log):
    """Its broker takes no batch that is larger than `LIMIT`."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(self.producer)  # before a client is made, as in a worker
        self.client = self.connect()
        self.sender = self.client._sender
        self.sequence: list[
            tuple[int, int]
        ] = []  # of each batch that it has taken: its first number, and how many

    def idempotent(self) -> None:
        """Number the records, as `enable_idempotence` does."""
        manager = TransactionManager(None, 1_000)
        manager.set_pid_and_epoch(1, 0)
        self.sender._txn_manager = self.client._message_accumulator._txn_manager = manager

    async def broker(self) -> None:
        """One round of aiokafka's sender: everything that waits is sent once."""
        self.sender._sender = None
        nodes, _ = self.client._message_accumulator.drain_by_nodes(
            ignore_nodes=(), muted_partitions=self.sender._muted_partitions
        )
        for node, batches in nodes.items():
            self.sender._in_flight.add(node)
            self.sender._muted_partitions |= batches.keys()
            await self.sender._send_produce_req(node, batches)

    def answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def answered(node: int, request: Any, **_: Any) -> Any:
            topics = []
            for topic, partitions in request._topics if hasattr(request, "_topics") else request.topics:
                reported = []
                for partition, data in partitions:
                    tp = type(THERE)(topic, partition)
                    log = self.records.setdefault(tp, [])
                    code, base = (10, -1) if len(data) > LIMIT else (0, len(log))
                    if not code:
                        written = MemoryRecords(bytes(data))
                        while (chunk := written.next_batch()) is not None:
                            found = list(chunk)
                            log += found
                            self.sequence.append((chunk.base_sequence, len(found)))
                    reported.append((partition, code, base, -1, 0))
                topics.append((topic, reported))
            return SimpleNamespace(topics=topics, API_VERSION=7)

        monkeypatch.setattr(self.client.client, "send", answered)
        monkeypatch.setattr(self.client.client.cluster, "leader_for_partition", lambda tp: 0)
        self.sender._retry_backoff = 0

        async def nothing() -> None:
            pass

        monkeypatch.setattr(self.client.client, "_maybe_wait_metadata", nothing)


@pytest.fixture
async def log(monkeypatch: pytest.MonkeyPatch) -> Limited:
    made = Limited()
    made.answers(monkeypatch)
    return made


def headers(log: Limited) -> list[bool]:
    """Which records bear our header."""
    return [wire.find(list(record.headers)) is not None for record in log.records.get(THERE, ())]


async def sent(log: Limited) -> None:
    for _ in range(4):
        await log.broker()
        await settle()


async def test_the_installed_sender_is_known(log: Limited) -> None:
    """Where this fails, aiokafka has changed: read again what `bare` stands in for, then add a checksum."""
    assert checksum([type(log.sender)._send_produce_req]) in AIOKAFKA


async def test_r15_of_a_burst_what_fits_alone_arrives_in_order(
    log: Limited, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is larger than the topic takes, with and without our headers; one record is too large by itself."""
    settled: dict[int, int] = {}
    send_acked = log.driver.machine.send_acked

    def acked(effect: Any, tp: TopicPartition, seq: int, offset: int, count: int = 1) -> Any:
        settled.update({seq - n: offset - n for n in range(count)})
        return send_acked(effect, tp, seq, offset, count)

    monkeypatch.setattr(log.driver.machine, "send_acked", acked)
    values = [
        bytes([65 + n]) * size for n, size in enumerate((300, 300, 1_920, 300, 2_500, 300, 300, 1_920, 10))
    ]
    log.client._message_accumulator._batch_size = 16_384
    futures = [await send(log.driver, value=value) for value in values]
    flushed = asyncio.ensure_future(log.client.flush())
    for _ in range(24):
        await log.broker()
        await settle()
        assert flushed.done() == all(future.done() for future in futures)
    fitting = [value for value in values if len(value) < LIMIT]
    assert [record.value for record in log.records[THERE]] == fitting
    assert [had for had, value in zip(headers(log), fitting, strict=True) if len(value) < 1_900] == [True] * 6
    assert not any(had for had, value in zip(headers(log), fitting, strict=True) if len(value) > 1_900)
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert isinstance(results[4], MessageSizeTooLargeError)
    offsets = [result.offset for result in results if not isinstance(result, BaseException)]
    assert offsets == [*range(8)]
    check = wire.tp_check(*THERE)
    found = [wire.read(wire.find(list(it.headers)) or b"", 7, check) for it in log.records[THERE]]
    assert settled == {stamp.seq: at for at, stamp in enumerate(found) if stamp}, "each by its own offset"
    assert not log.client._message_accumulator._batches
    assert not log.client._message_accumulator._pending_batches
    assert not log.driver.machine.colours.busy


async def test_r15_halves_of_an_idempotent_producer_keep_their_sequence(log: Limited) -> None:
    """A broker refuses what leaves a gap in the sequence, or comes twice."""
    log.idempotent()
    log.client._message_accumulator._batch_size = 16_384
    values = [bytes([65 + n]) * size for n, size in enumerate((700, 1_920, 300, 700, 300, 300, 1_200))]
    for value in values:
        await send(log.driver, value=value)
    for _ in range(16):
        await log.broker()
        await settle()
    assert [record.value for record in log.records[THERE]] == values
    assert len(log.sequence) > 2
    assert [first for first, _ in log.sequence] == [0, *accumulate(count for _, count in log.sequence)][:-1]
    assert not log.driver.machine.colours.busy


async def test_r15_a_marker_that_is_too_large_by_itself_is_not_sent_for_ever(
    log: Limited, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is nothing without its header."""
    log.idempotent()
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 90)
    header = (wire.HEADER, wire.marker(7, wire.tp_check(*THERE), 1, 0, 0, 0))
    future = await log.client._message_accumulator.add_message(
        THERE, wire.marker_key(0), None, 1, headers=[header]
    )
    await sent(log)
    assert isinstance(future.exception(), MessageSizeTooLargeError)


async def test_r15_seqs_of_bare_records_are_given_out_again(log: Limited) -> None:
    await send(log.driver, value=b"0")
    await sent(log)
    await send(log.driver, value=FITS)
    await sent(log)
    await send(log.driver, value=b"2")
    await sent(log)
    assert headers(log) == [True, False, True]
    seqs = [
        stamp.seq
        for record in log.records[THERE]
        if (stamp := wire.read(wire.find(list(record.headers)) or b"", 7, wire.tp_check(*THERE)))
    ]
    assert seqs == [0, 1]


async def test_r15_what_is_as_large_as_what_was_refused_goes_bare_at_once_for_a_while(
    log: Limited, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(log.driver, value=FITS)
    await sent(log)
    requests = 0
    take = log.client.client.send

    async def counted(*args: Any, **more: Any) -> Any:
        nonlocal requests
        requests += 1
        return await take(*args, **more)

    log.client.client.send = counted
    await send(log.driver, value=FITS)
    await sent(log)
    assert requests == 1, "it was not tried with a header first"
    monkeypatch.setattr(unstamped, "HOLDS_S", 0.0)
    log.driver.outgoing._fast._unstamped.refused.clear()
    await send(log.driver, value=b"small")
    await sent(log)
    assert headers(log) == [False, False, True]


async def test_r15_of_another_aiokafka_nothing_is_expected(
    log: Limited, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unstamped, "AIOKAFKA", {})
    UnstampedRecords(log.driver, log.producer, log.driver.stamps)  # type: ignore[arg-type]
    assert "unknown release of aiokafka" in caplog.text


async def test_r7_what_the_producer_itself_refuses_of_a_table_is_reported(log: Limited) -> None:
    """A table write enters in a buffer: its table has the value, and nobody is told. So open snapshots fail by name,
    and later ones list it; they are decided all the same."""
    driver, place = log.driver, TopicPartition("t", 0)
    log.client._max_request_size = 1_000
    cause = Cause("agent", TopicPartition("in", 0), 5)
    driver.machine.event_started(cause)
    epoch = driver.trigger("open")
    effect = driver.machine.send_entered(cause)
    with pytest.raises(ProducerSendError):
        await send(driver, value=b"." * 1_001, headers=[(wire.HEADER, effect)])
    driver.machine.event_ended(cause)
    (abort,) = [record for record in driver.ledger if isinstance(record, Abort)]
    assert (abort.epoch, abort.code, abort.culprit) == (epoch, "send-failed", "t[0]")
    assert not driver.machine.colours.busy
    await send(driver, value=b"later")
    await sent(log)
    driver.trigger("next")
    await driver.settle()
    await sent(log)
    (closed,) = [record for record in driver.ledger if isinstance(record, Closed)]
    (end,) = [end for end in closed.sent if (end.topic, end.partition) == place]
    assert [(item.first, item.last, item.refused, item.undone) for item in end.unacknowledged] == [
        (0, 0, True, False)
    ]
    assert (end.last_seq, end.white_end) == (1, 1)
