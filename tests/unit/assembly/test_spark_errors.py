"""What Spark reports of the world outside, in our words."""

from __future__ import annotations

import pytest

from snapkafka.assembly.spark_errors import translate
from snapkafka.errors import OffsetsGoneError

LOSS = """An error occurred while calling o1.count.
: org.apache.spark.SparkException: [KAFKA_DATA_LOSS.{kind}] Some data may have been lost because they are not \
available in Kafka any more; {reason}"""

RANGE = "Could not read records in offset [1, 9) for topic partition shop.orders-new-3 with consumer"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (LOSS.format(kind="COULD_NOT_READ_OFFSET_RANGE", reason=RANGE), "shop.orders-new[3]"),
        (LOSS.format(kind="PARTITIONS_DELETED", reason="Partitions HashSet(a-0) have been deleted."), None),
        (LOSS.format(kind="PARTITIONS_DELETED", reason="Partitions [orders-0] have been."), "orders[0]"),
        ("OffsetOutOfRangeException: position 5 is out of range for partition orders-12, ra", "orders[12]"),
        ("UnknownTopicOrPartitionException: This server does not host this topic-partition.", None),
    ],
)
def test_the_topic_whose_records_are_gone_is_named(text: str, place: str | None) -> None:
    found = translate(RuntimeError(text))
    assert isinstance(found, OffsetsGoneError)
    assert (f"({place}): " in found.message) == (place is not None), found.message
    assert "\n" not in found.message
