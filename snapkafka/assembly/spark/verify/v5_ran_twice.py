"""The notes of V5 that concern several records: events that ran twice before the cut, and ambiguous causes.

To group all effects by their cause would shuffle every change of every table. So one query finds, without a shuffle,
the offsets of each input of which every worker has left effects; only where those of two workers overlap are events
compared one by one. Apps of one worker are left out. See `snapkafka.checks.ran_twice`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.frames import Lookups, local_frame
from snapkafka.assembly.spark.tables.tables import still_to_start
from snapkafka.checks import Finding
from snapkafka.checks.ran_twice import Twice, apps_of_several, found_twice
from snapkafka.wire.headers import topic_check, topics_by_check

from . import sequences
from .sequences import TP

#: Offsets `[first, last]` of an input that two workers have left effects of.
SHARED: Final = "sender_app string, cause_check bigint, cause_partition bigint, first bigint, last bigint"
INPUT: Final = ("sender_app", "cause_check", "cause_partition")


class Span(NamedTuple):
    """The lowest and the highest offset of an input whose effects come from one worker."""

    worker: int
    first: int
    last: int


def findings(stamps: DataFrame, lookups: Lookups) -> list[Finding]:
    """Find events that ran twice; see `checks.ran_twice.ran_twice`: at most one finding for each app and topic."""
    apps = apps_of_several(lookups.view)
    if not apps:
        return []
    rows = [
        {**dict(zip(INPUT, place, strict=True)), "first": both[0], "last": both[1]}
        for place, spans in _spans(stamps, lookups).items()
        if place[0] in apps and (both := shared(spans)) is not None
    ]
    if not rows:
        return []
    offset = fn.col("cause_offset")
    found = (
        _effects(stamps, lookups)
        .join(fn.broadcast(local_frame(lookups.spark, SHARED, rows)), [*INPUT])
        .where(offset.between(fn.col("first"), fn.col("last")))
        .join(fn.broadcast(lookups.places), list(TP))
        .join(fn.broadcast(lookups.causes), [*INPUT])
        .where(sequences.counts_white(lookups.view.epoch) & ~still_to_start(offset, of="cause_"))
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


def unclear_causes(lookups: Lookups) -> list[Finding]:
    """Find inputs of an app whose check values are equal: V5 cannot distinguish their causes, and checks none of
    them."""
    topics: dict[str, set[str]] = defaultdict(set)
    for source in lookups.view.captured.inputs:
        topics[source.app].add(source.topic)
    return [
        Finding("cause-unclear", topic, -1, -1, app=app, a=topic_check(topic))
        for app, of_app in sorted(topics.items())
        for topic in sorted(of_app - set(topics_by_check(of_app).values()))
    ]


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


def _effects(stamps: DataFrame, lookups: Lookups) -> DataFrame:
    """Return records that name their cause, of processes that the snapshot knows and that are not older than a
    restore."""
    caused = fn.col("cause_offset").isNotNull()
    if over := lookups.view.before_restore:
        caused &= ~fn.col("process").isin(*over)
    return lookups.without_strays(sequences.of_known(stamps.where(caused), lookups))


def _spans(stamps: DataFrame, lookups: Lookups) -> dict[tuple[str, int, int], list[Span]]:
    """Return for each input the offsets of which every worker has left effects that may be white."""
    white = fn.col("left") | (fn.col("epoch") < lookups.view.epoch)
    rows = (
        _effects(stamps, lookups)
        .where(white & ~fn.col("marker"))
        .groupBy(*INPUT, "worker")
        .agg(fn.min("cause_offset").alias("first"), fn.max("cause_offset").alias("last"))
        .collect()
    )
    found = defaultdict(list)
    for row in rows:
        found[row.sender_app, row.cause_check, row.cause_partition].append(
            Span(row.worker, row.first, row.last)
        )
    return found
