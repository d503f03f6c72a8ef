"""A process that speaks the protocol and does nothing else, on a real ledger."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from snapkafka.kafka import Connection, KafkaLedger
from snapkafka.protocol import Assigned, Hello, InputTopic, Position, Report, Table, TopicPartition, Trigger


@contextlib.asynccontextmanager
async def process(
    connection: Connection,
    namespace: str,
    topic: str,
    *,
    reports: bool = True,
    tables: tuple[Table, ...] = (),
) -> AsyncIterator[int]:
    """A process of app `shop` that reads `topic`; gives its id."""
    ledger = KafkaLedger(connection, namespace)
    await ledger.open()
    me = await ledger.append(
        Hello(
            n=1 + await ledger.end(),
            app="shop",
            host="box",
            pid=7,
            inputs=(InputTopic(topic=topic, partitions=1),),
            tables=tables,
        )
    )
    assigned = await ledger.append(
        Assigned(process=me, n=1, generation=1, inputs=(TopicPartition(topic, 0),))
    )

    async def live() -> None:
        previous = 0
        async for entry in ledger.read(assigned + 1):
            if isinstance(entry.record, Trigger):
                epoch = entry.offset + 1
                at = Position(agent="a", topic=topic, partition=0, offset=0)
                report = Report(
                    process=me, n=2 * epoch, epoch=epoch, previous=previous, heard="ledger", assigned=assigned,
                    positions=(at,),
                )  # fmt: skip
                previous = epoch
                if reports:
                    await ledger.append(report)

    task = asyncio.ensure_future(live())
    yield me
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await ledger.close()
