"""A broker that says nothing, that stands still, that comes back, and that has lost records which it had acknowledged.

Without an fsync for each record, which is how Kafka works and what its replicas are for, a machine that loses its power
loses what it had acknowledged last. Whoever has read that of a ledger notices, and says what (R11).
"""

import asyncio
import contextlib
import json
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from snapkafka.errors import BrokerUnavailableError
from snapkafka.kafka import Connection, KafkaLedger, LedgerCutShortError, topic_name
from snapkafka.kafka.ledger import kafka_ledger as ledger_module
from snapkafka.protocol import LedgerRecord, Pause, TailLost
from snapkafka.service import ledger_follower
from snapkafka.testing import EmbeddedKafka
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


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as started:
        yield started


@pytest.fixture
def connection(broker: EmbeddedKafka) -> Connection:
    return Connection(bootstrap=broker.bootstrap, request_timeout_ms=2_000)


def pause(n: int) -> Pause:
    return Pause(n=n, paused=False)


class Reader:
    """Reads a ledger live, until it ends."""

    def __init__(self, ledger: KafkaLedger) -> None:
        self.ledger = ledger
        self.read: list[int] = []
        self.task = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async for entry in self.ledger.read(0):
            self.read.append(entry.offset)

    async def has_read(self, end: int) -> None:
        await until(lambda: len(self.read) >= end or self.task.done(), timeout_s=60)
        assert len(self.read) >= end

    async def ended(self) -> LedgerCutShortError:
        """The error that it ends with."""
        await asyncio.wait([self.task], timeout=90)
        assert self.task.done(), "it reads on"
        error = self.task.exception()
        assert isinstance(error, LedgerCutShortError), error
        return error


async def written(ledger: KafkaLedger, count: int, first: int = 0) -> Reader:
    """Open a ledger and append so many records; a reader that has read all of it."""
    await succeed(ledger.open, 20.0, BrokerUnavailableError)  # a broker that has just started
    for n in range(first, first + count):
        await ledger.append(pause(n))
    reader = Reader(ledger)
    await reader.has_read(await ledger.end())
    return reader


async def append_when_it_can(ledger: KafkaLedger, record: LedgerRecord) -> int:
    for _ in range(10):
        with contextlib.suppress(BrokerUnavailableError):
            return await ledger.append(record)
        await asyncio.sleep(0.5)
    raise AssertionError("the broker is back, and the ledger cannot be written")


# -- it says nothing -----------------------------------------------------------------------------------------


async def test_one_who_takes_the_call_and_says_nothing_is_given_up_in_time(namespace: str) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        where = Connection(bootstrap=f"127.0.0.1:{silent.getsockname()[1]}", request_timeout_ms=1_000)
        ledger, began = KafkaLedger(where, namespace), time.monotonic()
        with pytest.raises(BrokerUnavailableError):
            await ledger.open()
        assert time.monotonic() - began < 5
        await ledger.close()


