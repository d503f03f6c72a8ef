"""R11: a broker loses acknowledged records of the ledger. Whoever has read them notices, and says what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from snapkafka.kafka import Connection, KafkaLedger, LedgerCutShortError, topic_name
from snapkafka.protocol import Pause, TailLost
from snapkafka.testing import EmbeddedKafka
from tests.kafka.losing import lose_tail
from tests.kafka.waiting import until

pytestmark = pytest.mark.timeout(300)

WRITTEN, SINCE = 40, 25


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as started:
        yield started


@pytest.fixture
def connection(broker: EmbeddedKafka) -> Connection:
    return Connection(bootstrap=broker.bootstrap)


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
        await until(lambda: len(self.read) >= end, timeout_s=60)

    async def ended(self) -> LedgerCutShortError:
        """The error that it ends with."""
        await asyncio.wait([self.task], timeout=90)
        assert self.task.done(), "it reads on"
        error = self.task.exception()
        assert isinstance(error, LedgerCutShortError), error
        return error


async def written(ledger: KafkaLedger, count: int, first: int = 0) -> None:
    for n in range(first, first + count):
        await ledger.append(Pause(n=n, paused=False))


async def read_whole(ledger: KafkaLedger) -> Reader:
    await ledger.open()
    await written(ledger, WRITTEN)
    reader = Reader(ledger)
    await reader.has_read(WRITTEN)
    return reader


async def restarted(broker: EmbeddedKafka, namespace: str, since: int, how: str) -> None:
    await asyncio.to_thread(broker.kill if how == "killed" else broker.stop)
    lose_tail(broker, topic_name(namespace), since)
    await asyncio.to_thread(broker.start)


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_a_reader_that_has_read_further_than_the_end_says_what_is_lost_and_can_write_that_down(
    broker: EmbeddedKafka, namespace: str, ledgers: Callable[[], KafkaLedger], how: str
) -> None:
    ledger = ledgers()
    reader = await read_whole(ledger)
    await restarted(broker, namespace, SINCE, how)
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
    """Where offsets show nothing, the records do: somebody else wrote first."""
    ledger = ledgers()
    reader = await read_whole(ledger)
    await asyncio.to_thread(broker.kill)
    lose_tail(broker, topic_name(namespace), SINCE)
    reader.task.cancel()
    await asyncio.to_thread(broker.start)
    other = ledgers()
    await other.open()
    await written(other, 2 * (WRITTEN - SINCE), first=500)
    assert await other.end() > WRITTEN
    with pytest.raises(LedgerCutShortError) as raised:
        await ledger.open()
    assert raised.value.since == SINCE
    await ledger.append(TailLost(n=900, since=SINCE))


async def test_a_restart_that_loses_nothing_is_no_loss(
    broker: EmbeddedKafka, namespace: str, ledgers: Callable[[], KafkaLedger]
) -> None:
    """The partition has another leader epoch, and the records agree."""
    ledger = ledgers()
    reader = await read_whole(ledger)
    before = ledger._leader_epoch
    await asyncio.to_thread(broker.kill)
    await asyncio.to_thread(broker.start)
    await until(lambda: ledger._leader_epoch != before, timeout_s=60)
    await ledger.append(Pause(n=900, paused=False))
    await reader.has_read(WRITTEN + 1)
    assert not reader.task.done()
    reader.task.cancel()
