"""V1 for sends that processes report as lost: refused ones, or ones of unknown outcome, that are not in the log.

Between two records of a sender such a seq is a gap, as any other missing one (`sequences`). Before the first and after
the last record, and without records, the order of the log shows no gap: so the reported seqs are sought. Hardly any
snapshot has any.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.frames import Lookups, local_frame
from snapkafka.checks import Finding
from snapkafka.checks.log_checks import Unseen, lost_sends, unseen
from snapkafka.protocol.records import TopicPartition

from . import sequences
from .sequences import TP

#: `number` stands for one of `Unseen`.
PARTS = "topic string, partition int, process bigint, first bigint, last bigint, number int"


def findings(stamps: DataFrame, lookups: Lookups) -> list[Finding]:
    """Find lost sends; see `checks.log_checks.lost_sends`; at most one for each range that a process reports."""
    if not any(row["failed"] for row in lookups.sender_rows):
        return []
    judged = sequences.of_known(sequences.without_copies(stamps, lookups), lookups).where(
        ~fn.col("left") & (fn.col("offset") < fn.col("white_end")) & (fn.size("failed") > 0)
    )
    rows = judged.groupBy(*TP, "process").agg(fn.min_by("seq", "offset"), fn.max("seq")).collect()
    parts = unseen(lookups.view, {(TopicPartition(*row[:2]), row[2]): (row[3], row[4]) for row in rows})
    return lost_sends(lookups.view, dict.fromkeys(parts, 0) | _held(judged, lookups, parts))


def _held(judged: DataFrame, lookups: Lookups, parts: list[Unseen]) -> dict[Unseen, int]:
    """Count the seqs of each part in the log; parts without any are left out."""
    wanted = [
        {
            **part.tp._asdict(),
            "process": part.process,
            "first": part.first,
            "last": part.last,
            "number": number,
        }
        for number, part in enumerate(parts)
    ]
    if not wanted:
        return {}
    rows = (
        judged.join(fn.broadcast(local_frame(lookups.spark, PARTS, wanted)), [*TP, "process"])
        .where(fn.col("seq").between(fn.col("first"), fn.col("last")))
        .groupBy("number")
        .agg(fn.count_distinct("seq"))
        .collect()
    )
    return {parts[number]: found for number, found in rows}
