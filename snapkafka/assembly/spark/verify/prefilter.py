"""The pre-filter: one query that counts the suspects of all rules, and gathers the facts for V3.

Nearly every snapshot is sound, and most of the time of a small one is Spark's fixed cost. So one query, made of the
rules' suspects, reads all records first: only rules that have any are then run. It may count too much (then they find
nothing), but never too little: a test compares it with the checks on random damage.

Checking seqs in the order of the log takes a sort, which is too expensive for a large changelog. In a changelog one
process writes at a time, so its seqs rise with the offsets: then their difference is constant, and all are in order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.frames import Lookups, cause_of, local_frame
from snapkafka.assembly.spark.tables.tables import has_started, is_white
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

from .log_frames import LogFrames
from .sequences import TP, counts_white, with_highest, within

#: Per sender and partition, as one number (`_by`), what `frames.SENDERS` has, and: its last white record if that must
#: be there, and the offsets that lie in only one of the two ranges which V4 compares: `[low_from, low_to)` and
#: `[high_from, high_to)`.
BY_SENDER: Final = (
    "by bigint, white_end bigint, sent_end bigint, failed array<struct<first:bigint,last:bigint>>, "
    "earlier_seq bigint, earlier_end bigint, due_offset bigint, due_seq bigint, low_from bigint, low_to bigint, "
    "high_from bigint, high_to bigint"
)


class Suspect(NamedTuple):
    """What the pre-filter counts for rules: records that may break them.

    `name`: of its column. `where`: the condition on a row of the query (see `_runs`). `expected`: it is the other way
    round, and records that are *not* there are suspect: so many should be. `in_order`: it needs `with_highest`.
    """

    name: str
    where: Callable[[CutView], Column]
    expected: Callable[[CutView], int] | None = None
    in_order: bool = False


#: Whose column of a run counts the records that a check looks at (`snapkafka.checks.coverage`).
EXAMINED: Final = {"V1": "of_ours", "V2": "received", "V3": "held", "V4": "in_flight", "V5": "effects"}


class Look(NamedTuple):
    """The result of the pre-filter.

    `counts`: how many of each suspect there are. `held`: the facts about changelogs, for V3. `unreported`: there are
    records of processes that the snapshot knows, and none of them names its cause (`cause=False`): V5 has nothing to
    check. `external`: topics of inputs with records without a header of ours, below the ends that the snapshot names:
    later ones say nothing about it, and depend on when the log is read. `outside`: outsiders whose records were
    received since the trigger. `external_spans`: where the first and the last external record of a partition are.
    `examined`: the records read, by check.
    """

    counts: Mapping[str, int]
    held: dict[TopicPartition, StateFacts]
    unreported: bool = False
    external: tuple[ExternalTopic, ...] = ()
    outside: tuple[OutsideSender, ...] = ()
    external_spans: Mapping[TopicPartition, tuple[int, int]] = MappingProxyType({})
    examined: Mapping[str, Examined] = MappingProxyType({})


def first_look(log: LogFrames, suspects: Collection[Suspect]) -> Look:
    """Count suspects, and gather what else takes all records."""
    lookups, view = log.lookups, log.view
    runs = _runs(_in_turn(log), lookups, suspects)
    by_place = defaultdict(list)
    for run in runs:
        by_place[lookups.partitions[run.place]].append(run)
    counts = {suspect.name: sum(run[suspect.name] for run in runs) for suspect in suspects}
    if restless := [tp for tp, of_place in by_place.items() if _is_restless(view, tp, of_place)]:
        in_order = [suspect for suspect in suspects if suspect.in_order]
        for run in _runs(with_highest(_placed(log, restless), lookups.stretch), lookups, in_order):
            for suspect in in_order:
                counts[suspect.name] += run[suspect.name]
    counts |= {s.name: s.expected(view) - counts[s.name] for s in suspects if s.expected is not None}
    return Look(
        counts,
        held={tp: _facts(of_place) for tp, of_place in by_place.items() if tp in view.changelogs},
        unreported=any(run.of_ours for run in runs) and not any(run.caused for run in runs),
        external=_external(lookups, runs),
        outside=_outside(lookups, runs),
        external_spans={
            tp: (run.first, run.last) for tp, of in by_place.items() for run in of if run.process is None
        },
        examined=total(
            (
                {check: sum(run[column] for run in of_place) for check, column in EXAMINED.items()}
                for of_place in by_place.values()
            ),
            channels(view),
        ),
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


def _in_turn(log: LogFrames) -> DataFrame:
    """Return records with their places, in inputs sorted by `with_highest`; in the others its columns are null."""
    lookups = log.lookups
    state = [tp for tp in lookups.partitions if lookups.only_state(tp)]
    inputs = [tp for tp in lookups.partitions if not lookups.only_state(tp)]
    unsorted = {name: fn.lit(None).cast("bigint") for name in ("highest", "high_offset", "holes")}
    of_state = _placed(log, state).withColumns(unsorted)
    if not inputs:
        return of_state
    in_order = with_highest(_placed(log, inputs), lookups.stretch)
    return in_order.unionByName(of_state) if state else in_order


def _placed(log: LogFrames, tps: Collection[TopicPartition]) -> DataFrame:
    """Return the records of these partitions, with the facts about each (`Lookups.places`)."""
    wanted, places = set(tps), log.lookups.places
    topics = {tp.topic for tp in wanted}
    # What is kept knows which topics a part of it has. If they are enough, every query sends the same places.
    of_topics = log.stamps.where(fn.col("topic").isin(sorted(topics)))
    if wanted != {tp for tp in log.lookups.partitions if tp.topic in topics}:
        numbers = [number for number, tp in enumerate(log.lookups.partitions) if tp in wanted]
        places = places.where(fn.col("place").isin(numbers))
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


def _runs(records: DataFrame, lookups: Lookups, suspects: Collection[Suspect]) -> list[Row]:
    """Summarise the records of each partition and process in numbers: those of the suspects, and the facts.

    Args:
        records: `with_highest`, with the columns of `Lookups.places`.
    """
    found: list[Row] = (
        records.transform(lookups.with_senders)
        .withColumns({"by": fn.shiftleft("place", 32).bitwiseOR(fn.col("process")), "cause": cause_of()})
        .join(fn.broadcast(_by_sender(lookups)), "by", "left")
        .join(fn.broadcast(lookups.started), "cause", "left")
        .withColumn("white_end", fn.coalesce("white_end", fn.lit(0)))
        .groupBy("place", "process")
        .agg(
            *(_count(suspect.where(lookups.view)).alias(suspect.name) for suspect in suspects),
            *(fact.alias(name) for name, fact in (*_seen(lookups.view), *_of_state(lookups.view))),
        )
        .collect()
    )
    return found


def _seen(view: CutView) -> Iterator[tuple[str, Column]]:
    """Yield the counts of records that the checks read, and of those without a proven colour."""
    known, marker, process = fn.col("left").isNotNull(), fn.col("marker"), fn.col("process")
    unknown_colour = ~known & (process < view.epoch) & (fn.col("epoch") < view.epoch) & ~marker
    if harmless := [p for p, outsider in view.outsiders.items() if outsider.harmless]:
        unknown_colour &= ~process.isin(*harmless)
    started, cause = has_started(fn.col("offset")), fn.col("cause_offset")
    yield "external", _count(process.isNull() & within("only_state_below", "closed_end"))
    yield "outside", _count(unknown_colour & started & (fn.col("offset") >= fn.col("received_since")))
    yield "of_ours", _count(known & ~marker)
    yield "received", _count(process.isNotNull() & started & ~marker)
    white = counts_white(view.epoch)
    yield "in_flight", _count(white & (fn.col("offset") >= fn.col("first_position")))
    yield "effects", _count(known & ~marker & cause.isNotNull())
    yield "caused", _count(cause.isNotNull())


def _of_state(view: CutView) -> Iterator[tuple[str, Column]]:
    """Yield the facts about changelogs, for V3, and those that show whether their seqs are in order."""
    offset, distance = fn.col("offset"), fn.col("offset") - fn.col("seq")
    in_state = ~fn.col("marker") & (offset < fn.col("state_end")) & is_white(view.epoch)
    at_seam = offset == fn.col("seam")
    yield "first", fn.min("offset")
    yield "last", fn.max("offset")
    yield "nearest", fn.min(distance)
    yield "farthest", fn.max(distance)
    yield "held", _count(within("state_start", "state_end"))
    yield "last_white", fn.max(fn.when(in_state, offset))
    yield "first_later", fn.min(fn.when(~fn.col("marker") & ~in_state, offset))
    yield "at_seam", _count(at_seam)
    yield "seq_at_seam", fn.max(fn.when(at_seam, fn.col("seq")))


def _count(condition: Column) -> Column:
    return fn.count(fn.when(condition, 1))


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
