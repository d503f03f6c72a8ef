"""Seqs in the order of the log: the base of V1 and V4. See `snapkafka.checks.sequences` for the same on lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.frames import Lookups
from snapkafka.checks import ReadRange

TP: Final = ("topic", "partition")
EARLIER: Final = (Window.unboundedPreceding, -1)
#: Ranges of seqs, as in `frames.SENDERS`.
RANGES: Final = "array<struct<first:bigint,last:bigint>>"
#: More offsets of a partition than this no single task sorts.
STRETCH: Final = 2_000_000


def stretch_of(ranges: Iterable[ReadRange]) -> int:
    """Return the stretch for `with_highest`: 0 unless a partition is too large to be sorted by one task."""
    return STRETCH if any(item.end - item.start > STRETCH for item in ranges) else 0


def with_highest(stamps: DataFrame, stretch: int) -> DataFrame:
    """Add to each record the `highest` seq before it (same process and partition), its offset `high_offset`, and
    `holes`: how many offsets between the two hold no record. Null for the first record of a process, and for external
    records.

    Args:
        stretch: a task sorts at most so many offsets of a partition; the highest seqs of earlier stretches are carried
            into each. This shuffles records twice. 0: one task for a partition, and one shuffle.
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
    """Return for each stretch and process the highest seq of the stretches before it (`carried`), and the number of
    the partition's records in those (`first_nth`). It has one row per stretch and process that writes there."""
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
    """Return the place of the highest seq. Of two records with it the first one counts: hence the negative offset."""
    return fn.struct("seq", (-fn.col("offset")).alias("back"), "nth")


def of_known(records: DataFrame, lookups: Lookups) -> DataFrame:
    """Return records of processes that the snapshot knows, with `left`, `sender_app`, and the sender's report: the
    `white_end` (0: none), `last_seq`, the seqs of `failed` sends, the `earlier` ones."""
    return (
        records.where(fn.col("process").isNotNull())
        .transform(lookups.with_senders)
        .where(fn.col("left").isNotNull())
        .join(fn.broadcast(lookups.senders), ["process", *TP], "left")
        .withColumn("white_end", fn.coalesce("white_end", fn.lit(0)))
        .withColumn("failed", fn.coalesce("failed", fn.array().cast(RANGES)))
    )


def is_unacknowledged() -> Column:
    """Return whether a record, joined with its sender's report, is unacknowledged in that
    (`CutView.is_unacknowledged`)."""
    seq = fn.col("seq")
    found = fn.exists("failed", lambda it: (it["first"] <= seq) & (it["last"] >= seq))
    return fn.coalesce(found, fn.lit(False))


def is_copy(white: Column) -> Column:
    """Return whether a record, joined with its sender's report, was sent before (`CutView.is_copy`).

    Args:
        white: whether it is white-stamped, of a living process.
    """
    offset, seq = fn.col("offset"), fn.col("seq")
    past_end = (offset >= fn.col("white_end")) & (seq <= fn.col("last_seq"))
    before = (offset >= fn.col("earlier_end")) & (seq <= fn.col("earlier_seq"))
    return white & ~is_unacknowledged() & fn.coalesce(past_end | before, fn.lit(False))


def has_left() -> Column:
    """Return whether its sender (`left`; null: the snapshot does not know it) left before the trigger."""
    return fn.coalesce("left", fn.lit(False))


def is_living() -> Column:
    """Return whether its sender closed for the snapshot."""
    return fn.col("left").isNotNull() & ~has_left()


def white_stamped(epoch: int) -> Column:
    """Return whether it was sent in white by a living process, as far as its header shows."""
    return is_living() & (fn.col("epoch") < epoch) & (fn.col("process") < epoch) & ~fn.col("marker")


def red_stamped(epoch: int) -> Column:
    """Return whether it was sent in red by a living process, as far as its header shows."""
    return is_living() & (fn.col("epoch") >= epoch) & ~fn.col("marker")


def within(start: str, end: str) -> Column:
    """Return whether it lies in the range `[start, end)` of two columns."""
    return (fn.col("offset") >= fn.col(start)) & (fn.col("offset") < fn.col(end))


def counts_white(epoch: int) -> Column:
    """Return whether a record, joined with its sender's report and the ends of its partition, counts as white: see
    `CutView.counts_white`."""
    by_left = ~fn.col("marker") & (fn.col("offset") < fn.col("left_end"))
    by_living = white_stamped(epoch) & (fn.col("offset") < fn.col("white_end"))
    return fn.when(has_left(), by_left).otherwise(by_living)


