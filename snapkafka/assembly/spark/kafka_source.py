"""Exact offset ranges of Kafka topics as one DataFrame.

There is one read for all partitions: each read costs a consumer and a task, and a snapshot of a small system should be
fast. `failOnDataLoss` is always true: with false, Spark silently returns half the rows if a record is not readable
yet.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from snapkafka.assembly.records import CLIENT_ID
from snapkafka.checks import ReadRange

#: What Spark's source gives, and `read_ranges`.
SOURCE_SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>"
)
#: A task for so many records. Kafka partitions are read one after the other within a task.
RECORDS_PER_TASK: Final = 500_000
#: For fewer a second task takes longer to start than they take.
RECORDS_WORTH_A_TASK: Final = 20_000
#: Short, as it is waited for once per partition; it costs the broker nothing where there are records.
FETCH_WAIT_MS: Final = 20
#: A task may have so many consumers open at once: each has its sockets and buffers.
CONSUMERS_PER_TASK: Final = 8
#: Names the sources that Spark reads by its older interface.
OLDER_SOURCES: Final = "spark.sql.sources.useV1SourceList"


def read_ranges(spark: SparkSession, ranges: Sequence[ReadRange], client: Mapping[str, str]) -> DataFrame:
    """Return the records of `ranges`, markers included, in `SOURCE_SCHEMA`; nothing is read yet.

    Every range must lie within the log: Spark fails otherwise.

    Args:
        ranges: one per partition, none of them empty.
        client: settings of Kafka's client: address, login, isolation.
    """
    if not ranges:
        return spark.createDataFrame([], SOURCE_SCHEMA)
    reader = bare_source(spark, ranges, client)
    sizes = [item.end - item.start for item in ranges]
    tasks = min(spark.sparkContext.defaultParallelism, math.ceil(sum(sizes) / RECORDS_WORTH_A_TASK))
    tasks = max(tasks, math.ceil(sum(sizes) / RECORDS_PER_TASK))
    consumers = sum(math.ceil(size / RECORDS_PER_TASK) for size in sizes)
    with _newer_interface(spark) if consumers <= CONSUMERS_PER_TASK * tasks else nullcontext():
        return reader.option("includeHeaders", "true").load().coalesce(tasks)


@contextmanager
def _newer_interface(spark: SparkSession) -> Iterator[None]:
    """Read frames loaded in the block by the interface of streams, which creates Spark's rows directly.

    By the older interface, which Spark uses for batches, the source creates Scala rows, headers included, which Spark
    converts to its own: that takes longer than reading. But with the newer one a task closes no consumer before it
    ends.
    """
    older = spark.conf.get(OLDER_SOURCES) or ""
    spark.conf.set(OLDER_SOURCES, ",".join(name for name in older.split(",") if name != "kafka"))
    try:
        yield
    finally:
        spark.conf.set(OLDER_SOURCES, older)


def bare_source(
    spark: SparkSession, ranges: Sequence[ReadRange], client: Mapping[str, str]
) -> DataFrameReader:
    """Return Spark's Kafka source for these ranges, without headers."""
    partitions = defaultdict(list)
    for item in ranges:
        partitions[item.topic].append(item.partition)
    own = {
        "assign": json.dumps(partitions),
        "startingOffsets": _offsets(ranges, lambda item: item.start),
        "endingOffsets": _offsets(ranges, lambda item: item.end),
        "failOnDataLoss": "true",
        "kafka.allow.auto.create.topics": "false",
        # A partition that has more is read by several tasks.
        "maxRecordsPerPartition": str(RECORDS_PER_TASK),
        # A range often ends where the log does, and there a consumer waits for more, half a second by default.
        "kafka.fetch.max.wait.ms": str(FETCH_WAIT_MS),
        # Spark wants one group id per query, and makes it; nothing is ever committed under it.
        "groupIdPrefix": "snapkafka-assembly",
        # One name for all consumers of all jobs: whoever wants the brokers to hold them back sets it a quota.
        "kafka.client.id": CLIENT_ID,
    }
    return spark.read.format("kafka").options(**own | {f"kafka.{name}": it for name, it in client.items()})


def _offsets(ranges: Iterable[ReadRange], offset: Callable[[ReadRange], int]) -> str:
    """Format offsets as the Kafka source takes them, `{"topic": {"0": 17}}`."""
    offsets: dict[str, dict[str, int]] = defaultdict(dict)
    for item in ranges:
        offsets[item.topic][str(item.partition)] = offset(item)
    return json.dumps(offsets)
