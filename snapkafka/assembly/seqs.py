"""Seqs in the order of the log: what V1 and V4 build on. See `checks.log_checks` for the same on lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from snapkafka.checks import ReadRange

from .lookups import Lookups

__all__ = ["TP", "gaps", "late", "of_known", "stretch_of", "suspects", "with_highest", "with_only_state"]

TP: Final = ("topic", "partition")
EARLIER: Final = (Window.unboundedPreceding, -1)
#: More offsets of a partition than this no single task sorts.
STRETCH: Final = 2_000_000


def stretch_of(ranges: Iterable[ReadRange]) -> int:
    """For `with_highest`: is a partition among these that one task should not sort?"""
    return STRETCH if any(item.end - item.start > STRETCH for item in ranges) else 0


def with_highest(stamps: DataFrame, stretch: int) -> DataFrame:
    """Adds to each record the `highest` seq before it (same process and partition), `high_offset` where that stood, and
    `holes`: how many offsets between the two hold no record at all. Null for the first of a process, and for records
    that are not ours.

    Args:
        stretch: a task sorts no more than so many offsets of a partition; what was highest in the stretches before is
            carried into each. Records are shuffled twice for it. 0: one task for a partition, and one shuffle.
    """
    stretches = (*TP, "stretch")
    in_log = Window.partitionBy(*stretches).orderBy("offset")
    before = Window.partitionBy(*stretches, "process").orderBy("offset").rowsBetween(*EARLIER)
    numbered = (
        stamps.withColumn("stretch", fn.floor(fn.col("offset") / stretch) if stretch else fn.lit(0))
        .withColumn("nth", fn.row_number().over(in_log))
        .withColumn("high", fn.when(fn.col("process").isNotNull(), fn.max(_high()).over(before)))
    )
    if stretch:
        nth = fn.col("first_nth") + fn.col("high.nth")
        in_stretch = fn.when(fn.col("high").isNotNull(), fn.struct("high.seq", "high.back", nth.alias("nth")))
        numbered = (
            numbered.join(fn.broadcast(_carried(numbered)), [*stretches, "process"], "left")
            .withColumn("high", fn.greatest(in_stretch, "carried"))
            .withColumn("nth", fn.col("first_nth") + fn.col("nth"))
        )
    return numbered.select(
        *stamps.columns,
        fn.col("high.seq").alias("highest"),
        (-fn.col("high.back")).alias("high_offset"),
        (fn.col("offset") + fn.col("high.back") - (fn.col("nth") - fn.col("high.nth"))).alias("holes"),
    )


def _carried(numbered: DataFrame) -> DataFrame:
    """Of each stretch and process the highest seq of the stretches before it (`carried`), and how many records of the
    partition those hold (`first_nth`). As many rows as there are stretches, times the processes that write there."""
    earlier = Window.partitionBy(*TP, "process").orderBy("stretch").rowsBetween(*EARLIER)
    below = Window.partitionBy(*TP).orderBy("stretch").rangeBetween(Window.unboundedPreceding, -1)
    return (
        numbered.groupBy(*TP, "stretch", "process")
        .agg(fn.max(_high()).alias("top"), fn.count("*").alias("records"))
        .withColumn("first_nth", fn.coalesce(fn.sum("records").over(below), fn.lit(0)))
        .withColumn(
            "top", fn.struct("top.seq", "top.back", (fn.col("first_nth") + fn.col("top.nth")).alias("nth"))
        )
        .withColumn("carried", fn.max("top").over(earlier))
        .where(fn.col("process").isNotNull())
        .select(*TP, "stretch", "process", "first_nth", "carried")
    )


def _high() -> Column:
    """Where the highest seq stands. Of two records that have it the first one counts: hence the negative offset."""
    return fn.struct("seq", (-fn.col("offset")).alias("back"), "nth")


def of_known(records: DataFrame, lookups: Lookups) -> DataFrame:
    """Records of processes that the snapshot knows, with `left`, and the `white_end` of their sender (0: none) and the
    seqs of its `failed` sends."""
    return (
        records.where(fn.col("process").isNotNull())
        .join(fn.broadcast(lookups.processes), "process")
        .join(fn.broadcast(lookups.senders.drop("last_seq")), ["process", *TP], "left")
        .withColumn("white_end", fn.coalesce("white_end", fn.lit(0)))
        .withColumn("failed", fn.coalesce("failed", fn.array().cast("array<bigint>")))
    )


def suspects(stamps: DataFrame, lookups: Lookups) -> DataFrame:
    """Records whose seq is not one more than the highest before it, below the end up to which seqs have to be whole.

    Columns of the stamps, and `highest`, `high_offset`, `holes`, `left`, `failed` (the seqs of failed sends between the
    two), `only_state_below` (see `Lookups.places`).
    """
    judged_end = fn.when(fn.col("left"), fn.col("closed_end")).otherwise(fn.col("white_end"))
    seq, highest = fn.col("seq"), fn.col("highest")
    failed = fn.filter("failed", lambda it: (it > highest) & (it < seq))
    return (
        of_known(with_highest(stamps, lookups.stretch), lookups)
        .join(fn.broadcast(lookups.places), list(TP))
        .where((fn.col("offset") < judged_end) & (seq != highest + 1))
        .withColumn("failed", failed)
        # What compaction took from a changelog is for V3 to judge.
        .where(
            (fn.col("offset") > fn.col("only_state_below"))
            | (seq <= highest)
            | (fn.col("holes") < seq - highest - 1)
            | (fn.size("failed") > 0)
        )
        .select(*stamps.columns, "highest", "high_offset", "holes", "left", "failed", "only_state_below")
    )


def late(stamps: DataFrame, suspect: DataFrame) -> DataFrame:
    """Suspects that come after a higher seq, with `again`: has the same seq come before?"""
    earlier = stamps.select(*TP, "process", "seq", fn.col("offset").alias("earlier"))
    came_late = suspect.where(fn.col("seq") <= fn.col("highest"))
    return (
        came_late.join(earlier, [*TP, "process", "seq"], "left")
        .groupBy(*came_late.columns)
        .agg(fn.coalesce(fn.bool_or(fn.col("earlier") < fn.col("offset")), fn.lit(False)).alias("again"))
    )


def gaps(suspect: DataFrame, came_late: DataFrame) -> DataFrame:
    """Suspects before which seqs are missing (not merely late), with `explained` by missing offsets, and `all_failed`:
    their sender says of each of them that it could not be sent."""
    seq, highest, late_seq = fn.col("seq"), fn.col("highest"), fn.col("late_seq")
    out_of_order = came_late.where(~fn.col("again")).select(*TP, "process", seq.alias("late_seq"))
    jumps = suspect.where(seq > highest + 1)
    came = fn.when((late_seq > highest) & (late_seq < seq), 1)
    came_failed = fn.when(fn.array_contains("failed", late_seq), 1)
    return (
        jumps.join(out_of_order, [*TP, "process"], "left")
        .groupBy(*jumps.columns)
        .agg(
            (seq - highest - 1 - fn.count(came)).alias("missing"),
            (fn.size("failed") - fn.count(came_failed)).alias("failures"),
        )
        .where(fn.col("missing") > 0)
        .withColumn("explained", fn.col("holes") >= fn.col("missing"))
        .withColumn("all_failed", fn.col("failures") == fn.col("missing"))
    )


def with_only_state(found: DataFrame, stamps: DataFrame, lookups: Lookups) -> DataFrame:
    """Adds to `gaps` whether all that an explained one misses is state and no more (`only_state`): no offset is missing
    from `only_state_below` to the record behind. Gaps that reach across are few, one for a process and partition."""
    offset, below = fn.col("offset"), fn.col("only_state_below")
    if not lookups.view.inputs.keys() & lookups.view.changelogs.keys():
        return found.withColumn("only_state", offset <= below)
    across = found.where((fn.col("high_offset") < below) & (offset > below))
    behind = across.select(*TP, "process", "only_state_below", offset.alias("behind"))
    held = (
        stamps.select(*TP, "offset")
        .join(fn.broadcast(behind), list(TP))
        .where((offset >= below) & (offset < fn.col("behind")))
        .groupBy(*TP, "process", fn.col("behind").alias("offset"))
        .agg(fn.count("*").alias("held"))
    )
    only_state = offset - below <= fn.coalesce("held", fn.lit(0))
    return found.join(held, [*TP, "process", "offset"], "left").withColumn("only_state", only_state)
