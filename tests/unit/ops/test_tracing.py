"""`trace` follows causes from header to header, and reports why it ends."""

from __future__ import annotations

import pytest

from snapkafka import ops
from snapkafka.errors import BadInputError
from snapkafka.ports import Topic
from snapkafka.protocol import TopicPartition
from snapkafka.wire import headers
from tests.worlds.fakes import FakeCluster, Worker

LEDGER = headers.ledger_id(bytes(16))
RAW, ORDERS, BILLS = (TopicPartition(name, 0) for name in ("raw", "orders", "bills"))


Place = tuple[TopicPartition, int]


def put(cluster: FakeCluster, tp: TopicPartition, offset: int, worker: Worker, cause: Place | None) -> None:
    """A record of a worker."""
    check = headers.tp_check(*tp)
    if cause is None:
        stamp = headers.stamp(LEDGER, check, 0, worker.process, offset)
    else:
        place = headers.topic_check(cause[0].topic), cause[0].partition, cause[1]
        stamp = headers.stamp_with_cause(LEDGER, check, 0, worker.process, offset, *place)
    cluster.the_admin.headers_at[tp, offset] = [(headers.HEADER, stamp)]


@pytest.fixture
def cluster() -> FakeCluster:
    """raw 7 (external) -> orders 3 -> bills 5."""
    found = FakeCluster()
    shop, bank = Worker(found.the_ledger, "shop", "raw"), Worker(found.the_ledger, "bank", "orders")
    admin = found.the_admin
    admin.topics = {tp.topic: Topic(1) for tp in (RAW, ORDERS, BILLS)}
    admin.topics[found.the_ledger.topic] = Topic(1)
    admin.ends = dict.fromkeys((RAW, ORDERS, BILLS), 10)
    admin.headers_at[RAW, 7] = []
    put(found, ORDERS, 3, shop, (RAW, 7))
    put(found, BILLS, 5, bank, (ORDERS, 3))
    return found


async def test_causes_are_followed_to_an_external_record(cluster: FakeCluster) -> None:
    found = await ops.trace(cluster, "ns", "bills", 0, 5)
    assert [(step.topic, step.offset, step.app) for step in found.steps] == [
        ("bills", 5, "bank"),
        ("orders", 3, "shop"),
        ("raw", 7, ""),
    ]
    assert found.end == "the last record is external: no service with snapkafka sent it"


async def test_it_reports_why_it_ends(cluster: FakeCluster) -> None:
    async def end(offset: int, **options: int) -> str:
        return (await ops.trace(cluster, "ns", "bills", 0, offset, **options)).end

    assert await end(5, most=1) == "more causes follow than the 1 that were asked for"
    cluster.the_admin.starts[RAW] = 8
    assert await end(5) == (
        "the record of its cause cannot be read: offset 7 of raw[0] was deleted: the log begins at 8"
    )
    nowhere = (TopicPartition("named by nobody", 0), 1)
    put(cluster, BILLS, 3, Worker(cluster.the_ledger, "relay", "x"), nowhere)
    assert (await end(3)).startswith("the topic of its cause is unknown")
    assert await end(12) == "bills[0] ends at 10: there is no offset 12"
    assert (await end(6)).startswith("there is no record at offset 6 of bills[0]")
    put(cluster, BILLS, 1, Worker(cluster.the_ledger, "timer", "x"), None)
    assert (await end(1)).startswith("the last record was sent outside any event")
    put(cluster, BILLS, 2, Worker(cluster.the_ledger, "loop", "x"), (BILLS, 2))
    assert len((await ops.trace(cluster, "ns", "bills", 0, 2)).steps) == ops.STEPS_MAX
    for topic, partition, offset in (("no-such", 0, 1), ("bills", 1, 1), ("bills", -1, 1), ("bills", 0, -1)):
        with pytest.raises(BadInputError):
            await ops.trace(cluster, "ns", topic, partition, offset)
