"""V1 to V5 in Spark: the same findings as in `snapkafka.checks`, on logs of any size.

Each rule is a transform from stamps (`header_columns.STAMPS_SCHEMA`) to findings (`FINDINGS_SCHEMA`). A sound log has
none, so the pre-filter (`prefilter`) runs first, in one query; only rules for which it counts suspects are run.
Findings are counted, and the first 20 of each kind fetched; nothing else comes to the driver. V3 has a module of its
own, `v3_state`.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from snapkafka.assembly.manifest import Checked
from snapkafka.assembly.spark.frames import Lookups
from snapkafka.assembly.spark.reading.meter import step
from snapkafka.assembly.spark.tables.tables import has_started, still_to_start
from snapkafka.checks import (
    KINDS,
    WITNESSES_MAX,
    Finding,
    ReadRange,
    bounds_findings,
    outcome,
)
from snapkafka.protocol.records import NOBODY

from . import sequences, v3_state, v4_unstamped, v5_ran_twice
from . import v1_lost as lost_sends
from .prefilter import Suspicion, effect_is_missing, first_look
from .sequences import TP
from .v3_state import StillThere

FINDINGS_SCHEMA: Final = (
    "kind string, topic string, partition int, offset bigint, process bigint, seq bigint, app string, a bigint, "
    "b bigint"
)
#: The checks that need nothing but the log.
LOG_CHECKS: Final = ("V1", "V2", "V3", "V4", "V5")


def run(
    stamps: DataFrame,
    lookups: Lookups,
    read: Collection[ReadRange],
    still_there: StillThere,
    again: v4_unstamped.Stamps | None = None,
) -> Checked:
    """Run V1 to V5. If no record shows its cause, V5 is not run.

    Args:
        stamps: those of the reading ranges; read several times, so persisted by the caller.
        lookups: the captured snapshot, with the bounds of the log.
        read: the reading ranges.
        still_there: checks the log once more, for V3.
        again: reads the stamps of more ranges, for V4; None: V4 reads `stamps` only.
    """
    first, counts = bounds_findings(lookups.view)
    with step(lookups.spark, "V1 to V5: a first look at every record"):
        suspicion, held, unreported, external, suspects, seen, outside = first_look(stamps, lookups)
    with step(lookups.spark, "V3: key by key"):
        of_state, how_many = v3_state.findings(stamps, lookups, held, read, still_there)
    lost = lost_sends.findings(stamps, lookups)
    with step(lookups.spark, "V4: headers that were removed"):
        bare = v4_unstamped.findings(stamps, lookups, read, suspects=suspects, again=again)
    with step(lookups.spark, "V5: events that ran twice"):
        twice = (
            []
            if unreported
            else v5_ran_twice.findings(stamps, lookups) + v5_ran_twice.unclear_causes(lookups)
        )
    first = first + of_state + lost + bare + twice
    counts = counts + how_many + Counter(found.kind for found in (*lost, *bare, *twice))
    if any(suspicion):
        with step(lookups.spark, "V1, V2, V4, V5: what is wrong, and where"):
            rows = _first_and_counts(findings(stamps, lookups, suspicion)).collect()
        counts = counts + Counter({row.kind: row.found for row in rows})
        first += [Finding(*(row[name] for name in Finding._fields)) for row in rows]
    examined = [check for check in LOG_CHECKS if not (unreported and check == "V5")]
    outcomes = [outcome(check, first, counts, seen.get(check)) for check in examined]
    return Checked(outcomes, held, external, outside)


def findings(stamps: DataFrame, lookups: Lookups, suspicion: Suspicion) -> DataFrame:
    """Return everything that V1, V2, V4 and V5 find in the records: `FINDINGS_SCHEMA`.

    Args:
        suspicion: the suspects of each rule; at least one.
    """
    parts: list[DataFrame] = []
    if suspicion.after_end:
        parts.append(white_after_end(stamps, lookups))
    if suspicion.left_late:
        parts.append(late_of_left(stamps, lookups))
    if suspicion.out_of_turn:
        suspects = sequences.suspects(stamps, lookups)
        late = sequences.late(stamps, suspects, lookups)
        gaps = sequences.gaps(suspects, late)
        judged = sequences.with_only_state(gaps, stamps, lookups)
        parts += [out_of_order(late), missing_seqs(judged), missing_in_flight(gaps, lookups)]
    if suspicion.red:
        parts.append(red_received(stamps, lookups))
    if suspicion.differs:
        parts.append(recorded_otherwise(stamps, lookups))
    if suspicion.last_missing:
        parts.append(last_missing(stamps, lookups))
    if suspicion.later_cause:
        parts.append(caused_by_later(stamps, lookups))
    if suspicion.earlier_cause:
        parts.append(caused_by_earlier(stamps, lookups))
    return functools.reduce(DataFrame.unionByName, parts)


def _first_and_counts(found: DataFrame) -> DataFrame:
    """Return the first findings of each kind (by `Finding.order`), each with the number of its kind (`found`)."""
    of_kind = Window.partitionBy("kind")
    in_order = of_kind.orderBy("topic", "partition", "offset", "process", "app")
    return (
        found.withColumn("found", fn.count("*").over(of_kind))
        .withColumn("nth", fn.row_number().over(in_order))
        .where(fn.col("nth") <= WITNESSES_MAX)
        .drop("nth")
    )


def _finding(
    kind: str | Column, *, app: Column | None = None, a: Column | None = None, b: Column | None = None
) -> list[Column]:
    """Return the columns of `FINDINGS_SCHEMA`, from a row with topic, partition, offset, process and seq."""
    assert not isinstance(kind, str) or kind in KINDS, kind
    return [
        (fn.lit(kind) if isinstance(kind, str) else kind).alias("kind"),
        fn.col("topic"),
        fn.col("partition"),
        fn.col("offset"),
        fn.col("process"),
        fn.col("seq"),
        (fn.lit("") if app is None else app).alias("app"),
        (fn.lit(-1) if a is None else a).cast("bigint").alias("a"),
        (fn.lit(-1) if b is None else b).cast("bigint").alias("b"),
    ]


# --- The checks -----------------------------------------------------------------------------------------------------


def white_after_end(stamps: DataFrame, lookups: Lookups) -> DataFrame:
    """Find white records of living processes at or past their white end, copies, and unacknowledged records (V1)."""
    white, end = sequences.white_stamped(lookups.view.epoch), fn.col("white_end")
    unknown, past_end = sequences.is_unacknowledged(), fn.col("offset") >= end
    kind = (
        fn.when(sequences.is_copy(white), fn.lit("copy"))
        .when(~fn.col("left") & ~past_end & unknown, fn.lit("landed"))
        .when(white & past_end & unknown, fn.lit("white-unsettled"))
        .when(white & past_end, fn.lit("white-after-end"))
    )
    detail = fn.when(fn.col("kind").isin("white-unsettled", "white-after-end"), end).otherwise(fn.lit(-1))
    return (
        sequences.of_known(stamps, lookups)
        .withColumn("kind", kind)
        .where(fn.col("kind").isNotNull())
        .select(*_finding(fn.col("kind"), a=detail))
    )


def late_of_left(stamps: DataFrame, lookups: Lookups) -> DataFrame:
    """Find records of processes that were declared dead, past the observed ends; earlier ones are copies (V1)."""
    of_left = (
        sequences.of_known(stamps, lookups).join(fn.broadcast(lookups.places), list(TP)).where(fn.col("left"))
    )
    offset, end = fn.col("offset"), fn.col("left_end")
    before = of_left.where(offset < end)
    first = before.groupBy(*TP, "process").agg(fn.min_by("seq", "offset").alias("lowest"))
    known = before.select(*TP, "process", "seq").distinct().withColumn("again", fn.lit(True))
    copy = fn.coalesce("again", fn.lit(False)) | (fn.col("seq") < fn.coalesce("lowest", fn.lit(0)))
    return (
        of_left.where(~fn.col("marker") & (offset >= end))
        .join(first, [*TP, "process"], "left")
        .join(known, [*TP, "process", "seq"], "left")
        .withColumn("copy", copy)
        .select(
            *_finding(
                fn.when(fn.col("copy"), fn.lit("copy")).otherwise(fn.lit("left-late")),
                a=fn.when(fn.col("copy"), fn.lit(-1)).otherwise(end),
            )
        )
    )


def out_of_order(late: DataFrame) -> DataFrame:
    """Find records that come after a higher seq of their process (V1); a duplicate is only noted, and so is a copy of
    a record below all that are read. The order of unacknowledged records is unknown."""
    kind = (
        fn.when(fn.col("again"), fn.lit("duplicate"))
        .when(fn.col("seq") < fn.col("lowest"), fn.lit("copy"))
        .when(fn.col("left"), fn.lit("disorder-left"))
        .otherwise(fn.lit("disorder"))
    )
    return late.where(~sequences.is_unacknowledged()).select(*_finding(kind, a=fn.col("highest")))


def missing_seqs(gaps: DataFrame) -> DataFrame:
    """Find missing seqs (V1); in a changelog V3 judges those that compaction explains."""
    kind = (
        fn.when(fn.col("reported") & fn.col("explained"), fn.lit("gap-failed"))
        .when(fn.col("explained"), fn.lit("gap-explained"))
        .when(fn.col("left"), fn.lit("gap-left"))
        .otherwise(fn.lit("gap"))
    )
    judged = gaps.where(fn.col("reported") | ~(fn.col("explained") & fn.col("only_state")))
    return judged.select(*_finding(kind, a=fn.col("highest") + 1, b=fn.col("seq") - 1))


def red_received(stamps: DataFrame, lookups: Lookups) -> DataFrame:
    """Find records that a receiver had started, red by their header, their sender's birth, or R8 (V2)."""
    epoch = lookups.view.epoch
    offset, known = fn.col("offset"), fn.col("left").isNotNull()
    late = fn.when(fn.col("left"), fn.col("log_end")).when(known, fn.coalesce("white_end", fn.lit(0)))
    why = (
        fn.when(fn.col("process") >= epoch, fn.lit("red-birth"))
        .when(~fn.coalesce("left", fn.lit(False)) & (fn.col("epoch") >= epoch), fn.lit("red-header"))
        .when(known & fn.col("left") & (offset >= late), fn.lit("red-late"))
        .when(known & (offset >= late) & sequences.is_unacknowledged(), fn.lit("received-unsettled"))
        .when(known & (offset >= late) & ~sequences.is_copy(fn.lit(True)), fn.lit("red-late"))
    )
    number = fn.when(fn.col("kind").isin("red-late", "received-unsettled"), late).otherwise(fn.col("epoch"))
    return (
        stamps.where(fn.col("process").isNotNull() & ~fn.col("marker"))
        .join(fn.broadcast(lookups.inputs), list(TP))
        .where(has_started(offset))
        .join(fn.broadcast(lookups.processes), "process", "left")
        .join(fn.broadcast(lookups.senders), ["process", *TP], "left")
        .withColumn("kind", why)
        .where(fn.col("kind").isNotNull())
        .select(*_finding(fn.col("kind"), app=fn.col("app"), a=number, b=fn.lit(epoch)))
    )


