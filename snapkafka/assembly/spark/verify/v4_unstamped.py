"""V4 for records that lost their header in transit (`checks.unstamped`), in Spark.

A suspect is an external record at the place of a sender's last white one. The pre-filter knows which partitions hold
external records, so hardly any snapshot costs a query. Records below the reading ranges are read separately.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.frames import Lookups, local_frame
from snapkafka.checks import Finding, LogRecord, ReadRange
from snapkafka.checks.unstamped import look_back_ranges, unstamped_received
from snapkafka.protocol.records import TopicPartition

from .sequences import TP

#: Reads the stamps of some more ranges, one per partition.
Stamps = Callable[[Collection[ReadRange]], DataFrame]
PLACES = "topic string, partition int, offset bigint"


def suspected(lookups: Lookups, external: Mapping[TopicPartition, Row]) -> int:
    """Count the places at which an external record may stand in place of a last white one.

    Args:
        external: per partition, the first and the last external record.
    """
    return sum(
        external[tp].first <= end.white_end - 1 <= external[tp].last
        for tp, end, _ in lookups.view.last_behind()
        if tp in external
    )


def findings(
    stamps: DataFrame, lookups: Lookups, read: Collection[ReadRange], *, suspects: int, again: Stamps | None
) -> list[Finding]:
    """Find unstamped records; see `checks.unstamped.unstamped_received`; at most one for each sender, partition and
    app.

    Args:
        stamps: those of the reading ranges.
        read: the reading ranges.
        suspects: the result of `suspected`; 0: nothing in `stamps` has to be checked.
        again: reads the stamps below; None: those are not checked.
    """
    view = lookups.view
    places = sorted({(*tp, end.white_end - 1) for tp, end, _ in view.last_behind()})
    below = look_back_ranges(view, read) if again is not None else []
    parts = [stamps] if suspects else []
    parts += [again(below)] if again is not None and below else []
    wanted = local_frame(
        lookups.spark, PLACES, [dict(zip((*TP, "offset"), place, strict=True)) for place in places]
    )
    found = [
        LogRecord(*row)
        for part in parts
        for row in part.where(fn.col("process").isNull())
        .join(fn.broadcast(wanted), [*TP, "offset"])
        .select(*TP, "offset")
        .collect()
    ]
    return unstamped_received(view, found)
