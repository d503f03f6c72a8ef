"""The ledger on a broker whose defaults are for other topics: it inherits none that harms it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from snapkafka.kafka import SETTINGS, Connection, KafkaLedger, KafkaTopicAdmin, topic_name
from snapkafka.protocol import Bye, Report, SentEnd
from snapkafka.testing import EmbeddedKafka

#: What operators choose for the topics of their services, all of it at once.
HOSTILE = {
    "compression.type": "zstd",
    "log.cleanup.policy": "compact",
    "log.message.timestamp.type": "CreateTime",
    "log.retention.bytes": "100000",
    "log.retention.ms": "60000",
    "log.roll.ms": "1000",
    "log.segment.bytes": "1048576",
    "message.max.bytes": "20000",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "true",
}
LARGE = Report(
    process=0,
    n=1,
    epoch=1,
    previous=0,
    heard="ledger",
    assigned=-1,
    positions=(),
    sent=tuple(SentEnd(topic=f"{i:0200}", partition=i, white_end=1, last_seq=1) for i in range(1_200)),
)


@pytest.fixture(scope="module")
def hostile() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(properties=HOSTILE) as broker:
        yield broker


@pytest.fixture
def connection(hostile: EmbeddedKafka) -> Connection:
    return Connection(bootstrap=hostile.bootstrap)


async def written_and_read(ledger: KafkaLedger) -> list[object]:
    for record in (Bye(process=0, n=2), LARGE):
        await ledger.append(record)
    return [entry.record async for entry in ledger.read(until=await ledger.end())]


async def test_a_new_one_inherits_no_default_that_harms_it(
    ledgers: Callable[[], KafkaLedger], admin: KafkaTopicAdmin, namespace: str
) -> None:
    ledger = ledgers()
    await ledger.open()
    assert await written_and_read(ledger) == [Bye(process=0, n=2), LARGE]
    holding, _ = await admin.topic_settings(topic_name(namespace))
    assert {name: holding[name] for name in SETTINGS} == SETTINGS
    assert holding["min.insync.replicas"] == "1"
