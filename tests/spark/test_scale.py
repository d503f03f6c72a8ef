"""What lets an assembly grow with a cluster, as Spark plans it."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly.spark import kafka_source
from snapkafka.checks import ReadRange
from snapkafka.testing import Broker, create_topics

pytestmark = pytest.mark.nightly

RECORDS = 1_000


def test_a_hot_partition_is_read_by_many_tasks(
    spark: SparkSession, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_source, "RECORDS_PER_TASK", 100)
    topic = f"hot-{uuid.uuid4().hex[:8]}"
    create_topics(kafka.bootstrap, topic, partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for n in range(RECORDS):
        producer.produce(topic, b"%d" % n, partition=0)
    producer.produce(topic, b"alone", partition=1)
    assert producer.flush(30) == 0
    ranges = [ReadRange(topic, 0, 0, RECORDS), ReadRange(topic, 1, 0, 1)]
    records = kafka_source.read_ranges(spark, ranges, bootstrap=kafka.bootstrap)
    by_task = records.withColumn("task", fn.spark_partition_id()).groupBy("task").count().collect()
    assert len(by_task) >= RECORDS // 100
    assert max(row["count"] for row in by_task) <= 200
    assert records.where("partition = 0").select("offset").distinct().count() == RECORDS


def test_where_a_task_has_many_partitions_to_read_the_older_interface_is_left(
    spark: SparkSession, kafka: Broker
) -> None:
    """By the newer one a task closes no consumer before it ends, and each has its sockets and buffers."""
    older = spark.conf.get(kafka_source.OLDER_SOURCES)
    topic = f"many-{uuid.uuid4().hex[:8]}"
    most = kafka_source.CONSUMERS_PER_TASK * spark.sparkContext.defaultParallelism
    create_topics(kafka.bootstrap, topic, partitions=most + 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for partition in range(most + 1):
        producer.produce(topic, b"%d" % partition, partition=partition)
    assert producer.flush(30) == 0
    ranges = [ReadRange(topic, partition, 0, 1) for partition in range(most + 1)]
    few, many = (
        kafka_source.read_ranges(spark, some, bootstrap=kafka.bootstrap) for some in (ranges[:most], ranges)
    )
    plans = (table._jdf.queryExecution().executedPlan().toString() for table in (few, many))
    assert ["BatchScan" in str(plan) for plan in plans] == [True, False]
    assert spark.conf.get(kafka_source.OLDER_SOURCES) == older
    assert [few.count(), many.count()] == [most, most + 1]