def without_copies(stamps: DataFrame, lookups: Lookups) -> DataFrame:
    """Return the stamps with copies as external records: they say nothing about their sender's order."""
    copied = [row for row in lookups.sender_rows if row["earlier_seq"] >= 0]
    if not copied:
        return stamps
    ends = fn.broadcast(lookups.senders.where(fn.col("earlier_seq") >= 0))
    found = stamps.join(ends, ["process", *TP], "left").withColumn("left", fn.lit(False))  # they live
    copy = fn.coalesce(is_copy(white_stamped(lookups.view.epoch)), fn.lit(False))
    return (
        found.withColumn("copy", copy)
        .withColumn("process", fn.when(~fn.col("copy"), fn.col("process")))
        .withColumn("seq", fn.when(fn.col("copy"), fn.lit(-1)).otherwise(fn.col("seq")))
        .select(*stamps.columns)
    )


def _overlap(item: Column, above: Column, below: Column) -> Column:
    """Count the seqs of a range that are between two others."""
    return fn.greatest(
        fn.lit(0), fn.least(item["last"], below - 1) - fn.greatest(item["first"], above + 1) + 1
    )


def suspects(stamps: DataFrame, lookups: Lookups) -> DataFrame:
    """Return records whose seq is not one more than the highest before it, below the end up to which seqs have no gap.

    The columns are those of the stamps, and `highest`, `high_offset`, `holes`, `left`, `failed` (ranges of
    unacknowledged seqs), `failures` (how many of those are between the two), `only_state_below` (see
    `Lookups.places`).
    """
    judged_end = fn.when(fn.col("left"), fn.col("closed_end")).otherwise(fn.col("white_end"))
    seq, highest = fn.col("seq"), fn.col("highest")
    failures = fn.aggregate(
        "failed", fn.lit(0).cast("bigint"), lambda total, it: total + _overlap(it, highest, seq)
    )
    return (
        of_known(with_highest(without_copies(stamps, lookups), lookups.stretch), lookups)
        .join(fn.broadcast(lookups.places), list(TP))
        .where((fn.col("offset") < judged_end) & (seq != highest + 1))
        .withColumn("failures", failures)
        # What compaction took from a changelog is for V3 to judge.
        .where(
            (fn.col("offset") > fn.col("only_state_below"))
            | (seq <= highest)
            | (fn.col("holes") < seq - highest - 1)
            | (fn.col("failures") > 0)
        )
        .select(
            *stamps.columns,
            "highest",
            "high_offset",
            "holes",
            "left",
            "failed",
            "failures",
            "only_state_below",
        )
    )


def late(stamps: DataFrame, suspect: DataFrame, lookups: Lookups) -> DataFrame:
    """Return suspects that come after a higher seq, with `again` (the same seq has come before), and `below`: its seq
    is lower than that of the first record of their process that is read."""
    known = without_copies(stamps, lookups)
    earlier = known.select(*TP, "process", "seq", fn.col("offset").alias("earlier"))
    came_late = suspect.where(fn.col("seq") <= fn.col("highest"))
    first = known.groupBy(*TP, "process").agg(fn.min_by("seq", "offset").alias("lowest"))
    return (
        came_late.join(earlier, [*TP, "process", "seq"], "left")
        .groupBy(*came_late.columns)
        .agg(fn.coalesce(fn.bool_or(fn.col("earlier") < fn.col("offset")), fn.lit(False)).alias("again"))
        .join(first, [*TP, "process"])
        .withColumn("below", fn.col("seq") < fn.col("lowest"))
    )


def gaps(suspect: DataFrame, came_late: DataFrame) -> DataFrame:
    """Return suspects before which seqs are missing (not merely late): `reported`, if their sender reports some as
    unacknowledged, and `explained`, if as many offsets are missing as there are others."""
    seq, highest, late_seq = fn.col("seq"), fn.col("highest"), fn.col("late_seq")
    out_of_order = came_late.where(~fn.col("again")).select(*TP, "process", seq.alias("late_seq"))
    jumps = suspect.where(seq > highest + 1)
    came = fn.when((late_seq > highest) & (late_seq < seq), 1)
    failed = fn.exists("failed", lambda it: (it["first"] <= late_seq) & (it["last"] >= late_seq))
    came_failed = fn.when((late_seq > highest) & (late_seq < seq) & failed, 1)
    return (
        jumps.join(out_of_order, [*TP, "process"], "left")
        .groupBy(*jumps.columns)
        .agg(
            (seq - highest - 1 - fn.count(came)).alias("missing"),
            (fn.col("failures") - fn.count(came_failed)).alias("unacknowledged"),
        )
        .where(fn.col("missing") > 0)
        .withColumn("reported", fn.col("unacknowledged") > 0)
        .withColumn("explained", fn.col("holes") >= fn.col("missing") - fn.col("unacknowledged"))
    )


def with_only_state(found: DataFrame, stamps: DataFrame, lookups: Lookups) -> DataFrame:
    """Add to `gaps` whether an explained one misses only state (`only_state`): no offset is missing from
    `only_state_below` to the record after it. Few gaps reach across, one per process and partition."""
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