def last_missing(stamps: DataFrame, lookups: Lookups) -> DataFrame:
    """Find last white records, still in flight, that are not where their sender counted them, or lack its header
    (V4)."""
    last = lookups.last
    there = stamps.join(fn.broadcast(last.select(*TP, "offset").distinct()), [*TP, "offset"]).select(
        *TP,
        "offset",
        fn.when(~fn.col("marker"), fn.col("process")).alias("by"),
        fn.col("seq").alias("its_seq"),
        fn.col("process").isNull().alias("external"),
    )
    as_counted = (fn.col("by") == fn.col("process")) & (fn.col("its_seq") == fn.col("seq"))
    kind = fn.when(fn.col("old_topic"), fn.lit("last-recreated")).when(
        fn.coalesce("external", fn.lit(False)), fn.lit("unstamped")
    )
    return (
        last.join(there, [*TP, "offset"], "left")
        .where(~fn.coalesce(as_counted, fn.lit(False)))
        .select(*_finding(kind.otherwise(fn.lit("last-missing")), app=fn.col("app")))
    )


def missing_in_flight(gaps: DataFrame, lookups: Lookups) -> DataFrame:
    """Find missing seqs of living processes among the records in flight (V4)."""
    inputs = lookups.inputs.select("app", *TP, "position")
    where = fn.when(
        fn.col("explained"), fn.greatest(fn.col("high_offset") + 1, fn.col("position"))
    ).otherwise(fn.col("at"))
    kind = fn.when(fn.col("explained"), fn.lit("hole")).otherwise(fn.lit("incomplete"))
    return (
        gaps.where(~fn.col("left"))
        .join(fn.broadcast(inputs), list(TP))
        .where(fn.col("offset") > fn.col("position"))
        .withColumnRenamed("offset", "at")
        .withColumn("offset", where)
        .select(*_finding(kind, app=fn.col("app"), a=fn.col("highest") + 1, b=fn.col("seq") - 1))
    )


