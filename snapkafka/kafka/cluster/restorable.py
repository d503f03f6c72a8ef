"""The time for which the log keeps what a snapshot needs: which topic loses it first, when, and why.

A snapshot needs, of an input, the records that were unread at the cut: offsets from the position to the observed end;
of a changelog, the last white value of each key. Three causes remove them:

- *Age* (`retention.ms`). Kafka deletes whole segments whose youngest record is older, so a record stays at least that
  long and is deleted soon after: that is a date. A windowed table needs only windows that had not expired at the cut.
- *Size* (`retention.bytes`). The time depends on the load to come: from now on the answer is unknown.
- *Compaction*. A white value is removed when compaction reaches a later one of its key. Nothing is compacted before
  `min.compaction.lag.ms`, and never in the segment that is being written; when the cleaner runs after that
  (`min.cleanable.dirty.ratio`, `max.compaction.lag.ms`), Kafka does not show. So from that date on the answer is
  unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from snapkafka.checks import CutView, Keeping, LogBounds
from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError
from snapkafka.manifest import RestorableEntry
from snapkafka.ports import TopicAdmin
from snapkafka.protocol import Captured, Retention, TopicPartition
from snapkafka.topic_config import FOR_EVER_MS, UNBOUNDED, TopicSettings
from snapkafka.units import format_ms, iso_time, wall_ms

#: A clock that is beside itself gives times that no calendar has.
LAST_MS: Final = 253_402_300_799_000


class How(StrEnum):
    """The certainty of that time. FROM: kept until then; after that it may go at any time, or stay. UNKNOWN:
    unauthorized."""

    UNTIL = "until"
    FROM = "from"
    ALWAYS = "always"
    GONE = "gone"
    UNKNOWN = "unknown"


class Need(NamedTuple):
    """Offsets `[start, end)` of a partition that a snapshot needs; for a changelog (`state`) all records below `end`.

    `expires_ms`, `sets`: see `protocol.captured_snapshot.ChangelogCut`.
    """

    tp: TopicPartition
    start: int
    end: int
    state: bool = False
    expires_ms: int = 0
    sets: bool = False

    @property
    def every_record(self) -> bool:
        """Whether every record counts, not only the last of a key."""
        return not self.state or self.sets


def needs(view: CutView) -> Iterator[Need]:
    """Yield what a snapshot needs of the log; partitions of which it needs nothing are left out."""
    for tp, sources in sorted(view.inputs.items()):
        start = min(source.position for source in sources)
        if tp not in view.changelogs and start < view.closed_end(tp):
            yield Need(tp, start, view.closed_end(tp))
    for tp, cuts in sorted(view.changelogs.items()):
        if end := view.state_end(tp):
            yield Need(tp, 0, end, True, max(cut.expires_ms for cut in cuts), any(cut.sets for cut in cuts))


def first_to_go(found: Iterable[RestorableEntry]) -> RestorableEntry:
    """Return the one that is lost first: those that are lost already come first, then unknown ones, then the
    earliest."""
    ranks = {How.GONE: 0, How.UNKNOWN: 1, How.UNTIL: 2, How.FROM: 2, How.ALWAYS: 3}
    return min(
        found,
        key=lambda item: (ranks[How(item.how)], item.until, item.how, item.topic, item.partition),
        default=RestorableEntry(how=How.ALWAYS),
    )


def estimate_retention(
    need: Need, log: LogBounds, settings: TopicSettings, *, first_ms: int | None, cut_ms: int, now_ms: int
) -> RestorableEntry:
    """Determine how long a partition keeps what is needed of it.

    Args:
        log: the offsets that its log holds.
        first_ms: when the first needed record was written; None: there is none.
        cut_ms: when the snapshot was triggered.
    """

    def estimate(how: How, why: str, until_ms: int | None = None) -> RestorableEntry:
        until = "" if until_ms is None else iso_time(max(0, min(until_ms, LAST_MS)))
        return RestorableEntry(
            how=how, until=until, topic=need.tp.topic, partition=need.tp.partition, why=why
        )

    if not need.state and log.start > need.start:
        return estimate(How.GONE, f"its log starts at {log.start}, the snapshot needs {need.start}")
    if need.state and log.start > need.end:
        return estimate(How.GONE, f"its log starts at {log.start}, past the cut at {need.end}")
    found: list[RestorableEntry] = []
    if settings.deletes and (kept_ms := settings.retention_ms) is not None:
        since_ms, which = now_ms if first_ms is None else first_ms, "from the first record that is needed"
        if need.expires_ms:
            since_ms, which = max(first_ms or 0, cut_ms - need.expires_ms), "from the oldest window"
        why = f"deletes records after {format_ms(kept_ms)} (retention.ms), counted {which}"
        found.append(estimate(How.UNTIL, why, since_ms + kept_ms))
    if settings.deletes and (kept := settings.retention_bytes) is not None:
        found.append(estimate(How.FROM, f"keeps {kept:,} bytes of each partition (retention.bytes)", now_ms))
    if settings.compacts and (least_ms := settings.uncompacted_ms) < FOR_EVER_MS:
        # What supersedes a white value is red, or else it is white and the value that is needed.
        since_ms = first_ms if need.every_record and first_ms is not None else cut_ms
        most_ms = settings.compacted_ms
        latest = "" if most_ms is None else f", and at the latest after {format_ms(most_ms)}"
        soon = f"after {format_ms(least_ms)}" if least_ms else "without delay"
        why = f"may be compacted {soon} (min.compaction.lag.ms={least_ms}){latest}: doctor can delay it"
        found.append(estimate(How.FROM, why, since_ms + least_ms))
    return first_to_go(found)


def keeping(then: Retention, now: Retention, *, age_ms: int) -> Keeping:
    """Determine what a changelog has kept since a cut of that age, by its settings of then and of now; those in
    between are unknown."""
    retained = [ms for ms in (then.retained_ms, now.retained_ms) if ms != UNBOUNDED]
    return Keeping(
        age_ms=age_ms,
        uncompacted_ms=min(then.uncompacted_ms, now.uncompacted_ms),
        tombstones_ms=min(then.tombstones_ms, now.tombstones_ms),
        retained_ms=min(retained, default=None),
    )


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
        if need.every_record or settings[need.tp.topic].deletes
    }
    times = await admin.record_times({tp: at for tp, at in first.items() if at < bounds[tp].end})
    now_ms = now()
    return first_to_go(
        estimate_retention(
            it, bounds[it.tp], settings[it.tp.topic], first_ms=times.get(it.tp), cut_ms=cut_ms, now_ms=now_ms
        )
        for it in wanted
    )


async def log_bounds(
    admin: TopicAdmin, wanted: Collection[TopicPartition]
) -> dict[TopicPartition, LogBounds]:
    """Return the offsets that the logs of these partitions hold now; partitions that do not exist are left out."""
    topics = await admin.describe_topics({tp.topic for tp in wanted})
    there = [tp for tp in wanted if tp.topic in topics and tp.partition < topics[tp.topic].partitions]
    starts, ends = await asyncio.gather(admin.log_starts(there), admin.log_ends(there))
    return {tp: LogBounds(start=starts[tp], end=ends[tp], topic_id=topics[tp.topic].topic_id) for tp in there}
