"""A broker that says nothing, that stands still, that comes back, and that has lost records which it had acknowledged.

Without an fsync for each record, which is how Kafka works and what its replicas are for, a machine that loses its power
loses what it had acknowledged last. Whoever has read that of a ledger notices, and says what (R11).
"""

import asyncio
import json
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from snapkafka.errors import BrokerUnavailableError
from snapkafka.kafka import SETTINGS, Connection, KafkaLedger, LedgerCutShortError, topic_name
from snapkafka.kafka.ledger import kafka_ledger as ledger_module
from snapkafka.protocol.records import Pause, TailLost
from snapkafka.testing import EmbeddedKafka, create_topics
from snapkafka.until import succeed
from tests.freezing import freeze, thaw
from tests.kafka.waiting import until
from tests.worlds.service_world import served
from tests.worlds.service_world import until as blocking_until

pytestmark = pytest.mark.timeout(300)

#: So many records are written, and of them lost from this one on.
WRITTEN, SINCE = 40, 25
#: A batch begins with its first offset and the number of bytes that follow these two numbers.
BATCH = struct.Struct(">qi")
Ledgers = Callable[[], KafkaLedger]


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as started:
        yield started


@pytest.fixture
def connection(kafka: EmbeddedKafka) -> Connection:
    return Connection(bootstrap=kafka.bootstrap, request_timeout_ms=2_000)


def pause(n: int) -> Pause:
    return Pause(n=n, paused=False)


async def reading(ledger: KafkaLedger) -> tuple[list[int], asyncio.Task[None]]:
    """A task that reads a ledger live, and the offsets that it has read; when it has read all that is there."""
    found: list[int] = []

    async def read() -> None:
        async for entry in ledger.read(0):
            found.append(entry.offset)

    task, end = asyncio.ensure_future(read()), await ledger.end()
    await until(lambda: len(found) >= end or task.done(), timeout_s=60)
    assert len(found) >= end
    return found, task


async def written(ledger: KafkaLedger, count: int, first: int = 0) -> tuple[list[int], asyncio.Task[None]]:
    """Open a ledger, append so many records, and read it."""
    await succeed(ledger.open, 20.0, BrokerUnavailableError)  # a broker that has just started
    for n in range(first, first + count):
        await ledger.append(pause(n))
    return await reading(ledger)


async def append_when_it_can(ledger: KafkaLedger, n: int) -> int:
    return await succeed(lambda: ledger.append(pause(n)), 60.0, BrokerUnavailableError, every_s=0.5)


