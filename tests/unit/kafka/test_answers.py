"""What a worker asks the broker every few seconds leaves nothing behind."""

from __future__ import annotations

import gc
import sys

from snapkafka.kafka.cluster.descriptions import descriptions
from snapkafka.kafka.cluster.requests import Metadata

ASKED = 500
ANSWER = Metadata.RESPONSE_TYPE(
    throttle_ms=0,
    brokers=[(1, "localhost", 9092, None)],
    cluster="cluster",
    controller=1,
    topics=[(0, "_snapkafka.x", b"\x07" * 16, False, [(0, 0, 1, 3, [1], [1], [])], 3400)],
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
