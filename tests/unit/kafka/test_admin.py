"""What an administrator makes of a coordinator that moves, and that answers leave nothing behind."""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace
from unittest.mock import AsyncMock, call

import pytest
from aiokafka.errors import GroupCoordinatorNotAvailableError
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as KafkaPartition

from snapkafka.errors import BrokerUnavailableError
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.kafka.cluster import broker_errors
from snapkafka.kafka.cluster.requests import Metadata, descriptions
from snapkafka.protocol import TopicPartition

FOUND = {KafkaPartition("in", 0): OffsetAndMetadata(5, "snapkafka:p")}


async def test_a_group_without_a_coordinator_is_asked_again_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who has to know waits for it (D6), and does not go on as if nothing were committed."""
    monkeypatch.setattr(broker_errors, "PASSES_WITHIN_S", 0.5)
    moves = GroupCoordinatorNotAvailableError("Unable to get coordinator id")
    asked = AsyncMock(side_effect=[moves, moves, FOUND])
    client = SimpleNamespace(list_consumer_group_offsets=asked)
    monkeypatch.setattr(KafkaTopicAdmin, "_connected", AsyncMock(return_value=client))
    admin = KafkaTopicAdmin(Connection(bootstrap="127.0.0.1:1"))
    assert await admin.committed("shop") == {TopicPartition("in", 0): (5, "snapkafka:p")}
    assert asked.await_args_list == [call("shop")] * 3
    asked.side_effect = moves
    with pytest.raises(BrokerUnavailableError):
        await admin.committed("shop")


ASKED = 500
ANSWER = Metadata.RESPONSE_TYPE(
    throttle_ms=0,
    brokers=[(1, "localhost", 9092, None)],
    cluster="cluster",
    controller=1,
    topics=[(0, "_snapkafka.x", b"\x07" * 16, False, [(0, 0, 1, 3, [1], [1], [])], 0)],
    rights=3400,
).encode()


def _answered() -> int:
    """Blocks of memory that Python has in use, once so many answers were read."""
    for _ in range(ASKED):
        found, failed = descriptions(Metadata.RESPONSE_TYPE.decode(ANSWER))
        assert found["_snapkafka.x"].partitions == 1 and not failed
        del found, failed
    return sys.getallocatedblocks()


def test_answers_that_were_read_leave_no_tuples_behind() -> None:
    """Of tuples that were cut to their size Python keeps two thousand for each: one of the topic, the partition and the
    broker for each answer."""
    gc.collect()  # those that are kept now
    gc.disable()
    try:
        before = _answered()
        assert _answered() - before < ASKED / 5
    finally:
        gc.enable()
