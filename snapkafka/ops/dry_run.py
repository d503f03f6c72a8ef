"""`assemble --dry-run`: estimate the records that an assembly would read, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from snapkafka.assembly.avro_schemas import read_schemas
from snapkafka.assembly.base import Base, base_or_whole, view_on
from snapkafka.assembly.cluster import DEFAULT_ISOLATION
from snapkafka.assembly.spec import JobSpec
from snapkafka.checks import CutView, ReadRange, reading_ranges, require_offsets
from snapkafka.checks.invariants import load, parse_parameters
from snapkafka.errors import BadInputError
from snapkafka.kafka.cluster.restorable import log_bounds, log_sizes
from snapkafka.kafka.ledger.reading import Opened, find_captured, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import LedgerEntry
from snapkafka.ports import Cluster
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.records import TopicPartition
from snapkafka.store import open_store


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReading:
    """The reading of one topic. `records`: the upper bound of its records, as offsets may be empty. `bytes`: estimated
    size on the brokers' disks; None: unauthorized."""

    topic: str
    partitions: int
    records: int
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """The reading for one snapshot.

    `parent`: its base; empty: all of its state is read. `why_full`: why that is so of an incremental one, as of now: a
    parent that is assembled first, in the same run, makes the numbers smaller.
    """

    id: str
    epoch: int
    topics: tuple[TopicReading, ...]
    parent: str = ""
    why_full: str = ""

    @property
    def records(self) -> int:
        return sum(item.records for item in self.topics)

    @property
    def bytes(self) -> int | None:
        """The sum of the bytes; None if one of them is unknown."""
        sizes = [item.bytes for item in self.topics if item.bytes is not None]
        return sum(sizes) if len(sizes) == len(self.topics) else None


async def plan_assembly(where: Connection | Cluster, spec: JobSpec) -> tuple[ReadPlan, ...]:
    """Estimate what `assemble` would read now of the log, for each snapshot; for an incremental one its delta.

    Args:
        spec: as for `assemble`; the storage is only read, and only for a parent.

    Raises:
        UnknownSnapshotError, SnapshotFailedError, TimedOutError, OffsetsGoneError, BadInputError, StorageError: as for
            `assemble`.
    """
    if not spec.snapshots:
        raise BadInputError("no snapshot is named", hint="`snapkafka list` shows them")
    load(spec.invariants, parse_parameters(spec.parameters))
    read_schemas(spec.avro)
    async with opened(where, spec.namespace) as work:
        found = {find_captured(work.reading.state, name) for name in spec.snapshots}
        readings = []
        for item in sorted(found, key=lambda item: item.epoch):
            place = spec.storage or item.storage
            base, why_full = await _base(work, item, place, spec.isolation)
            readings.append(await _reading(work, item, base, why_full))
        return tuple(readings)


async def _base(work: Opened, snapshot: Captured, place: str, isolation: str) -> tuple[Base | None, str]:
    """Return the base of a snapshot, as far as it is assembled, or why it has none."""
    if snapshot.type != "incremental":
        return None, ""
    topic = work.ledger.topic
    known = (await work.admin.describe_topics([topic])).get(topic)
    ledger = LedgerEntry(topic=topic, topic_id=known.topic_id if known is not None else "")
    return base_or_whole(open_store(place), snapshot, ledger, isolation=isolation or DEFAULT_ISOLATION)


async def _reading(work: Opened, snapshot: Captured, base: Base | None, why_full: str) -> ReadPlan:
    unbound = CutView(snapshot)
    bounds = await log_bounds(work.admin, {*unbound.inputs, *unbound.changelogs})
    view = view_on(base, snapshot, bounds)
    require_offsets(view, starts=view.starts)
    of_topics = groupby(reading_ranges(view, starts=view.starts), key=lambda item: item.topic)
    topics = [await _of_topic(work, view, topic, list(ranges)) for topic, ranges in of_topics]
    return ReadPlan(
        id=snapshot.id,
        epoch=snapshot.epoch,
        topics=tuple(topics),
        parent="" if base is None else snapshot.parent,
        why_full=why_full,
    )


async def _of_topic(work: Opened, view: CutView, topic: str, ranges: list[ReadRange]) -> TopicReading:
    sizes = await log_sizes(work.admin, topic)
    return TopicReading(
        topic=topic,
        partitions=len(ranges),
        records=sum(item.end - item.start for item in ranges),
        bytes=sum(_share(view, sizes.get(item.partition, 0), item) for item in ranges) if sizes else None,
    )


def _share(view: CutView, size: int, item: ReadRange) -> int:
    """Estimate the bytes of a range, as if they were spread evenly over the log."""
    assert view.bounds is not None, "a range lies in a log"
    now = view.bounds[TopicPartition(item.topic, item.partition)]
    return size * (item.end - item.start) // (now.end - now.start)
