"""The ledger on a real broker: found or made with safe settings, refused with others, read live past garbage."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka import SETTINGS, KafkaLedger, KafkaTopicAdmin, LedgerRecreatedError
from snapkafka.kafka.ledger import reader
from snapkafka.kafka.ledger.reader import SLICE_S, Gulps
from snapkafka.ports import HOLE, Entry
from snapkafka.protocol.records import Abort, Bye, Hello
from snapkafka.testing import Broker
from tests.kafka.waiting import becomes, until

Ledgers = Callable[[], KafkaLedger]


def bye(n: int) -> Bye:
    return Bye(process=0, n=n)


async def all_of(ledger: KafkaLedger) -> list[Entry]:
    return [entry async for entry in ledger.read(until=await ledger.end())]


async def test_a_new_one_inherits_no_harmful_setting(ledgers: Ledgers, admin: KafkaTopicAdmin) -> None:
    """Operators choose those for other topics: short retention, compaction, small batches. A tool does not make it."""
    ledger = ledgers()
    with pytest.raises(LedgerUnusableError):
        await ledger.open(create=False)
    assert ledger.topic not in await admin.describe_topics()
    await ledger.open()
    assert (await admin.topic_settings(ledger.topic))[1] == {**SETTINGS, "min.insync.replicas": "1"}


@pytest.mark.parametrize(
    ("partitions", "settings", "refused"),
    [
        (1, {"retention.ms": "-1", "segment.bytes": "10485760"}, ""),  # it is used as it was made
        (2, {"retention.ms": "-1"}, r"\b2\b"),
        (1, {"cleanup.policy": "compact"}, "cleanup.policy=compact"),
        (1, {"cleanup.policy": "compact,delete", "retention.ms": "-1"}, "cleanup.policy=compact,delete"),
        (1, {}, "retention.ms="),  # made by the broker: `auto.create.topics.enable`
        (1, {"retention.ms": "86400000"}, "retention.ms=86400000"),
        (1, {"retention.ms": "-1", "retention.bytes": "1000000"}, "retention.bytes=1000000"),
        (1, {"retention.ms": "-1", "compression.type": "zstd"}, "compression.type=zstd"),
        (1, {"retention.ms": "-1", "max.message.bytes": "1000"}, "max.message.bytes=1000"),
        (1, {"retention.ms": "-1", "min.insync.replicas": "3"}, "min.insync.replicas=3"),
    ],
)
async def test_one_of_an_administrator_that_would_lose_agreements_is_refused(
    ledgers: Ledgers, admin: KafkaTopicAdmin, partitions: int, settings: dict[str, str], refused: str
) -> None:
    ledger = ledgers()
    await admin.create_topic(ledger.topic, partitions=partitions, settings=settings)
    if refused:
        with pytest.raises(LedgerUnusableError, match=refused) as raised:
            await ledger.open()
        assert partitions == 2 or f"--add-config {refused.partition('=')[0]}=" in raised.value.hint
    else:
        await ledger.open()
        assert (await admin.topic_settings(ledger.topic))[1] == settings
        assert await ledger.append(bye(1)) == 0


async def test_a_record_that_is_too_large_is_refused_and_the_next_is_not(ledger: KafkaLedger) -> None:
    large = Abort(n=1, epoch=1, code="x", reason="y" * 280_000)
    with pytest.raises(LedgerUnusableError):
        await ledger.append(large)
    assert await ledger.append(replace(large, reason="y" * 240_000)) == 0


async def test_records_come_back_in_order_with_the_brokers_time(ledger: KafkaLedger) -> None:
    before = time.time() * 1000
    written: list[Hello | Bye] = [Hello(n=1, app="shop"), bye(2), bye(3)]
    offsets = await asyncio.gather(*map(ledger.append, written))  # in the order of the calls
    assert offsets == [0, 1, 2]
    entries = await all_of(ledger)
    assert [entry.record for entry in entries] == written
    assert all(before - 2_000 < entry.timestamp_ms < time.time() * 1000 + 2_000 for entry in entries)
    assert [entry.offset async for entry in ledger.read(1, until=2)] == [1]
    assert [entry async for entry in ledger.read(3, until=3)] == []


async def test_r15_others_have_turns_in_between(ledger: KafkaLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred records are taken at once; at two milliseconds each, the host stood still for half a second."""
    turns, taken = 0, Counter[int]()
    await asyncio.gather(*(ledger.append(bye(n)) for n in range(100)))

    def slow(value: bytes) -> Bye:
        time.sleep(SLICE_S / 2.5)
        return bye(1)

    async def host() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    monkeypatch.setattr(reader, "decode", slow)
    running = asyncio.ensure_future(host())
    async for _ in ledger.read(until=100):
        taken[turns] += 1
    running.cancel()
    assert max(taken.values()) <= 6, "three to a slice, and the host may have its turn at its end"


async def test_a_gulp_takes_all_of_a_rest_by_one_request(ledger: KafkaLedger, ledgers: Ledgers) -> None:
    """Records that came one by one woke every reader, and the broker, for each. Who is in a hurry while a gulp is taken
    is not rested upon: a worker appends its own trigger while it reads."""
    writer, resting = ledgers(), True
    await writer.open()
    gulps = Gulps(lambda: 60.0 if resting else 0.0)
    gulps.hurry()
    await asyncio.wait_for(gulps.rest(), 5)
    found: list[int] = []

    async def follow() -> None:
        async for entry in ledger.read(rest=gulps.rest):
            found.append(entry.offset)

    following = asyncio.ensure_future(follow())
    await writer.append(bye(0))
    await until(lambda: bool(found))
    fetched = ledger.connection.requests["Fetch"]
    for n in range(1, 31):
        await writer.append(bye(n))
    assert found == [0], "it rests"
    assert ledger.connection.requests["Fetch"] == fetched, "and asks for nothing"
    resting = False
    gulps.hurry()
    await until(lambda: len(found) == 31)
    assert found == list(range(31))
    assert ledger.connection.requests["Fetch"] <= fetched + 2, "one for all; the next may be under way"
    following.cancel()


