"""The checks by Spark's tasks, over Spark's columns: they find what they find on lists, however the log lies there."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from snapkafka.assembly import Lookups, local_frame
from snapkafka.assembly.spark.log import SparkLog
from snapkafka.assembly.spark.reading.header_columns import STAMPS_SCHEMA
from snapkafka.checks import LOG_CHECKS, CutLog, LogRecord, ReadRange, find, run
from snapkafka.checks.v4_channels import look_back_ranges
from snapkafka.protocol import TopicPartition
from snapkafka.wire.headers import topic_check

from .damaged_logs import EVERY_KIND, Damaged, damaged

#: As many partitions Spark has of the log; a batch has so many records.
TASKS, BATCH = 5, 7


def _stamp(record: LogRecord) -> dict[str, Any]:
    (topic, partition), offset = record.cause or ((None, None), None)
    row = record._asdict() | {
        "process": record.process if record.process >= 0 else None,
        "cause_check": None if topic is None else topic_check(topic),
        "cause_partition": partition,
        "cause_offset": offset,
    }
    del row["cause"]
    return row


class Local(SparkLog):
    """A log that Spark has not read from Kafka."""

    def __init__(self, spark: SparkSession, snapshot: Damaged) -> None:
        def frame(records: Iterable[LogRecord]) -> DataFrame:
            places = ("topic", "partition", "offset")
            rows = local_frame(spark, STAMPS_SCHEMA, [_stamp(record) for record in records])
            return rows.repartitionByRange(TASKS, *places).sortWithinPartitions(*places)

        super().__init__(
            frame(snapshot.within(snapshot.read)),
            Lookups(spark, snapshot.view),
            lambda ranges: frame(snapshot.within(ranges)),
        )

    def still_there(self, wanted: Collection[ReadRange]) -> set[TopicPartition]:
        return {TopicPartition(item.topic, item.partition) for item in wanted}


@pytest.mark.parametrize("seed", [EVERY_KIND, pytest.param(3, marks=pytest.mark.nightly)])
def test_damage_of_every_kind_is_found_as_on_lists(spark: SparkSession, seed: int) -> None:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH))
    snapshot = damaged(seed)
    source = Local(spark, snapshot)
    below = source.below(look_back_ranges(snapshot.view, snapshot.read))
    in_spark = CutLog(snapshot.view, source, read=snapshot.read, below=below)
    for check in LOG_CHECKS:
        assert find(check, in_spark) == find(check, snapshot.log), check
    assert run(in_spark) == run(snapshot.log)
