"""A first look at the log: is there anything for V1, V2, V4 or V5 to find?

Nearly every snapshot is sound, and Spark's fixed costs are what a small one is made of. So one query with one shuffle
looks at all records first and counts, rule by rule, what *might* be a finding: only rules that have any are then looked
at in earnest. It may count too much (they find nothing then), but never too little: a test holds it against the checks
on random damage.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from snapkafka.protocol.records import TopicPartition

from .lookups import Lookups, local_frame
from .seqs import with_highest
from .tables import still_to_start

__all__ = ["Suspicion", "effect_is_missing", "first_look"]

#: Per partition: some input's reader has started what lies below `reach` or is in `above`; past `log_end` what was sent
#: by a process that left counts as red, and past `left_end` it was late.
PLACES: Final = (
    "topic string, partition int, closed_end bigint, left_end bigint, only_state boolean, reach bigint, "
    "above array<bigint>, log_end bigint"
)
#: Per sender and partition, besides what `lookups.SENDERS` has: its last white record if that must be there, and the
#: offsets that lie in only one of the two ranges which V4 compares: `[low_from, low_to)` and `[high_from, high_to)`.
DUE: Final = (
    "process bigint, topic string, partition int, last_offset bigint, due_seq bigint, low_from bigint, low_to bigint, "
    "high_from bigint, high_to bigint"
)


class Suspicion(NamedTuple):
    """How many records each rule has to look at; 0: it would find nothing."""

    after_end: int = 0
    left_late: int = 0
    out_of_turn: int = 0
    red: int = 0
    differs: int = 0
    last_missing: int = 0
    later_cause: int = 0
    earlier_cause: int = 0


def first_look(stamps: DataFrame, lookups: Lookups) -> Suspicion:
    """What V1, V2, V4 and V5 have to look at more closely."""
    epoch = lookups.view.epoch
    due = {(tp, end.process) for tp, end, _ in lookups.view.last_in_flight()}
    offset, left = fn.col("offset"), fn.coalesce("left", fn.lit(False))
    known, white_end = fn.col("left").isNotNull(), fn.coalesce("white_end", fn.lit(0))
    marker = fn.col("marker")

    white = known & ~left & (fn.col("epoch") < epoch) & ~marker
    after_end = white & (offset >= white_end)
    started = (offset < fn.col("reach")) | fn.array_contains("above", offset)
    red = (
        (fn.col("process") >= epoch)
        | (~left & (fn.col("epoch") >= epoch))
        | (known & (offset >= fn.when(left, fn.col("log_end")).otherwise(white_end)))
    )
    differs = white & (_within(offset, "low_from", "low_to") | _within(offset, "high_from", "high_to"))
    some_failed = fn.exists("failed", lambda it: (it > fn.col("highest")) & (it < fn.col("seq")))
    out_of_turn = (
        known
        & (offset < fn.when(left, fn.col("closed_end")).otherwise(white_end))
        & (fn.col("seq") != fn.col("highest") + 1)
        & ~(
            fn.col("only_state")
            & (fn.col("seq") > fn.col("highest"))
            & (fn.col("holes") >= fn.col("seq") - fn.col("highest") - 1)
            & ~fn.coalesce(some_failed, fn.lit(False))
        )
    )
    left_late = left & (offset >= fn.col("left_end")) & ~marker
    later_cause = (white | left) & ~marker & still_to_start(fn.col("cause_offset"), of="cause_")
    earlier_cause = known & ~left & (fn.col("epoch") >= epoch) & ~marker & effect_is_missing()
    is_last = (offset == fn.col("last_offset")) & (fn.col("seq") == fn.col("due_seq")) & ~marker
    counted = (
        with_highest(stamps)
        .join(fn.broadcast(_places(lookups)), ["topic", "partition"])
        .join(fn.broadcast(lookups.processes), "process", "left")
        .join(fn.broadcast(lookups.senders), ["process", "topic", "partition"], "left")
        .join(fn.broadcast(_due(lookups)), ["process", "topic", "partition"], "left")
        .join(fn.broadcast(lookups.causes), ["sender_app", "cause_check", "cause_partition"], "left")
        .agg(
            _count(after_end).alias("after_end"),
            _count(left_late).alias("left_late"),
            _count(out_of_turn).alias("out_of_turn"),
            _count(started & red & ~marker).alias("red"),
            _count(differs).alias("differs"),
            _count(is_last).alias("last"),
            _count(later_cause).alias("later_cause"),
            _count(earlier_cause).alias("earlier_cause"),
        )
        .collect()[0]
        .asDict()
    )
    last = counted.pop("last")
    return Suspicion(**counted, last_missing=len(due) - last)


def effect_is_missing() -> Column:
    """Of a record joined with its sender's ends and its cause: was it sent of an event that its sender had started by
    its cut, and has nobody run that again? (Then it should be white.)"""
    by_receiver = (fn.col("process") == fn.col("reader")) & fn.col("steady")
    before_closing = fn.col("offset") < fn.coalesce("sent_end", fn.lit(0))
    return by_receiver & before_closing & ~still_to_start(fn.col("cause_offset"), of="cause_")


def _count(condition: Column) -> Column:
    return fn.count(fn.when(condition, 1))


def _within(offset: Column, start: str, end: str) -> Column:
    return (offset >= fn.col(start)) & (offset < fn.col(end))


def _places(lookups: Lookups) -> DataFrame:
    view = lookups.view
    rows = []
    for tp in sorted({*view.inputs, *view.changelogs} - view.recreated):
        sources = view.inputs.get(tp, [])
        rows.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "closed_end": view.closed_end(tp),
                "left_end": view.left_end(tp),
                "only_state": tp in view.changelogs and not sources,
                "reach": max(
                    (max((a.offset for a in s.agents), default=s.position) for s in sources), default=0
                ),
                "above": sorted({offset for s in sources for a in s.agents for offset in a.started_above}),
                "log_end": min((source.log_end for source in sources), default=None),
            }
        )
    return local_frame(lookups.spark, PLACES, rows)


def _due(lookups: Lookups) -> DataFrame:
    view = lookups.view
    rows: dict[tuple[TopicPartition, int], dict[str, Any]] = defaultdict(dict)
    for tp, end, _ in view.last_in_flight():
        row = rows[tp, end.process]
        row |= {"last_offset": end.white_end - 1, "due_seq": end.last_seq}
    for item, source in view.recorded():
        tp = TopicPartition(item.topic, item.partition)
        row = rows[tp, item.sender]
        _widen(row, "low", item.start, source.noted)
        _widen(row, "high", item.end, view.white_end(item.sender, tp))
    for (tp, process), row in rows.items():
        row |= {"process": process, "topic": tp.topic, "partition": tp.partition}
    return local_frame(lookups.spark, DUE, list(rows.values()))


def _widen(row: dict[str, Any], which: str, one: int, other: int) -> None:
    """Let the range `which` of a row cover the offsets between two bounds as well."""
    if one != other:
        row[f"{which}_from"] = min(one, other, row.get(f"{which}_from", one))
        row[f"{which}_to"] = max(one, other, row.get(f"{which}_to", one))
