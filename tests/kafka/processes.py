"""A process that speaks the protocol and does nothing else, on a real ledger."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from snapkafka.kafka import Connection, KafkaLedger
from snapkafka.protocol.offsets import InputTopic, Position, TopicPartition
from snapkafka.protocol.records import Assigned, Hello, Report, Trigger


@asynccontextmanager
async def process(
    connection: Connection, namespace: str, topic: str, *, reports: bool = True
) -> AsyncIterator[int]:
    """A process of app `shop` that reads `topic`; gives its id."""
    ledger = KafkaLedger(connection, namespace)
    await ledger.open()
    reads, n = (InputTopic(topic=topic, partitions=1),), 1 + await ledger.end()
    me = await ledger.append(Hello(n=n, app="shop", host="box", pid=7, inputs=reads))
    tp = TopicPartition(topic, 0)
    assigned = await ledger.append(Assigned(process=me, n=1, generation=1, inputs=(tp,)))

    async def live() -> None:
        previous, at = 0, Position(agent="a", topic=topic, partition=0, offset=0)
        async for entry in ledger.read(assigned + 1):
            if isinstance(entry.record, Trigger) and reports:
                epoch = entry.offset + 1
                report = Report(
                    process=me, n=2 * epoch, epoch=epoch, previous=previous, heard="ledger", assigned=assigned,
                    positions=(at,),
                )  # fmt: skip
                previous = epoch
                await ledger.append(report)

    task = asyncio.ensure_future(live())
    yield me
    task.cancel()
    await asyncio.wait([task])
    await ledger.close()
