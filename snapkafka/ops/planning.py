"""`assemble --dry-run`: what an assembly would read, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from snapkafka.checks import CutView, ReadRange, reading_ranges, require_offsets
from snapkafka.errors import BadInputError
from snapkafka.kafka.connection import Connection
from snapkafka.kafka.lasting import log_bounds, log_sizes
from snapkafka.kafka.reading import Opened, find_captured, opened
from snapkafka.ports import Cluster
from snapkafka.protocol.captured import Captured
from snapkafka.protocol.records import TopicPartition

__all__ = ["Reading", "TopicReading", "plan_assembly"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReading:
    """What would be read of a topic. `records`: at most so many, as offsets may be empty. `bytes`: about so many, as
    they lie on the brokers' disks; None where that may not be looked at."""

    topic: str
    partitions: int
    records: int
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What would be read for a snapshot."""

    id: str
    epoch: int
    topics: tuple[TopicReading, ...]

    @property
    def records(self) -> int:
        return sum(item.records for item in self.topics)

    @property
    def bytes(self) -> int | None:
        """None where one of them is not known."""
        sizes = [item.bytes for item in self.topics if item.bytes is not None]
        return sum(sizes) if len(sizes) == len(self.topics) else None


async def plan_assembly(
    where: Connection | Cluster, namespace: str, names: Sequence[str]
) -> tuple[Reading, ...]:
    """What `assemble` would read now, of each snapshot, with all of its state.

    Args:
        names: as for `assemble`.

    Raises:
        UnknownSnapshotError, SnapshotFailedError, TimedOutError, OffsetsGoneError: as `assemble`.
    """
    if not names:
        raise BadInputError("no snapshot is named", hint="`snapkafka list` shows them")
    async with opened(where, namespace) as work:
        found = {find_captured(work.reading.state, name) for name in names}
        return tuple([await _reading(work, item) for item in sorted(found, key=lambda item: item.epoch)])


async def _reading(work: Opened, snapshot: Captured) -> Reading:
    unbound = CutView(snapshot)
    bounds = await log_bounds(work.admin, {*unbound.inputs, *unbound.changelogs})
    view = CutView(snapshot, bounds)
    require_offsets(view)
    of_topics = groupby(reading_ranges(view), key=lambda item: item.topic)
    topics = [await _of_topic(work, view, topic, list(ranges)) for topic, ranges in of_topics]
    return Reading(id=snapshot.id, epoch=snapshot.epoch, topics=tuple(topics))


async def _of_topic(work: Opened, view: CutView, topic: str, ranges: list[ReadRange]) -> TopicReading:
    sizes = await log_sizes(work.admin, topic)
    return TopicReading(
        topic=topic,
        partitions=len(ranges),
        records=sum(item.end - item.start for item in ranges),
        bytes=sum(_share(view, sizes.get(item.partition, 0), item) for item in ranges) if sizes else None,
    )


def _share(view: CutView, size: int, item: ReadRange) -> int:
    """The bytes of a range, taken as evenly spread over the log."""
    assert view.bounds is not None, "a range lies in a log"
    now = view.bounds[TopicPartition(item.topic, item.partition)]
    return size * (item.end - item.start) // (now.end - now.start)
