"""V5 in Spark; see `snapkafka.checks.v5_cause`: one function per kind of finding, of the same name.

To group all effects by their cause, for `ran_twice`, would shuffle every change of every table. So one query finds,
without a shuffle, the offsets of each input of which every worker has left effects; only where those of two workers
overlap are events compared one by one. Apps of one worker are left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.frames import local_frame
from snapkafka.assembly.spark.tables.tables import has_started, still_to_start
from snapkafka.checks import CutView, Finding
from snapkafka.checks.v5_cause import Twice, apps_of_several, found_twice, unclear_causes
from snapkafka.protocol.records import NOBODY

from . import sequences
from .log_frames import LogFrames
from .prefilter import Look, Suspect
from .rule import Found, Rule, Search
from .sequences import TP

#: Offsets `[first, last]` of an input that two workers have left effects of.
SHARED: Final = "sender_app string, cause_check bigint, cause_partition bigint, first bigint, last bigint"
INPUT: Final = ("sender_app", "cause_check", "cause_partition")

# --- Suspects: conditions on a row of the pre-filter ----------------------------------------------------------------


def _later_cause(view: CutView) -> Column:
    white = sequences.white_stamped(view.epoch) | sequences.has_left()
    return white & ~fn.col("marker") & still_to_start(fn.col("cause_offset"), of="cause_")


def _earlier_cause(view: CutView) -> Column:
    """Return whether a record was sent in red by an event that its sender had started by its cut and that no process
    has run again. (Then it should be white.)"""
    by_receiver = (fn.col("process") == fn.col("reader")) & fn.col("steady")
    before_closing = fn.col("offset") < fn.coalesce("sent_end", fn.lit(0))
    started = ~still_to_start(fn.col("cause_offset"), of="cause_")
    return sequences.red_stamped(view.epoch) & by_receiver & before_closing & started


LATER_CAUSE: Final = Suspect("later_cause", _later_cause)
EARLIER_CAUSE: Final = Suspect("earlier_cause", _earlier_cause)

# --- Findings -------------------------------------------------------------------------------------------------------


def effect_of_later(view: CutView) -> Found:
    """Find white effects of events that no agent had started and nobody replays."""
    return _effect(~fn.col("replayed") & ~has_started(fn.col("cause_offset"), of="cause_"))


def effect_of_red(view: CutView) -> Found:
    """Find white effects of red records: they are no replays."""
    return _effect(fn.col("replayed") & fn.col("cause_red"))


def replayed(view: CutView) -> Found:
    """Find white effects of events that a restore runs again: an earlier reader of the input had run them."""
    return _effect(fn.col("replayed") & ~fn.col("cause_red"))


def effect_missing(view: CutView) -> Found:
    """Find red effects of events that their sender had started by its cut."""
    return _effect(_earlier_cause(view))


def _effect(where: Column) -> Found:
    return Found(where, fn.col("sender_app"), a=fn.col("cause_offset"), b=fn.col("cause_position"))


def white_of_later(log: LogFrames) -> DataFrame:
    """Return white effects of events that some agent had still to start, with `replayed` (an earlier reader of the
    input may have run it, which the present one runs again) and `cause_red`."""
    cause, process = fn.col("cause_offset"), fn.col("process")
    before = (process != fn.col("reader")) & (
        fn.array_contains("earlier", process) | fn.array_contains("earlier", fn.lit(NOBODY))
    )
    names = [f"cause_{name}" for name in (*TP, "offset")]
    red = _red(log).select(
        *(fn.col(name.removeprefix("cause_")).alias(name) for name in names), fn.lit(True).alias("cause_red")
    )
    return (
        log.effects()
        .join(red, names, "left")
        .withColumn("cause_red", fn.coalesce("cause_red", fn.lit(False)))
        .withColumn("replayed", before | ((process == fn.col("reader")) & (cause < fn.col("until"))))
        .where(sequences.counts_white(log.view.epoch) & still_to_start(cause, of="cause_"))
    )


def _red(log: LogFrames) -> DataFrame:
    """Return records that are red by their header, or by their sender's birth."""
    epoch = log.view.epoch
    by_header = ~sequences.has_left() & (fn.col("epoch") >= epoch)
    return (
        log.stamps.where(fn.col("process").isNotNull() & ~fn.col("marker"))
        .transform(log.lookups.with_senders)
        .where((fn.col("process") >= epoch) | by_header)
        .dropDuplicates([*TP, "offset"])
    )


