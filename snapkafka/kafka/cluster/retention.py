"""The time for which the log keeps what a snapshot needs: which topic loses it first, when, and why.

A snapshot needs, of an input, the records that were unread at the cut: offsets from the position to the observed end;
of a changelog, the last white value of each key. Three causes remove them:

- *Age* (`retention.ms`). Kafka deletes whole segments whose youngest record is older, so a record stays at least that
  long and is deleted soon after: that is a date. A windowed table needs only windows that had not expired at the cut.
- *Size* (`retention.bytes`). The time depends on the load; reported is the time at the rate so far.
- *Compaction*. A white value is removed when compaction reaches a later one of its key. Nothing is compacted before
  `min.compaction.lag.ms`, and never in the segment that is being written; when the cleaner runs after that
  (`min.cleanable.dirty.ratio`, `max.compaction.lag.ms`), Kafka does not show. So from that date on the answer is
  unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from snapkafka.checks import CutView, Keeping, LogBounds
from snapkafka.protocol.records import Retention, TopicPartition
from snapkafka.topic_config import FOR_EVER_MS, UNBOUNDED, TopicSettings
from snapkafka.units import format_ms

#: A clock that is beside itself gives times that no calendar has.
LAST_MS: Final = 253_402_300_799_000


class How(StrEnum):
    """The certainty of that time."""

    #: It is kept until then, and deleted soon after.
    UNTIL = "until"
    #: It is kept until then; after that it may go at any time, or stay.
    FROM = "from"
    #: Nothing takes it away.
    ALWAYS = "always"
    #: It is gone already.
    GONE = "gone"
    #: Unauthorized.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionEstimate:
    """The time until which it is kept: `until_ms` since 1970, None if unknown. `topic`: the first to lose records,
    `why`."""

    how: How
    until_ms: int | None = None
    topic: str = ""
    partition: int = -1
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Offsets `[start, end)` of a partition that a snapshot needs; for a changelog all records below `end`.

    `state`: whether it is a changelog. `expires_ms`, `sets`: see `protocol.captured_snapshot.ChangelogCut`.
    """

    tp: TopicPartition
    start: int
    end: int
    state: bool = False
    expires_ms: int = 0
    sets: bool = False

    @property
    def any_may_go(self) -> bool:
        """Whether every record counts, not only the last of a key."""
        return not self.state or self.sets


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNow:
    """The present state of a partition's log, as the cluster reports it. None: unknown, or there is none.

    Args:
        bounds: the offsets that its log holds.
        first_ms: when the first needed record was written.
        size: in bytes.
    """

    bounds: LogBounds
    first_ms: int | None = None
    size: int | None = None


def needs(view: CutView) -> Iterator[Need]:
    """Yield what a snapshot needs of the log; partitions of which it needs nothing are left out."""
    for tp, sources in sorted(view.inputs.items()):
        start = min(source.position for source in sources)
        if tp not in view.changelogs and start < view.closed_end(tp):
            yield Need(tp=tp, start=start, end=view.closed_end(tp))
    for tp, changelogs in sorted(view.changelogs.items()):
        if end := view.state_end(tp):
            yield Need(
                tp=tp,
                start=0,
                end=end,
                state=True,
                expires_ms=max(changelog.expires_ms for changelog in changelogs),
                sets=any(changelog.sets for changelog in changelogs),
            )


def first_to_go(found: Iterable[RetentionEstimate]) -> RetentionEstimate:
    """Return the one that is lost first: those that are lost already come first, then unknown ones, then the
    earliest."""
    ranks = {How.GONE: 0, How.UNKNOWN: 1, How.UNTIL: 2, How.FROM: 2, How.ALWAYS: 3}
    return min(
        found,
        key=lambda item: (ranks[item.how], item.until_ms or 0, item.how, item.topic, item.partition),
        default=RetentionEstimate(how=How.ALWAYS),
    )


def estimate_retention(
    need: Need, log: LogNow, settings: TopicSettings, *, cut_ms: int, now_ms: int
) -> RetentionEstimate:
    """Determine how long a partition keeps what is needed of it.

    Args:
        settings: those of its topic.
        cut_ms: when the snapshot was triggered.
    """
    if not need.state and log.bounds.start > need.start:
        return _estimate(
            need, How.GONE, None, f"its log starts at {log.bounds.start}, the snapshot needs {need.start}"
        )
    if need.state and log.bounds.start > need.end:
        return _estimate(
            need, How.GONE, None, f"its log starts at {log.bounds.start}, past the cut at {need.end}"
        )
    found: list[RetentionEstimate] = []
    if settings.deletes:
        found += [*_by_age(need, log, settings, cut_ms, now_ms), *_by_size(need, log, settings, now_ms)]
    if settings.compacts:
        found += _by_compaction(need, log, settings, cut_ms)
    return first_to_go(found)


def _estimate(need: Need, how: How, until_ms: int | None, why: str) -> RetentionEstimate:
    until_ms = None if until_ms is None else max(0, min(until_ms, LAST_MS))
    return RetentionEstimate(
        how=how, until_ms=until_ms, topic=need.tp.topic, partition=need.tp.partition, why=why
    )


def _by_age(
    need: Need, log: LogNow, settings: TopicSettings, cut_ms: int, now_ms: int
) -> Iterator[RetentionEstimate]:
    if (kept_ms := settings.retention_ms) is None:
        return
    first_ms, which = now_ms if log.first_ms is None else log.first_ms, "from the first record that is needed"
    if need.expires_ms:
        first_ms, which = max(log.first_ms or 0, cut_ms - need.expires_ms), "from the oldest window"
    why = f"deletes records after {format_ms(kept_ms)} (retention.ms), counted {which}"
    yield _estimate(need, How.UNTIL, first_ms + kept_ms, why)


def _by_size(need: Need, log: LogNow, settings: TopicSettings, now_ms: int) -> Iterator[RetentionEstimate]:
    if (kept := settings.retention_bytes) is None:
        return
    why = f"keeps {kept:,} bytes of each partition (retention.bytes)"
    if log.size is None or log.first_ms is None:
        yield _estimate(need, How.FROM, now_ms, f"{why}; its size is not visible")
        return
    start = max(need.start, log.bounds.start)
    since = log.size * (log.bounds.end - start) // max(1, log.bounds.end - log.bounds.start)
    if since >= kept:
        yield _estimate(
            need,
            How.FROM,
            now_ms,
            f"{why}, of which {since:,} were written since the first record that is needed",
        )
    elif since:
        left_ms = (kept - since) * max(1, now_ms - log.first_ms) // since
        why += f", of which {since:,} were written since the first record that is needed: at that rate"
        yield _estimate(need, How.FROM, now_ms + left_ms, why)


def _by_compaction(
    need: Need, log: LogNow, settings: TopicSettings, cut_ms: int
) -> Iterator[RetentionEstimate]:
    least_ms, most_ms = settings.uncompacted_ms, settings.compacted_ms
    if least_ms >= FOR_EVER_MS:
        return
    # What supersedes a white value is red, or else it is white and the value that is needed.
    since_ms = log.first_ms if need.any_may_go and log.first_ms is not None else cut_ms
    latest = "" if most_ms is None else f", and at the latest after {format_ms(most_ms)}"
    soon = f"after {format_ms(least_ms)}" if least_ms else "without delay"
    why = f"may be compacted {soon} (min.compaction.lag.ms={least_ms}){latest}: doctor can delay it"
    yield _estimate(need, How.FROM, since_ms + least_ms, why)


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
