"""The time until which the log keeps a snapshot's records: facts from the cluster, judged by `retention`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from snapkafka.checks import CutView, LogBounds
from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError
from snapkafka.manifest import RestorableEntry
from snapkafka.ports import TopicAdmin
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.records import TopicPartition
from snapkafka.topic_config import TopicSettings
from snapkafka.units import iso_time, wall_ms

from .retention import How, estimate_retention, first_to_go, needs


async def restorable(
    admin: TopicAdmin, captured: Captured, *, cut_ms: int, now: Callable[[], int] = wall_ms
) -> RestorableEntry:
    """Determine until when the log holds what a snapshot needs, which topic loses it first, and why. Unauthorized
    facts are reported, and are not an error.

    Args:
        cut_ms: when it was triggered.
        now: returns the time; called after the logs were read, which may take a while.
    """
    try:
        return await _look(admin, captured, cut_ms, now)
    except (LedgerUnusableError, BrokerUnavailableError) as error:  # a right is missing; no leader
        return RestorableEntry(how=How.UNKNOWN, why=error.message)


def in_words(entry: RestorableEntry, now_ms: int) -> str:
    """Format the text after "restorable"."""
    where = f"{entry.topic}[{entry.partition}] {entry.why}"
    when = f"{entry.until[:19].replace('T', ' ')} UTC"
    passed = entry.until < iso_time(now_ms)
    match entry.how:
        case How.UNTIL:
            return f"{'no longer restorable since' if passed else 'restorable until'} {when}: {where}"
        case How.FROM if passed:
            return f"possibly no longer restorable since {when}: {where}"
        case How.FROM:
            return f"restorable until {when} at least: {where}"
        case How.GONE:
            return f"no longer restorable: {where}"
        case How.ALWAYS:
            return "restorable as long as its topics exist"
    return f"unknown for how long it is restorable: {entry.why}"


async def _look(
    admin: TopicAdmin, captured: Captured, cut_ms: int, now: Callable[[], int]
) -> RestorableEntry:
    wanted = list(needs(CutView(captured)))
    bounds = await log_bounds(admin, [need.tp for need in wanted])
    recreated = CutView(captured, bounds).recreated
    for need in wanted:
        if need.tp in recreated:
            why = "it was deleted, or recreated, since the cut"
            return RestorableEntry(how=How.GONE, topic=need.tp.topic, partition=need.tp.partition, why=why)
    topics = sorted({need.tp.topic for need in wanted})
    answers = await asyncio.gather(*(admin.topic_settings(topic) for topic in topics))
    settings = {topic: TopicSettings.parse(found) for topic, (found, _) in zip(topics, answers, strict=True)}
    first = {
        need.tp: max(need.start, bounds[need.tp].start)
        for need in wanted
        if need.any_may_go or settings[need.tp.topic].deletes
    }
    times = await admin.record_times({tp: at for tp, at in first.items() if at < bounds[tp].end})
    now_ms = now()
    return first_to_go(
        estimate_retention(
            need,
            bounds[need.tp],
            settings[need.tp.topic],
            first_ms=times.get(need.tp),
            cut_ms=cut_ms,
            now_ms=now_ms,
        )
        for need in wanted
    )


async def log_bounds(
    admin: TopicAdmin, wanted: Collection[TopicPartition]
) -> dict[TopicPartition, LogBounds]:
    """Return the offsets that the logs of these partitions hold now; partitions that do not exist are left out."""
    topics = await admin.describe_topics({tp.topic for tp in wanted})
    there = [tp for tp in wanted if tp.topic in topics and tp.partition < topics[tp.topic].partitions]
    starts, ends = await asyncio.gather(admin.log_starts(there), admin.log_ends(there))
    return {tp: LogBounds(start=starts[tp], end=ends[tp], topic_id=topics[tp.topic].topic_id) for tp in there}
