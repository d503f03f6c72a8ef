"""The checks in Spark on records that Spark did not read from Kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from snapkafka.assembly import Lookups, local_frame
from snapkafka.assembly.spark.reading.header_columns import STAMPS_SCHEMA
from snapkafka.assembly.spark.verify.log_frames import LogFrames
from snapkafka.assembly.spark.verify.prefilter import Look
from snapkafka.assembly.spark.verify.rules import RULES, SEARCHES, find
from snapkafka.checks import CutView, Finding, LogRecord, ReadRange, reading_ranges
from snapkafka.protocol import TopicPartition
from snapkafka.wire.headers import topic_check

__all__ = ["all_there", "frames", "nothing_there", "stamps_of", "suspected", "what_is_found"]


def stamps_of(spark: SparkSession, records: Iterable[LogRecord]) -> DataFrame:
    """As `header_columns.stamps` would have them."""
    return local_frame(spark, STAMPS_SCHEMA, [_stamp(record) for record in records])


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


def all_there(wanted: Collection[ReadRange]) -> set[TopicPartition]:
    """The log holds what it held when it was read."""
    return {TopicPartition(item.topic, item.partition) for item in wanted}


def nothing_there(wanted: Collection[ReadRange]) -> set[TopicPartition]:
    """Everything has gone since it was read."""
    return set()


def frames(
    spark: SparkSession,
    view: CutView,
    stamps: DataFrame | Iterable[LogRecord],
    *,
    stretch: int = 0,
    read: Collection[ReadRange] | None = None,
    **more: Any,
) -> LogFrames:
    """The input of the rules.

    Args:
        stamps: of the reading ranges.
        read: those ranges; None: as a snapshot without a parent has them.
        more: `still_there` and `again` of `LogFrames`.
    """
    return LogFrames(
        stamps if isinstance(stamps, DataFrame) else stamps_of(spark, stamps),
        Lookups(spark, view, stretch=stretch),
        reading_ranges(view) if read is None else read,
        **{"still_there": all_there, **more},
    )


def suspected(look: Look) -> set[str]:
    """The kinds whose rules would be run."""
    return {rule.kind for rule in RULES if look.counts[rule.suspect.name]}


def what_is_found(log: LogFrames, look: Look, *, kinds: Collection[str] | None = None) -> Counter[Finding]:
    """Everything that the rules find, whether the pre-filter has suspects for them or not, and the searches.

    Args:
        kinds: of the rules and searches that are run; None: all of them.
    """
    rules = [rule for rule in RULES if kinds is None or rule.kind in kinds]
    found = Counter(Finding(*row) for row in find(log, rules).collect()) if rules else Counter[Finding]()
    for search in SEARCHES:
        if kinds is None or {*search.kinds} & {*kinds}:
            found.update(search.find(log, look)[0])
    return found
