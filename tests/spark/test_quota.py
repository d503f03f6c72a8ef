"""A quota that an operator sets for the client id of the job holds the reading back: the command of the guide."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from snapkafka.assembly import read_ranges
from snapkafka.assembly.spark.reading.kafka_source import CLIENT_ID
from snapkafka.checks import ReadRange
from snapkafka.testing import Broker, create_topics
from tests.kafka.test_doctor import kafkas_own_tool

pytestmark = pytest.mark.nightly

GUIDE = Path(__file__).parents[2] / "docs/guide/assembly.md"
RECORDS = 160
RECORD_BYTES = 100_000
BYTES_S = 1_000_000
#: A broker looks at the last ten seconds: what fits into them comes at once.
AT_ONCE_S = 10


@pytest.fixture(scope="module")
def ranges(kafka: Broker) -> list[ReadRange]:
    """16 MB that cannot be compressed."""
    topic = f"quota-{os.getpid()}"
    create_topics(kafka.bootstrap, topic, partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, os.urandom(RECORD_BYTES), partition=number % 2)
    assert producer.flush(60) == 0
    return [ReadRange(topic, partition, 0, RECORDS // 2) for partition in range(2)]


def seconds(spark: SparkSession, kafka: Broker, ranges: list[ReadRange]) -> float:
    began = time.monotonic()
    records = read_ranges(spark, ranges, bootstrap=kafka.bootstrap)
    size = records.selectExpr("sum(length(value))").collect()[0][0]
    assert size == RECORDS * RECORD_BYTES
    return time.monotonic() - began


async def test_a_quota_for_the_client_id_of_the_job_holds_the_reading_back(
    spark: SparkSession, kafka: Broker, ranges: list[ReadRange]
) -> None:
    (command,) = re.findall(
        r"^kafka-configs\.sh .+ consumer_byte_rate=\d+$", GUIDE.read_text("utf-8"), re.MULTILINE
    )
    assert f"--entity-name {CLIENT_ID} " in command
    setting = command.replace("BROKER", kafka.bootstrap).replace("=50000000", f"={BYTES_S}")
    seconds(spark, kafka, ranges)  # the first query of a session takes as long as several
    freely = seconds(spark, kafka, ranges)
    await kafkas_own_tool(setting)
    try:
        held_back = seconds(spark, kafka, ranges)
    finally:
        await kafkas_own_tool(re.sub(r"--add-config (\w+)=\d+", r"--delete-config \1", setting))
    least = RECORDS * RECORD_BYTES / BYTES_S - AT_ONCE_S
    assert held_back >= least > 2 * freely, (held_back, least, freely)
