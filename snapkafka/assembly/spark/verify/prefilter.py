"""The pre-filter: one query that counts what V1, V2, V4 and V5 may find, and gathers the facts for V3.

Nearly every snapshot is sound, and most of the time of a small one is Spark's fixed cost. So one query reads all
records first and counts, rule by rule, what *might* be a finding: only rules that have any are then run. It may count
too much (then they find nothing), but never too little: a test compares it with the checks on random damage.

Checking seqs in the order of the log takes a sort, which is too expensive for a large changelog. In a changelog one
process writes at a time, so its seqs rise with the offsets: then their difference is constant, and all are in order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.frames import Lookups, cause_of, local_frame
from snapkafka.assembly.spark.tables.tables import is_white, still_to_start
from snapkafka.checks import (
    CutView,
    Examined,
    ExternalTopic,
    OutsideSender,
    outside_senders_of,
    written_topics,
)
from snapkafka.checks.coverage import channels, total
from snapkafka.checks.log import EXTERNAL
from snapkafka.checks.v3_state import StateFacts
from snapkafka.protocol.records import TopicPartition

from . import v4_unstamped
from .sequences import TP, is_unacknowledged, with_highest

#: Per sender and partition, as one number (`_by`), what `frames.SENDERS` has, and: its last white record if that must
#: be there, and the offsets that lie in only one of the two ranges which V4 compares: `[low_from, low_to)` and
#: `[high_from, high_to)`.
BY_SENDER: Final = (
    "by bigint, white_end bigint, sent_end bigint, failed array<struct<first: bigint, last: bigint>>, "
    "earlier_seq bigint, earlier_end bigint, due_offset bigint, due_seq bigint, low_from bigint, low_to bigint, "
    "high_from bigint, high_to bigint"
)


class Suspicion(NamedTuple):
    """The number of records that each rule has to check; 0: it would find nothing."""

    after_end: int = 0
    left_late: int = 0
    out_of_turn: int = 0
    red: int = 0
    differs: int = 0
    last_missing: int = 0
    later_cause: int = 0
    earlier_cause: int = 0


#: The rules whose records are counted as they are.
COUNTED: Final = tuple(rule for rule in Suspicion._fields if rule != "last_missing")


#: Whose column of a run counts the records that a check looks at (`snapkafka.checks.coverage`).
EXAMINED: Final = {"V1": "of_ours", "V2": "received", "V3": "held", "V4": "in_flight", "V5": "effects"}


class Look(NamedTuple):
    """The result of the pre-filter: suspects of each rule, and the facts about changelogs, for V3. `unreported`: there
    are records of processes that the snapshot knows, and none of them names its cause (`cause=False`): V5 has nothing
    to check. `external`: topics of inputs with records without a header of ours, below the ends that the snapshot
    names: later ones say nothing about it, and depend on when the log is read. `examined`: the records read, by
    check. `unstamped`: the number of places at which an external record may be where a sender had a last white one.
    `outside`: outsiders whose records were received since the trigger."""

    suspicion: Suspicion
    held: dict[TopicPartition, StateFacts]
    unreported: bool = False
    external: tuple[ExternalTopic, ...] = ()
    unstamped: int = 0
    examined: Mapping[str, Examined] = MappingProxyType({})
    outside: tuple[OutsideSender, ...] = ()


def first_look(stamps: DataFrame, lookups: Lookups) -> Look:
    """Count the suspects of V1 to V5."""
    runs = _runs(_in_turn(stamps, lookups), lookups)
    by_place = defaultdict(list)
    for run in runs:
        by_place[lookups.partitions[run.place]].append(run)
    counts = {rule: sum(run[rule] for run in runs) for rule in COUNTED}
    if restless := [tp for tp, of_place in by_place.items() if _is_restless(lookups.view, tp, of_place)]:
        again = with_highest(_placed(stamps, lookups, restless), lookups.stretch)
        counts["out_of_turn"] += sum(run.out_of_turn for run in _runs(again, lookups))
    due = {(tp, end.process) for tp, end, _ in lookups.view.last_in_flight()}
    suspicion = Suspicion(**counts, last_missing=len(due) - sum(run.due for run in runs))
    unreported = any(run.of_ours for run in runs) and not any(run.caused for run in runs)
    held = {tp: _facts(of_place) for tp, of_place in by_place.items()}
    examined = total(
        (
            {check: sum(run[column] for run in of_place) for check, column in EXAMINED.items()}
            for of_place in by_place.values()
        ),
        channels(lookups.view),
    )
    external = {tp: run for tp, of_place in by_place.items() for run in of_place if run.process is None}
    return Look(
        suspicion,
        held,
        unreported,
        _external(lookups, runs),
        v4_unstamped.suspected(lookups, external),
        examined,
        _outside(lookups, runs),
    )


def _outside(lookups: Lookups, runs: list[Row]) -> tuple[OutsideSender, ...]:
    """Return the outsiders as `checks.outside_senders` does."""
    found = {(run.process, lookups.partitions[run.place].topic) for run in runs if run.outside}
    return tuple(outside_senders_of(lookups.view, found))


def _external(lookups: Lookups, runs: list[Row]) -> tuple[ExternalTopic, ...]:
    """Return the topics as `checks.external_topics` does."""
    topics = [lookups.partitions[run.place].topic for run in runs]
    written = written_topics(lookups.view)
    written |= {topic for topic, run in zip(topics, runs, strict=True) if run.of_ours}
    external = {topic for topic, run in zip(topics, runs, strict=True) if run.external}
    return tuple(ExternalTopic(topic, topic in written) for topic in sorted(external))


def _in_turn(stamps: DataFrame, lookups: Lookups) -> DataFrame:
    """Return records with their places, in inputs sorted by `with_highest`; in the others its columns are null."""
    state = [tp for tp in lookups.partitions if lookups.only_state(tp)]
    inputs = [tp for tp in lookups.partitions if not lookups.only_state(tp)]
    unsorted = {name: fn.lit(None).cast("bigint") for name in ("highest", "high_offset", "holes")}
    of_state = _placed(stamps, lookups, state).withColumns(unsorted)
    if not inputs:
        return of_state
    in_order = with_highest(_placed(stamps, lookups, inputs), lookups.stretch)
    return in_order.unionByName(of_state) if state else in_order


def _placed(stamps: DataFrame, lookups: Lookups, tps: Collection[TopicPartition]) -> DataFrame:
    """Return the records of these partitions, with the facts about each (`Lookups.places`)."""
    wanted = set(tps)
    numbers = [number for number, tp in enumerate(lookups.partitions) if tp in wanted]
    places = lookups.places.where(fn.col("place").isin(numbers))
    # The topics are asked for, too: what is kept knows which of them a part of it has.
    of_topics = stamps.where(fn.col("topic").isin(sorted({tp.topic for tp in wanted})))
    return of_topics.join(fn.broadcast(places), list(TP))


def _is_restless(view: CutView, tp: TopicPartition, runs: list[Row]) -> bool:
    """Return whether seqs of a changelog can be out of order, as far as the runs of its processes show.

    If no two processes alternate, and the difference of seq and offset is constant, seqs are in order, and as many are
    missing as offsets are: compaction removed them.
    """
    if tp in view.inputs:
        return False  # they have been sorted
    runs = sorted(runs, key=lambda run: run.first)
    by_turns = any(one.last > other.first for one, other in pairwise(runs))
    ours = [run for run in runs if run.process is not None]
    return by_turns or any(
        run.nearest != run.farthest or view.unacknowledged(run.process, tp) for run in ours
    )


def _facts(runs: list[Row]) -> StateFacts:
    return StateFacts(
        held=sum(run.held for run in runs),
        last_white=max((run.last_white for run in runs if run.last_white is not None), default=-1),
        first_later=min((run.first_later for run in runs if run.first_later is not None), default=None),
        at_seam=next(
            (
                (EXTERNAL, -1) if run.process is None else (run.process, run.seq_at_seam)
                for run in runs
                if run.at_seam
            ),
            None,
        ),
    )


def _runs(records: DataFrame, lookups: Lookups) -> list[Row]:
    """Summarise the records of each partition and process in numbers.

    Args:
        records: `with_highest`, with the columns of `Lookups.places`.
    """
    epoch = lookups.view.epoch
    offset, left = fn.col("offset"), fn.coalesce("left", fn.lit(False))
    known, white_end = fn.col("left").isNotNull(), fn.coalesce("white_end", fn.lit(0))
    marker = fn.col("marker")

    unknown_colour = ~known & (fn.col("process") < epoch) & (fn.col("epoch") < epoch) & ~marker
    if harmless := [p for p, outsider in lookups.view.outsiders.items() if outsider.harmless]:
        unknown_colour &= ~fn.col("process").isin(*harmless)
    white = known & ~left & (fn.col("epoch") < epoch) & ~marker
    copied = (fn.col("seq") <= fn.col("earlier_seq")) & (offset >= fn.col("earlier_end"))
    after_end = (white & ((offset >= white_end) | copied)) | (known & ~left & is_unacknowledged())
    started = (offset < fn.col("reach")) | fn.array_contains("above", offset)
    red = (
        (fn.col("process") >= epoch)
        | (~left & (fn.col("epoch") >= epoch))
        | (known & (offset >= fn.when(left, fn.col("log_end")).otherwise(white_end)))
    )
    differs = white & (_within(offset, "low_from", "low_to") | _within(offset, "high_from", "high_to"))
    some_failed = fn.exists(
        "failed", lambda it: (it["last"] > fn.col("highest")) & (it["first"] < fn.col("seq"))
    )
    out_of_turn = (
        known
        & (offset < fn.when(left, fn.col("closed_end")).otherwise(white_end))
        & (fn.col("seq") != fn.col("highest") + 1)
        & ~(
            (offset <= fn.col("only_state_below"))
            & (fn.col("seq") > fn.col("highest"))
            & (fn.col("holes") >= fn.col("seq") - fn.col("highest") - 1)
            & ~fn.coalesce(some_failed, fn.lit(False))
        )
    )
    counts_white = fn.when(left, ~marker & (offset < fn.col("left_end"))).otherwise(
        white & (offset < white_end)
    )
    left_late = left & (offset >= fn.col("left_end")) & ~marker
    later_cause = (white | left) & ~marker & still_to_start(fn.col("cause_offset"), of="cause_")
    earlier_cause = known & ~left & (fn.col("epoch") >= epoch) & ~marker & effect_is_missing()
    is_due = (offset == fn.col("due_offset")) & (fn.col("seq") == fn.col("due_seq")) & ~marker
    in_state = ~marker & (offset < fn.col("state_end")) & is_white(epoch)
    distance = offset - fn.col("seq")
    found: list[Row] = (
        records.join(fn.broadcast(lookups.processes), "process", "left")
        .withColumns({"by": fn.shiftleft("place", 32).bitwiseOR(fn.col("process")), "cause": cause_of()})
        .join(fn.broadcast(_by_sender(lookups)), "by", "left")
        .join(fn.broadcast(lookups.started), "cause", "left")
        .groupBy("place", "process")
        .agg(
            _count(after_end).alias("after_end"),
            _count(left_late).alias("left_late"),
            _count(out_of_turn).alias("out_of_turn"),
            _count(started & red & ~marker).alias("red"),
            _count(differs).alias("differs"),
            _count(is_due).alias("due"),
            _count(later_cause).alias("later_cause"),
            _count(earlier_cause).alias("earlier_cause"),
            _count(fn.col("process").isNull() & _within(offset, "only_state_below", "closed_end")).alias(
                "external"
            ),
            _count(unknown_colour & started & (offset >= fn.col("received_since"))).alias("outside"),
            _count(known & ~marker).alias("of_ours"),
            _count(fn.col("process").isNotNull() & started & ~marker).alias("received"),
            _count(counts_white & (offset >= fn.col("first_position"))).alias("in_flight"),
            _count(known & ~marker & fn.col("cause_offset").isNotNull()).alias("effects"),
            _count(fn.col("cause_offset").isNotNull()).alias("caused"),
            fn.min("offset").alias("first"),
            fn.max("offset").alias("last"),
            fn.min(distance).alias("nearest"),
            fn.max(distance).alias("farthest"),
            _count((offset >= fn.col("state_start")) & (offset < fn.col("state_end"))).alias("held"),
            fn.max(fn.when(in_state, offset)).alias("last_white"),
            fn.min(fn.when(~marker & ~in_state, offset)).alias("first_later"),
            _count(offset == fn.col("seam")).alias("at_seam"),
            fn.max(fn.when(offset == fn.col("seam"), fn.col("seq"))).alias("seq_at_seam"),
        )
        .collect()
    )
    return found


def effect_is_missing() -> Column:
    """Return whether a record, joined with its sender's ends and its cause, was sent by an event that its sender had
    started by its cut and that no process has run again. (Then it should be white.)"""
    by_receiver = (fn.col("process") == fn.col("reader")) & fn.col("steady")
    before_closing = fn.col("offset") < fn.coalesce("sent_end", fn.lit(0))
    return by_receiver & before_closing & ~still_to_start(fn.col("cause_offset"), of="cause_")


def _count(condition: Column) -> Column:
    return fn.count(fn.when(condition, 1))


def _within(offset: Column, start: str, end: str) -> Column:
    return (offset >= fn.col(start)) & (offset < fn.col(end))


def _by_sender(lookups: Lookups) -> DataFrame:
    view, rows = lookups.view, defaultdict[tuple[TopicPartition, int], dict[str, Any]](dict)
    for sender in lookups.sender_rows:
        row = rows[TopicPartition(sender["topic"], sender["partition"]), sender["process"]]
        row |= {
            name: sender[name] for name in ("white_end", "sent_end", "failed", "earlier_seq", "earlier_end")
        }
    for tp, end, _ in view.last_in_flight():
        row = rows[tp, end.process]
        row |= {"due_offset": end.white_end - 1, "due_seq": end.last_seq}
    for item, source in view.recorded():
        tp = TopicPartition(item.topic, item.partition)
        row = rows[tp, item.sender]
        _widen(row, "low", item.start, source.noted)
        _widen(row, "high", item.end, view.white_end(item.sender, tp))
    numbers = {tp: place for place, tp in enumerate(lookups.partitions)}
    found = [
        {"by": numbers[tp] << 32 | process, **row} for (tp, process), row in rows.items() if tp in numbers
    ]
    return local_frame(lookups.spark, BY_SENDER, found)


def _widen(row: dict[str, Any], which: str, one: int, other: int) -> None:
    """Extend the range `which` of a row to the offsets between two bounds."""
    if one != other:
        row[f"{which}_from"] = min(one, other, row.get(f"{which}_from", one))
        row[f"{which}_to"] = max(one, other, row.get(f"{which}_to", one))