async def test_r15_an_append_that_a_frozen_broker_does_not_answer_leaves_nothing_behind(
    kafka: EmbeddedKafka, ledger: KafkaLedger, ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again for as long as the broker is frozen: what each try left behind would add up. Who connects finds
    somebody who takes the call and says nothing, and gives up in time."""
    monkeypatch.setattr(ledger_module, "APPEND_TIMEOUT_S", 1.0)
    await ledger.append(pause(1))
    assert of_producers()
    freeze(kafka)
    try:
        with pytest.raises(BrokerUnavailableError):
            await ledger.append(pause(2))
        await until(lambda: not of_producers())
        began = time.monotonic()
        with pytest.raises(BrokerUnavailableError):
            await ledgers().open()
        assert time.monotonic() - began < 6
    finally:
        thaw(kafka)
    await append_when_it_can(ledger, 3)
    await ledger.close()
    await until(lambda: not of_producers())


def of_producers() -> list[str]:
    """What the client library does in the background for those who write."""
    codes = [getattr(task.get_coro(), "cr_code", None) for task in asyncio.all_tasks() if not task.done()]
    return [it.co_qualname for it in codes if it and Path(it.co_filename).parent.name == "producer"]


def test_a_broker_that_stands_still_is_reported_by_the_service_and_found_again(
    kafka: EmbeddedKafka, connection: Connection
) -> None:
    create_topics(kafka.bootstrap, topic_name("ns"), config=SETTINGS)
    with served(connection) as client:

        def ready() -> tuple[bool, bool]:
            """As two pages have it."""
            follows = "snapkafka_service_ledger_followed 1.0" in client.get("/metrics").text
            return client.get("/readyz").status_code == 200, follows

        assert ready() == (True, True)
        freeze(kafka)
        try:
            blocking_until(lambda: ready() == (False, False), "the service to notice")
            stale = client.get("/v1/snapshots")
            assert (stale.status_code, stale.headers["snapkafka-stale"]) == (200, "true")
            for path in ("/readyz", "/v1/snapshots/none"):
                assert client.get(path).json()["code"] == "broker-unavailable"
            with client.stream("GET", "/v1/events") as stream:
                line = next(line for line in stream.iter_lines() if line.startswith("data: "))
            told = json.loads(line.removeprefix("data: "))
            assert told["followed"] is False and told["problem"]
            assert client.get("/healthz").status_code == 200
        finally:
            thaw(kafka)
        blocking_until(lambda: ready() == (True, True), "the broker to be found again", 60)


async def lose_tail(kafka: EmbeddedKafka, namespace: str, stop: Callable[[], None]) -> None:
    """Restart a broker whose log of a ledger is cut short: nothing from `SINCE` on is left. It finds that it was not
    stopped in order."""
    await asyncio.to_thread(stop)
    data = kafka.folder / "data"
    folder = data / f"{topic_name(namespace)}-0"
    assert sum(cut(segment) for segment in sorted(folder.glob("*.log"))) > 0
    for kind in ("*.index", "*.timeindex", "*.snapshot"):
        for made_of_it in folder.glob(kind):
            made_of_it.unlink()
    for checkpoint in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (data / checkpoint).unlink(missing_ok=True)
    await asyncio.to_thread(kafka.start)


def cut(segment: Path) -> int:
    content, at = segment.read_bytes(), 0
    while at + BATCH.size <= len(content):
        first, size = BATCH.unpack_from(content, at)
        if size <= 0 or first >= SINCE:
            break
        at += BATCH.size + size
    segment.write_bytes(content[:at])
    return len(content) - at


async def test_a_reader_beyond_the_end_fails(kafka: EmbeddedKafka, namespace: str, ledgers: Ledgers) -> None:
    """It says what is lost, and can write that down."""
    ledger = ledgers()
    _, task = await written(ledger, WRITTEN)
    await lose_tail(kafka, namespace, kafka.kill)
    with pytest.raises(LedgerCutShortError) as raised:
        await asyncio.wait_for(task, 90)
    assert raised.value.since == SINCE
    assert await ledger.append(TailLost(n=900, since=SINCE)) == SINCE
    await ledger.open()
    found, task = await reading(ledger)
    assert found == list(range(SINCE + 1))
    task.cancel()


async def test_a_log_that_grew_again_is_found(kafka: EmbeddedKafka, namespace: str, ledgers: Ledgers) -> None:
    """Where offsets show nothing, the records do: somebody else wrote first. The broker was stopped in order."""
    ledger = ledgers()
    _, task = await written(ledger, WRITTEN)
    task.cancel()
    await lose_tail(kafka, namespace, kafka.stop)
    found, task = await written(ledgers(), 2 * (WRITTEN - SINCE), first=500)
    task.cancel()
    assert len(found) > WRITTEN
    with pytest.raises(LedgerCutShortError) as raised:
        await ledger.open()
    assert raised.value.since == SINCE
    await ledger.append(TailLost(n=900, since=SINCE))


async def test_a_restart_that_loses_nothing_is_no_loss_and_the_ledger_outlives_it(
    kafka: EmbeddedKafka, ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition has another leader epoch, and the records agree."""
    monkeypatch.setattr(ledger_module, "APPEND_TIMEOUT_S", 1.0)
    ledger = ledgers()
    found, task = await written(ledger, WRITTEN)
    before = ledger._leader_epoch
    await asyncio.to_thread(kafka.kill)
    with pytest.raises(BrokerUnavailableError):
        await ledger.append(pause(899))
    await asyncio.to_thread(kafka.start)
    await until(lambda: ledger._leader_epoch != before, timeout_s=60)
    for n in (900, 901):  # the reader has looked at the ledger once more before the second
        offset = await append_when_it_can(ledger, n)
        await until(lambda offset=offset: offset in found or task.done())  # type: ignore[misc]
        assert offset in found
    task.cancel()
