"""The short way out: with the installed producers of Faust and aiokafka, and a log that takes their batches.

What comes out is held against what Faust's own `send` does; wherever the short way does not suit, it must not be taken.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import aiokafka
import faust
import pytest
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import PartitionMetadata, TopicPartition
from faust.exceptions import ProducerSendError

from snapkafka.drivers.faust.outbound.fast_path import FastPath
from snapkafka.protocol import Abort, SeqRange
from snapkafka.wire import headers as wire
from tests.unit.drivers.sending import Driver

THERE = TopicPartition("t", 0)


class Log:
    """A topic of two partitions, and Faust's producer for it, as it is once it has started. No broker."""

    def __init__(self) -> None:
        self.app: Any = faust.App("a", broker="kafka://127.0.0.1:1", store="memory://", web_enabled=False)
        self.app.finalize()
        self.producer: Any = self.app.producer
        self.own_send = self.producer.send
        self.client = self.connect()
        self.records: dict[Any, list[Any]] = {}

    def connect(self) -> Any:
        self.producer._producer = client = self.producer._new_producer()
        client.client.cluster._partitions["t"] = {
            partition: PartitionMetadata("t", partition, 0, (0,), (0,), 0) for partition in range(2)
        }
        client._closed = True  # nobody need close what was never started
        return client

    def take(self, batch_fails: Exception | None = None) -> None:
        """Take what lies in the batches, as the broker does; the acknowledgements are heard of in the next round."""
        accumulator = self.client._message_accumulator
        for tp in list(accumulator._batches):
            while accumulator._batches.get(tp):
                batch = accumulator._pop_batch(tp)
                if batch_fails is not None:
                    batch.failure(batch_fails)
                    continue
                log = self.records.setdefault(tp, [])
                written = MemoryRecords(bytes(batch.get_data_buffer()))
                base = len(log)
                while (chunk := written.next_batch()) is not None:
                    log += chunk
                batch.done(base)

    def stamps(self, partition: int = 0) -> list[wire.Stamp]:
        """In the order of the log."""
        tp = TopicPartition("t", partition)
        found = [
            wire.read(wire.find(list(record.headers)) or b"", 7, wire.tp_check(*tp))
            for record in self.records[tp]
        ]
        assert None not in found
        return [stamp for stamp in found if stamp is not None]