def recorded_otherwise(stamps: DataFrame, lookups: Lookups) -> DataFrame:
    """Find white records in only one of two ranges: the one that a receiver recorded and the one that follows from the
    offsets (V4)."""
    offset = fn.col("offset")
    in_recorded = (offset >= fn.col("start")) & (offset < fn.col("end"))
    in_derived = (offset >= fn.col("position")) & (offset < fn.col("white_end"))
    white = sequences.white_stamped(lookups.view.epoch)
    return (
        stamps.join(fn.broadcast(lookups.recorded), ["process", *TP])
        .join(fn.broadcast(lookups.senders.drop("white_end")), ["process", *TP], "left")
        .withColumn("left", fn.lit(False))
        .where(
            white & (in_recorded != in_derived) & ~sequences.is_copy(white) & ~sequences.is_unacknowledged()
        )
        .select(*_finding("recorded-differs", app=fn.col("app"), a=fn.col("start"), b=fn.col("end")))
    )


def caused_by_later(stamps: DataFrame, lookups: Lookups) -> DataFrame:
    """Find white effects of inputs at or past the cut (V5), without those of torn events: the snapshot lists them."""
    cause, process = fn.col("cause_offset"), fn.col("process")
    before = (process != fn.col("reader")) & (
        fn.array_contains("earlier", process) | fn.array_contains("earlier", fn.lit(NOBODY))
    )
    replayed = before | ((process == fn.col("reader")) & (cause < fn.col("until")))
    kind = (
        fn.when(replayed & fn.col("cause_red"), fn.lit("effect-of-red"))
        .when(replayed, fn.lit("replayed"))
        .otherwise(fn.lit("effect-of-later"))
    )
    red = _red(stamps, lookups).select(*(fn.col(name).alias(f"cause_{name}") for name in (*TP, "offset")))
    return (
        _with_causes(stamps, lookups)
        .join(
            red.withColumn("cause_red", fn.lit(True)),
            ["cause_topic", "cause_partition", "cause_offset"],
            "left",
        )
        .withColumn("cause_red", fn.coalesce("cause_red", fn.lit(False)))
        .where(
            sequences.counts_white(lookups.view.epoch)
            & still_to_start(cause, of="cause_")
            & (replayed | ~has_started(cause, of="cause_"))
        )
        .select(
            *_finding(
                kind,
                app=fn.col("sender_app"),
                a=cause,
                b=fn.col("cause_position"),
            )
        )
    )


