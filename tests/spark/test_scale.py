"""What lets an assembly grow with a cluster, as Spark plans it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly import PLAIN, local_frame
from snapkafka.assembly.spark.reading import kafka_source
from snapkafka.assembly.spark.reading.session import CODE_CACHE, JAVA_LARGE, MEMORY_MAX, MEMORY_MIN, SMALL_MAX
from snapkafka.assembly.spark.tables.state import CHANGES, fold
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


def test_the_source_makes_rows_of_sparks_at_once(spark: SparkSession, kafka: Broker) -> None:
    topic = f"rows-{uuid.uuid4().hex[:8]}"
    create_topics(kafka.bootstrap, topic)
    older = spark.conf.get(kafka_source.OLDER_SOURCES)
    ranges = [ReadRange(topic, 0, 0, 1)]
    read = kafka_source.read_ranges(spark, ranges, bootstrap=kafka.bootstrap)
    bare = kafka_source.bare_source(
        spark, ranges, bootstrap=kafka.bootstrap, isolation="read_committed"
    ).load()
    assert ["BatchScan KafkaTable" in _plan(table) for table in (read, bare)] == [True, False]
    assert spark.conf.get(kafka_source.OLDER_SOURCES) == older


def test_where_a_task_has_many_partitions_to_read_the_older_interface_is_left(
    spark: SparkSession, kafka: Broker
) -> None:
    """By the newer one a task closes no consumer before it ends, and each has its sockets and buffers."""
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
    assert ["BatchScan" in _plan(table) for table in (few, many)] == [True, False]
    assert [few.count(), many.count()] == [most, most + 1]


def _plan(table: DataFrame) -> str:
    return str(table._jdf.queryExecution().executedPlan().toString())


def _values_that_move(table: DataFrame) -> list[str]:
    """Steps of the plan that sort rows with values, or send such rows to other tasks."""
    plan = _plan(table)
    moving = re.compile(r"(Sort|SortAggregate|Exchange|ObjectHashAggregate)\b")
    lines = [line.strip(" :+-*()0123456789") for line in plan.splitlines()]
    steps = [line for line in lines if moving.match(line)]
    assert steps, plan
    return [
        step for step in steps if re.search(r"\bvalue#\d+|\blast#\d+.*struct|max_by", step) or "Sort" in step
    ]


def _changes(spark: SparkSession) -> DataFrame:
    row = {
        "app": "shop",
        "table_name": "stock",
        "topic": "stock-changelog",
        "partition": 0,
        "place": 0,
        "key": b'"a"',
        "value": b"1",
        "offset": 0,
        "key_codec": "json",
        "value_codec": "json",
        "sets": False,
        "windowed": False,
    }
    rows = [{**row, "offset": offset} for offset in range(10)]
    # Through an RDD: of rows that are at hand the planner would know all there is.
    return spark.createDataFrame(local_frame(spark, CHANGES, rows).rdd, CHANGES)


def test_the_fold_moves_and_sorts_no_values(spark: SparkSession) -> None:
    changes = _changes(spark)
    folded = fold(changes, PLAIN, sets=False, windows=False, offsets=10)
    assert _values_that_move(folded) == []
    sorting = changes.groupBy("place", "key").agg(fn.max_by("value", "offset").alias("value"))
    assert _values_that_move(sorting), "a fold that does is noticed"


#: What Java was started with.
STARTED = """
import sys
from snapkafka.assembly.spark.reading.session import session
with session(offsets=int(sys.argv[1])) as spark:
    management = spark._jvm.java.lang.management.ManagementFactory
    print(spark._jvm.java.lang.Runtime.getRuntime().maxMemory(), *management.getRuntimeMXBean().getInputArguments())
"""


def test_a_session_for_much_data_has_memory_for_it_and_a_small_one_takes_none() -> None:
    memory, options = {}, {}
    for offsets in (SMALL_MAX, SMALL_MAX + 1):
        command = [sys.executable, "-c", STARTED, str(offsets)]
        reported = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=120
        ).stdout.split()
        memory[offsets], options[offsets] = int(reported[0]), reported[1:]
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert memory[SMALL_MAX] <= MEMORY_MIN
    # Java leaves out one of the two parts between which it moves what is young.
    assert memory[SMALL_MAX + 1] > 0.8 * min(max(machine // 4, MEMORY_MIN), MEMORY_MAX)
    of_large = set(JAVA_LARGE.split()) - {CODE_CACHE}
    assert of_large <= set(options[SMALL_MAX + 1])
    assert not of_large & set(options[SMALL_MAX])
    assert all(CODE_CACHE in given for given in options.values())