@pytest.fixture
async def log() -> Log:
    return Log()


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each send that tried the short way: was it the one?"""
    ways: list[bool] = []
    append = FastPath.append

    def watched(self: FastPath, *args: Any) -> Any:
        result = append(self, *args)
        ways.append(result is not None)
        return result

    monkeypatch.setattr(FastPath, "append", watched)
    return ways


async def send(driver: Driver, **more: Any) -> Any:
    given = {"key": b"k", "value": b"v", "partition": 0, "timestamp": None, "headers": None, **more}
    return await driver.outgoing.send("t", **given)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_installed_versions_are_known(log: Log, added: list[bool]) -> None:
    """Where this fails, Faust or aiokafka has changed: read again what `fast_path` replaces, then add a checksum."""
    driver = Driver(log.producer)
    await send(driver)
    await send(driver, partition=None)
    assert added == [True, True]
    assert driver.outgoing._fast._put == log.producer.buffer.pending.put_nowait
    assert driver.outgoing._fast.in_buffer == 0, "what is put may pass the buffer"


async def test_a_record_is_the_same_by_either_way(log: Log, added: list[bool]) -> None:
    """Key, value, partition, time and headers; and what the app is told of it."""
    driver = Driver(log.producer)
    reported: list[tuple[Any, Any]] = []
    for key, value, timestamp, headers in [
        (b"k", b"v", 1_700_000_000.25, None),
        (b"other", None, 1.5, [("mine", b"1"), ("mine", b"2")]),
        (None, b"v", 2.0, {"mine": None}),
    ]:
        future = await send(driver, key=key, value=value, timestamp=timestamp, headers=headers)
        stamp = driver.stamps.of(wire.tp_check("t", 0), driver.machine.send_entered(None), len(reported))
        pairs = headers.items() if isinstance(headers, dict) else headers or []
        plain = await log.own_send("t", key, value, 0, timestamp, [*pairs, ("_sk", stamp)])
        reported.append((future, plain))
    log.take()
    assert added == [True] * 3
    records = log.records[THERE]
    for short, long in zip(records[::2], records[1::2], strict=True):
        assert (short.key, short.value, short.timestamp, short.headers) == (
            long.key,
            long.value,
            long.timestamp,
            long.headers,
        )
    for short, long in reported:
        assert short.result()._replace(offset=0) == long.result()._replace(offset=0)
        assert type(short.result().topic_partition) is type(long.result().topic_partition)


async def test_seqs_rise_with_offsets_also_where_a_batch_is_full(log: Log, added: list[bool]) -> None:
    """Design, section 4. Who finds the batch full waits for the next one, and nobody passes by meanwhile."""
    driver = Driver(log.producer)
    sends = [asyncio.ensure_future(send(driver, value=b"%d" % n + b"." * 4_000)) for n in range(10)]
    await settle()
    assert added.count(True) < 10, "all fit into one batch: the test tests nothing"
    for n in range(10, 30):
        sends.append(asyncio.ensure_future(send(driver, value=b"%d" % n)))
        log.take()
        await settle()
    await asyncio.gather(*sends)
    log.take()
    await settle()
    assert [stamp.seq for stamp in log.stamps()] == list(range(30))
    assert [int(record.value.rstrip(b".")) for record in log.records[THERE]] == list(range(30))
    assert added[-1], "it is free again, and the short way is taken"
    assert not driver.machine.colours.busy
    assert driver.machine.colours.sent[THERE].white(1) == (29, 30)


async def test_a_send_given_up_at_a_full_batch_uses_up_no_seq(log: Log) -> None:
    """A gap would accuse a healthy log (V1)."""
    driver = Driver(log.producer)
    while (waits := asyncio.ensure_future(send(driver, value=b"." * 4_000))) and not await _done(waits):
        pass
    waits.cancel()
    await settle()
    log.take()
    await send(driver)
    log.take()
    await settle()
    seqs = [stamp.seq for stamp in log.stamps()]
    assert seqs == list(range(len(seqs)))
    assert not driver.machine.colours.busy


async def _done(task: asyncio.Future[Any]) -> bool:
    await settle()
    return task.done()


async def test_a_batch_of_two_colours_is_acknowledged_in_both(log: Log) -> None:
    """R5, R7: the white end is that of the white ones, wherever the batch ends; the marker has its own place."""
    driver = Driver(log.producer)
    white = driver.machine.send_entered(None)  # enters now, leaves after the cut
    await send(driver)
    await send(driver)
    epoch = driver.trigger("now")
    await send(driver, headers=[("_sk", white)])
    await send(driver)
    await settle()
    assert not driver.closed(), "nothing is acknowledged yet"
    log.take()
    await driver.settle()
    assert [(stamp.seq, stamp.epoch, stamp.marker) for stamp in log.stamps()] == [
        (0, 0, False),
        (1, 0, False),
        (2, 0, False),
        (3, epoch, True),
        (4, epoch, False),
    ]
    assert driver.closed() == [epoch]
    sent = driver.machine.colours.sent[THERE]
    assert (sent.white(epoch), sent.end) == ((2, 3), 5)
    assert not driver.machine.colours.busy


async def test_a_batch_that_fails_fails_all_its_records(log: Log) -> None:
    """R7: a failed white send means no `Closed` but `Abort`, with the reason; the seqs are named."""
    driver = Driver(log.producer)
    futures = [await send(driver) for _ in range(3)]
    epoch = driver.trigger("now")
    log.take(batch_fails=RuntimeError("too late"))
    await settle()
    assert [future.exception() is not None for future in futures] == [True] * 3
    assert driver.machine.colours.sent[THERE].unacknowledged == (SeqRange(first=0, last=2),)
    aborts = [record for record in driver.ledger if isinstance(record, Abort)]
    assert [(abort.epoch, abort.code) for abort in aborts] == [(epoch, "send-unsettled")]
    log.take()
    await settle()
    assert not driver.machine.colours.busy


async def test_an_app_that_cancels_what_it_was_notified_of_takes_nothing_back(log: Log) -> None:
    """aiokafka: to cancel the future does not stop the record. So it counts."""
    driver = Driver(log.producer)
    for future in [await send(driver) for _ in range(2)]:
        future.cancel()
    log.take()
    await settle()
    assert len(log.records[THERE]) == 2
    assert driver.machine.colours.sent[THERE].white(1) == (1, 2)
    assert not driver.machine.colours.busy


async def test_a_broker_that_reports_no_offsets_is_a_failure(log: Log) -> None:
    """`producer_acks=0`."""
    driver = Driver(log.producer)
    await send(driver)
    log.client._message_accumulator._pop_batch(THERE).done_noack()
    await settle()
    assert driver.machine.colours.sent[THERE].unacknowledged == (SeqRange(first=0, last=0),)
    assert not driver.machine.colours.busy


async def test_what_cannot_be_sent_fails_as_it_does_in_faust(log: Log) -> None:
    """Its errors are Faust's own, nothing is in the log, and no seq is used up."""
    driver = Driver(log.producer)
    with pytest.raises(ProducerSendError, match="MessageSizeTooLargeError"):
        await send(driver, value=b"." * (log.client._max_request_size + 1))
    with pytest.raises(AssertionError, match="Unrecognized partition"):
        await send(driver, partition=7)
    with pytest.raises(AssertionError, match="at least one"):
        await send(driver, key=None, value=None)
    with pytest.raises(TypeError):
        await send(driver, key=7)
    log.client._message_accumulator._exception = RuntimeError("fenced")
    with pytest.raises(RuntimeError, match="fenced"):
        await send(driver)
    log.client._message_accumulator._exception = None
    await log.client._message_accumulator.close()
    with pytest.raises(ProducerSendError, match="ProducerClosed"):
        await send(driver)
    log.client._message_accumulator._closed = False
    await send(driver)
    log.take()
    await settle()
    assert [stamp.seq for stamp in log.stamps()] == [0]
    assert not driver.machine.colours.busy