def _red(stamps: DataFrame, lookups: Lookups) -> DataFrame:
    """Return records that are red by their header, or by their sender's birth."""
    epoch = lookups.view.epoch
    by_header = ~fn.coalesce("left", fn.lit(False)) & (fn.col("epoch") >= epoch)
    return (
        stamps.where(fn.col("process").isNotNull() & ~fn.col("marker"))
        .join(fn.broadcast(lookups.processes), "process", "left")
        .where((fn.col("process") >= epoch) | by_header)
        .dropDuplicates([*TP, "offset"])
    )


def caused_by_earlier(stamps: DataFrame, lookups: Lookups) -> DataFrame:
    """Find red effects of events that their sender had started by its cut (V5), without those of torn ones."""
    red = ~fn.col("left") & (fn.col("epoch") >= lookups.view.epoch) & ~fn.col("marker")
    found = _finding(
        "effect-missing", app=fn.col("sender_app"), a=fn.col("cause_offset"), b=fn.col("cause_position")
    )
    return _with_causes(stamps, lookups).where(red & effect_is_missing()).select(*found)


def _with_causes(stamps: DataFrame, lookups: Lookups) -> DataFrame:
    """Return effects of inputs of their sender's app, with the facts about both; without those of torn events, and of
    processes that are older than a restore."""
    caused = fn.col("cause_offset").isNotNull()
    if over := lookups.view.before_restore:
        caused &= ~fn.col("process").isin(*over)
    return (
        lookups.without_strays(sequences.of_known(stamps.where(caused), lookups))
        .join(fn.broadcast(lookups.places), list(TP))
        .join(fn.broadcast(lookups.causes), ["sender_app", "cause_check", "cause_partition"])
        .join(
            fn.broadcast(lookups.torn),
            ["process", "cause_check", "cause_partition", "cause_offset"],
            "left_anti",
        )
    )
