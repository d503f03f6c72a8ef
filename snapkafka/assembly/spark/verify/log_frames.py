"""The records of a snapshot's log in Spark, and the frames that rules read; see `snapkafka.checks.sequences.CutLog`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.frames import Lookups
from snapkafka.assembly.spark.tables.tables import has_started
from snapkafka.checks import CutView, ReadRange
from snapkafka.checks.v3_state import StillThere

from . import sequences
from .sequences import TP

#: Reads the stamps of some more ranges, one per partition.
Stamps = Callable[[Collection[ReadRange]], DataFrame]


class LogFrames:
    """The input of the rules.

    Args:
        stamps: those of the reading ranges (`header_columns.STAMPS_SCHEMA`); read several times, so persisted by the
            caller.
        lookups: the captured snapshot, with the bounds of the log.
        read: the reading ranges.
        still_there: checks the log once more, for V3.
        again: reads the stamps of more ranges, for V4; None: V4 reads `stamps` only.
    """

    def __init__(
        self,
        stamps: DataFrame,
        lookups: Lookups,
        read: Collection[ReadRange],
        still_there: StillThere,
        again: Stamps | None = None,
    ) -> None:
        self.stamps, self.lookups = stamps, lookups
        self.read, self.still_there, self.again = read, still_there, again

    @property
    def view(self) -> CutView:
        return self.lookups.view

    def known(self) -> DataFrame:
        """Return the records of the snapshot's processes, with their sender's report."""
        return sequences.of_known(self.stamps, self.lookups)

    def after_left(self) -> DataFrame:
        """Return the records of processes that left past the observed ends (`left_end`), with `copy`: one with that
        seq is known from before, or it is one of below what is read."""
        of_left = self.known().join(fn.broadcast(self.lookups.places), list(TP)).where(fn.col("left"))
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
        )

    @cached_property
    def _out_of_turn(self) -> DataFrame:
        return sequences.suspects(self.stamps, self.lookups)

    @cached_property
    def _late(self) -> DataFrame:
        return sequences.late(self.stamps, self._out_of_turn, self.lookups)

    @cached_property
    def _gaps(self) -> DataFrame:
        return sequences.gaps(self._out_of_turn, self._late)

    def late(self) -> DataFrame:
        """Return the records that came after a higher seq. The order of unacknowledged ones is unknown."""
        return self._late.where(~sequences.is_unacknowledged())

    def gaps(self) -> DataFrame:
        """Return the first records after missing seqs."""
        return sequences.with_only_state(self._gaps, self.stamps, self.lookups)

    def gaps_in_flight(self) -> DataFrame:
        """Return the gaps of living processes in what was in flight to an input, each with that input; `offset` is
        that from which on it is missing."""
        inputs = self.lookups.inputs.select("app", *TP, "position")
        since = fn.greatest(fn.col("high_offset") + 1, fn.col("position"))
        return (
            self._gaps.where(~fn.col("left"))
            .join(fn.broadcast(inputs), list(TP))
            .where(fn.col("offset") > fn.col("position"))
            .withColumn("offset", fn.when(fn.col("explained"), since).otherwise(fn.col("offset")))
        )

    def received(self) -> DataFrame:
        """Return the records with a header that some agent of an input had started, each with that input, its
        sender (`left` is null: the snapshot does not know it) and its sender's report."""
        return (
            self.stamps.where(fn.col("process").isNotNull() & ~fn.col("marker"))
            .join(fn.broadcast(self.lookups.inputs), list(TP))
            .where(has_started(fn.col("offset")))
            .transform(self.lookups.with_senders)
            .join(fn.broadcast(self.lookups.senders), ["process", *TP], "left")
            .withColumn("white_end", fn.coalesce("white_end", fn.lit(0)))
        )

    def recorded(self) -> DataFrame:
        """Return the records of senders whose channels receivers recorded, with both ranges."""
        lookups = self.lookups
        return (
            self.stamps.join(fn.broadcast(lookups.recorded), ["process", *TP])
            .join(fn.broadcast(lookups.senders.drop("white_end")), ["process", *TP], "left")
            .withColumn("left", fn.lit(False))
        )

    def last(self) -> DataFrame:
        """Return the last white records in flight that are not where their sender counted them; `external`: another
        one is, without a header."""
        last = self.lookups.last
        there = self.stamps.join(fn.broadcast(last.select(*TP, "offset").distinct()), [*TP, "offset"]).select(
            *TP,
            "offset",
            fn.when(~fn.col("marker"), fn.col("process")).alias("by"),
            fn.col("seq").alias("its_seq"),
            fn.col("process").isNull().alias("external"),
        )
        as_counted = (fn.col("by") == fn.col("process")) & (fn.col("its_seq") == fn.col("seq"))
        return (
            last.join(there, [*TP, "offset"], "left")
            .where(~fn.coalesce(as_counted, fn.lit(False)))
            .withColumn("external", fn.coalesce("external", fn.lit(False)))
        )

    def caused(self) -> DataFrame:
        """Return the records that name their cause, of the snapshot's processes, without those of processes that are
        older than a restore, and causes in topics that were recreated since."""
        caused = fn.col("cause_offset").isNotNull()
        if over := self.view.before_restore:
            caused &= ~fn.col("process").isin(*over)
        effects = sequences.of_known(self.stamps.where(caused), self.lookups)
        return self.lookups.without_strays(effects)

    def effects(self) -> DataFrame:
        """Return the effects of inputs of their sender's app, with the facts about both; without those of torn
        events: the snapshot lists them."""
        lookups = self.lookups
        return (
            self.caused()
            .join(fn.broadcast(lookups.places), list(TP))
            .join(fn.broadcast(lookups.causes), ["sender_app", "cause_check", "cause_partition"])
            .join(
                fn.broadcast(lookups.torn),
                ["process", "cause_check", "cause_partition", "cause_offset"],
                "left_anti",
            )
        )