async def test_who_listens_to_faust_hears_of_every_record(log: Log, added: list[bool]) -> None:
    """`app.on_produce_message` may even change the headers."""
    driver = Driver(log.producer)
    heard: list[Any] = []

    def listen(sender: Any, **record: Any) -> None:
        record["headers"].append(("traced", b"1"))
        heard.append(record["value"])

    log.app.on_produce_message.connect(listen)
    await send(driver)
    assert heard == [b"v"]
    log.app.on_produce_message.disconnect(listen)
    await send(driver)
    log.take()
    assert heard == [b"v"]
    assert added == [False, True]
    assert [name for name, _ in log.records[THERE][0].headers] == ["_sk", "traced"]


@pytest.mark.parametrize("where", ["class", "instance", "accumulator", "an app's own producer"])
async def test_who_goes_around_aiokafka_is_gone_through(
    log: Log, added: list[bool], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A tracer, say. So is a release that does something else."""
    target: Any = {
        "class": aiokafka.AIOKafkaProducer,
        "instance": log.client,
        "accumulator": type(log.client._message_accumulator),
        "an app's own producer": log.producer,
    }[where]
    name = "add_message" if where == "accumulator" else "send"
    inner = getattr(target, name)
    seen: list[int] = []

    @functools.wraps(inner)
    async def traced(*args: Any, **more: Any) -> Any:
        seen.append(1)
        return await inner(*args, **more)

    monkeypatch.setattr(target, name, traced)
    driver = Driver(log.producer)
    for _ in range(3):
        await send(driver)
    assert (len(seen), added) == (3, [False] * 3)
    log.take()
    await settle()
    assert [stamp.seq for stamp in log.stamps()] == [0, 1, 2]
    assert not driver.machine.colours.busy


async def test_a_producer_that_faust_makes_anew_is_looked_at_anew(log: Log, added: list[bool]) -> None:
    """Faust has one from its start to its stop; before and after, its own error tells."""
    driver = Driver(log.producer)
    await send(driver)
    log.producer._producer = None
    with pytest.raises(faust.exceptions.NotReady):
        await send(driver)
    log.client = log.connect()
    await send(driver)
    assert added == [True, False, True]
    log.take()
    assert len(log.records[THERE]) == 1, "the other one lay in the batch of the first producer"


async def test_a_producer_with_transactions_goes_the_long_way(log: Log, added: list[bool]) -> None:
    driver = Driver(log.producer)
    log.client._txn_manager = object()
    await asyncio.wait([asyncio.ensure_future(send(driver))], timeout=1)
    assert added == [False]