RULES: Final = (
    Rule("effect-of-later", LATER_CAUSE, white_of_later, effect_of_later),
    Rule("effect-of-red", LATER_CAUSE, white_of_later, effect_of_red),
    Rule("replayed", LATER_CAUSE, white_of_later, replayed),
    Rule("effect-missing", EARLIER_CAUSE, LogFrames.effects, effect_missing),
)

# --- Of several records ---------------------------------------------------------------------------------------------


class Span(NamedTuple):
    """The lowest and the highest offset of an input whose effects come from one worker."""

    worker: int
    first: int
    last: int


def ran_twice(log: LogFrames, look: Look) -> tuple[list[Finding], Counter[str]]:
    """Find events that ran twice: at most one finding for each app and topic."""
    found = [] if look.unreported else _ran_twice(log)
    return found, Counter(finding.kind for finding in found)


def _ran_twice(log: LogFrames) -> list[Finding]:
    apps, lookups = apps_of_several(log.view), log.lookups
    if not apps:
        return []
    rows = [
        {**dict(zip(INPUT, place, strict=True)), "first": both[0], "last": both[1]}
        for place, spans in _spans(log).items()
        if place[0] in apps and (both := shared(spans)) is not None
    ]
    if not rows:
        return []
    offset = fn.col("cause_offset")
    found = (
        log.caused()
        .join(fn.broadcast(local_frame(lookups.spark, SHARED, rows)), [*INPUT])
        .where(offset.between(fn.col("first"), fn.col("last")))
        .join(fn.broadcast(lookups.places), list(TP))
        .join(fn.broadcast(lookups.causes), [*INPUT])
        .join(fn.broadcast(lookups.workers), "process")
        .where(sequences.counts_white(log.view.epoch) & ~still_to_start(offset, of="cause_"))
        .groupBy("sender_app", "cause_topic", "cause_partition", "cause_offset")
        .agg(fn.min("worker").alias("one"), fn.max("worker").alias("other"))
        .where(fn.col("one") < fn.col("other"))
        .groupBy("sender_app", "cause_topic")
        .agg(
            fn.count("*").alias("events"),
            fn.min(fn.struct("cause_partition", "cause_offset", "one", "other")).alias("first"),
        )
        .collect()
    )
    return [found_twice(row.sender_app, row.cause_topic, row.events, Twice(*row.first)) for row in found]


def cause_unclear(log: LogFrames, look: Look) -> tuple[list[Finding], Counter[str]]:
    """Find inputs of an app whose check values are equal: V5 cannot distinguish their causes, and checks none of
    them."""
    found = [] if look.unreported else unclear_causes(log.view)
    return found, Counter(finding.kind for finding in found)


SEARCHES: Final = (
    Search(("ran-twice",), "V5: events that ran twice", ran_twice),
    Search(("cause-unclear",), "V5: causes that are unclear", cause_unclear),
)


def shared(spans: Iterable[Span]) -> tuple[int, int] | None:
    """Return the lowest and the highest offset common to the spans of two workers; None: there is none."""
    overlaps = list(_overlaps(spans))
    return (min(first for first, _ in overlaps), max(last for _, last in overlaps)) if overlaps else None


def _overlaps(spans: Iterable[Span]) -> Iterator[tuple[int, int]]:
    """Yield the overlaps: in the order of first offsets, each span overlaps at most with the one that reached furthest
    before it."""
    reach: int | None = None
    for span in sorted(spans, key=lambda span: (span.first, span.last)):
        if reach is not None and span.first <= reach:
            yield span.first, min(span.last, reach)
        reach = span.last if reach is None else max(reach, span.last)


def _spans(log: LogFrames) -> dict[tuple[str, int, int], list[Span]]:
    """Return for each input the offsets of which every worker has left effects that may be white."""
    white = fn.col("left") | (fn.col("epoch") < log.view.epoch)
    rows = (
        log.caused()
        .where(white & ~fn.col("marker"))
        .groupBy(*INPUT, "process")
        .agg(fn.min("cause_offset"), fn.max("cause_offset"))
        .collect()
    )
    found: dict[tuple[str, int, int], dict[int, Span]] = defaultdict(dict)
    for app, check, partition, process, first, last in rows:
        worker, spans = log.view.worker(process), found[app, check, partition]
        known = spans.get(worker, Span(worker, first, last))
        spans[worker] = Span(worker, min(first, known.first), max(last, known.last))
    return {place: list(spans.values()) for place, spans in found.items()}