async def test_r15_an_append_that_a_frozen_broker_does_not_answer_leaves_nothing_behind(
    broker: EmbeddedKafka, ledgers: Callable[[], KafkaLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again for as long as the broker is frozen: what each try left behind would add up."""
    monkeypatch.setattr(ledger_module, "APPEND_TIMEOUT_S", 1.0)
    ledger = ledgers()
    await ledger.open()
    await ledger.append(pause(1))
    assert of_producers()
    freeze(broker)
    try:
        with pytest.raises(BrokerUnavailableError):
            await ledger.append(pause(2))
        await until(lambda: not of_producers())
    finally:
        thaw(broker)
    await append_when_it_can(ledger, pause(3))
    await ledger.close()
    await until(lambda: not of_producers())


def of_producers() -> list[str]:
    """What the client library does in the background for those who write."""
    coroutines = [task.get_coro() for task in asyncio.all_tasks() if not task.done()]
    files = [str(getattr(getattr(it, "cr_code", None), "co_filename", "")) for it in coroutines]
    return [
        repr(it) for it, file in zip(coroutines, files, strict=True) if Path(file).parent.name == "producer"
    ]


def test_a_broker_that_stands_still_is_reported_by_the_service_since_when_and_found_again(
    broker: EmbeddedKafka, connection: Connection, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_follower, "SILENT_S", 3.0)

    async def make_ledger() -> None:
        ledger = KafkaLedger(connection, "ns")
        await ledger.open()
        await ledger.close()

    asyncio.run(make_ledger())
    with served(connection) as client:
        assert followed(client) == 1
        freeze(broker)
        try:
            blocking_until(lambda: client.get("/readyz").status_code == 503, "the service to notice")
            told = client.get("/readyz").json()
            assert told["code"] == "broker-unavailable"
            assert re.fullmatch(r"no broker has answered since \d\d:\d\d:\d\d UTC", told["detail"]), told
            assert followed(client) == 0
            stale = client.get("/v1/snapshots")
            assert (stale.status_code, stale.headers["snapkafka-stale"]) == (200, "true")
            assert client.get("/v1/snapshots/none").json()["code"] == "broker-unavailable"
            with client.stream("GET", "/v1/events") as stream:
                line = next(line for line in stream.iter_lines() if line.startswith("data: "))
            told = json.loads(line.removeprefix("data: "))
            assert told["followed"] is False
            assert told["problem"].startswith("no broker has answered since ")
            assert client.get("/healthz").status_code == 200
        finally:
            thaw(broker)
        blocking_until(lambda: client.get("/readyz").status_code == 200, "the broker to be found again", 60)
        assert followed(client) == 1


def followed(client: TestClient) -> float:
    """Return what the metrics say about the ledger."""
    found = re.search(r"^snapkafka_service_ledger_followed (\S+)$", client.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return float(found[1])


# -- it comes back -------------------------------------------------------------------------------------------


def lose_tail(broker: EmbeddedKafka, topic: str, since: int) -> None:
    """Cut the log of the first partition short: nothing from offset `since` on is left. The broker does not run, and
    finds that it was not stopped in order."""
    assert broker.pid is None, "stop it first"
    data = broker.folder / "data"
    folder = data / f"{topic}-0"
    cuts = [_cut(segment, since) for segment in sorted(folder.glob("*.log"))]
    assert sum(cuts), f"{topic} has nothing from offset {since} on"
    for kind in ("*.index", "*.timeindex", "*.snapshot"):
        for made_of_it in folder.glob(kind):
            made_of_it.unlink()
    for checkpoint in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (data / checkpoint).unlink(missing_ok=True)


def _cut(segment: Path, since: int) -> int:
    content, at = segment.read_bytes(), 0
    while at + BATCH.size <= len(content):
        first, size = BATCH.unpack_from(content, at)
        if size <= 0 or first >= since:
            break
        at += BATCH.size + size
    segment.write_bytes(content[:at])
    return len(content) - at


async def test_a_reader_that_has_read_further_than_the_end_says_what_is_lost_and_can_write_that_down(
    broker: EmbeddedKafka, namespace: str, ledgers: Callable[[], KafkaLedger]
) -> None:
    ledger = ledgers()
    reader = await written(ledger, WRITTEN)
    await asyncio.to_thread(broker.kill)
    lose_tail(broker, topic_name(namespace), SINCE)
    await asyncio.to_thread(broker.start)
    error = await reader.ended()
    assert error.since == SINCE
    assert await ledger.append(TailLost(n=900, since=SINCE)) == SINCE
    await ledger.open()
    again = Reader(ledger)
    await again.has_read(SINCE + 1)
    assert again.read == list(range(SINCE + 1))
    again.task.cancel()


async def test_a_log_that_has_grown_again_past_what_was_read_is_found_to_be_another_one(
    broker: EmbeddedKafka, namespace: str, ledgers: Callable[[], KafkaLedger]
) -> None:
    """Where offsets show nothing, the records do: somebody else wrote first. The broker was stopped in order."""
    ledger = ledgers()
    reader = await written(ledger, WRITTEN)
    reader.task.cancel()
    await asyncio.to_thread(broker.stop)
    lose_tail(broker, topic_name(namespace), SINCE)
    await asyncio.to_thread(broker.start)
    other = await written(ledgers(), 2 * (WRITTEN - SINCE), first=500)
    other.task.cancel()
    assert len(other.read) > WRITTEN
    with pytest.raises(LedgerCutShortError) as raised:
        await ledger.open()
    assert raised.value.since == SINCE
    await ledger.append(TailLost(n=900, since=SINCE))


async def test_a_restart_that_loses_nothing_is_no_loss_and_the_ledger_outlives_it(
    broker: EmbeddedKafka, ledgers: Callable[[], KafkaLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition has another leader epoch, and the records agree."""
    monkeypatch.setattr(ledger_module, "APPEND_TIMEOUT_S", 1.0)
    ledger = ledgers()
    reader = await written(ledger, WRITTEN)
    before = ledger._leader_epoch
    await asyncio.to_thread(broker.kill)
    with pytest.raises(BrokerUnavailableError):
        await ledger.append(pause(899))
    await asyncio.to_thread(broker.start)
    await until(lambda: ledger._leader_epoch != before, timeout_s=60)
    offset = await append_when_it_can(ledger, pause(900))
    await until(lambda: offset in reader.read or reader.task.done())
    assert offset in reader.read
    reader.task.cancel()