async def test_garbage_is_counted_and_skipped(kafka: Broker, ledger: KafkaLedger) -> None:
    """What strangers may leave in a ledger; the end of a transaction takes an offset too, a little later."""
    where = {"bootstrap_servers": kafka.bootstrap}
    plain, zipped = AIOKafkaProducer(**where), AIOKafkaProducer(**where, compression_type="gzip")
    transactional = AIOKafkaProducer(**where, transactional_id=ledger.topic)
    async with plain, zipped, transactional:
        for n in (1, 2):
            await ledger.append(bye(n))
            for value in (b"", b"garbage", b"\xc3\x01", b"\xc3\x01" + bytes(100), None):
                await plain.send_and_wait(ledger.topic, value, b"key", partition=0)
            await zipped.send_and_wait(ledger.topic, b"x" * 100_000, partition=0)
            async with transactional.transaction():
                await transactional.send_and_wait(ledger.topic, b"in a transaction", partition=0)
            await becomes(ledger.end, 9 * n)
    entries = await all_of(ledger)
    offsets = [entry.offset for entry in entries]
    assert offsets == sorted(set(offsets))
    assert offsets[-1] == 17, "who waits for the end has to hear that it is reached"
    assert [entry.record for entry in entries if entry.record] == [bye(1), bye(2)]
    assert sum(entry.record is None and entry.timestamp_ms != HOLE for entry in entries) == 14


async def test_what_cannot_be_unpacked_is_refused_by_its_place(kafka: Broker, ledger: KafkaLedger) -> None:
    await ledger.append(bye(1))
    external = Producer({"bootstrap.servers": kafka.bootstrap, "compression.type": "zstd"})
    external.produce(ledger.topic, b"x" * 1_000, partition=0)
    await asyncio.to_thread(external.flush, 10)
    with pytest.raises(LedgerUnusableError) as refused:
        await all_of(ledger)
    assert refused.value.facts["offset"] in (0, 1)


async def remake(admin: KafkaTopicAdmin, ledger: KafkaLedger, other: KafkaLedger) -> None:
    async def is_gone() -> bool:
        """Or made again by the broker, which a client that still reads it may have asked for."""
        found = (await admin.describe_topics([ledger.topic])).get(ledger.topic)
        return found is None or found.topic_id != ledger.topic_id

    await admin.delete_topics(ledger.topic)
    await until(is_gone)
    await other.open()


async def filled(ledger: KafkaLedger, start: int) -> asyncio.Future[list[Entry]]:
    """Append three records, and read from `start` on until it ends."""

    async def read() -> list[Entry]:
        return [entry async for entry in ledger.read(start)]

    for n in range(3):
        await ledger.append(bye(n))
    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0.5)
    return reading


@pytest.mark.parametrize("refilled", [None, 0, 1, 10], ids=["gone", "empty", "shorter", "longer"])
async def test_a_ledger_that_is_gone_or_was_made_again_is_noticed_by_its_readers(
    ledger: KafkaLedger, ledgers: Ledgers, admin: KafkaTopicAdmin, refilled: int | None
) -> None:
    old, new = ledger, ledgers()
    reading = await filled(old, 3)
    if refilled is None:
        await admin.delete_topics(old.topic)
    else:
        await remake(admin, old, new)
    for n in range(refilled or 0):
        await new.append(bye(100 + n))
    began = time.monotonic()
    with pytest.raises(LedgerRecreatedError):
        await asyncio.wait_for(reading, 20)
    assert refilled is None or time.monotonic() - began < 10
    before = old.ledger_id
    await old.open()
    assert old.ledger_id != before
    assert refilled is None or old.ledger_id == new.ledger_id
    assert await old.append(bye(7)) == (refilled or 0)
    assert len(await all_of(old)) == (refilled or 0) + 1


async def test_a_writer_notices_too(ledger: KafkaLedger, ledgers: Ledgers, admin: KafkaTopicAdmin) -> None:
    """As soon as it writes; and its readers notice."""
    reading = await filled(ledger, 0)
    await remake(admin, ledger, ledgers())
    with pytest.raises(LedgerRecreatedError):
        await ledger.append(bye(9))
    with pytest.raises(LedgerRecreatedError):
        await asyncio.wait_for(reading, 5)


async def test_its_end_is_asked_for_by_one_request_and_below_what_was_read_it_is_another_ledger(
    ledger: KafkaLedger, ledgers: Callable[[], KafkaLedger], admin: KafkaTopicAdmin
) -> None:
    other = ledgers()
    await other.open()
    for n in range(3):
        written, before = await other.append(bye(n)), Counter(ledger.connection.requests)
        assert await ledger.end() == written + 1
        assert ledger.connection.requests - before == Counter(ListOffsets=1)
    await ledger.append(bye(3))
    await remake(admin, ledger, ledgers())
    with pytest.raises(LedgerRecreatedError):
        await ledger.end()


async def test_the_end_of_one_that_is_gone_is_no_number(ledger: KafkaLedger, admin: KafkaTopicAdmin) -> None:
    assert await ledger.end() == 0
    await admin.delete_topics(ledger.topic)

    async def is_named() -> bool:
        with contextlib.suppress(LedgerUnusableError):
            return await ledger.end() < 0
        return True

    await until(is_named)
