"""The log as the checks see it: its records, and the bounds of its partitions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from snapkafka.protocol.records import TopicPartition

#: The process of a record that none of ours wrote.
EXTERNAL: Final = -1


#: The partition of a record: a log has few of them, and many records.
place: Final = lru_cache(maxsize=None)(TopicPartition)

#: Past every offset.
NO_END: Final = (1 << 63) - 1


class LogRecord(NamedTuple):
    """The facts that a check needs of a record: its place, and the content of its `_sk` header (`process` EXTERNAL: no
    header).

    `cause`: partition and offset of the record whose event causes it; None: there is none, or it is not stamped.
    `key_hash`: None if it has no key, or none that matters here.
    """

    topic: str
    partition: int
    offset: int
    process: int = EXTERNAL
    epoch: int = 0
    seq: int = -1
    marker: bool = False
    cause: tuple[TopicPartition, int] | None = None
    key_hash: int | None = None

    @property
    def tp(self) -> TopicPartition:
        return place(self[0], self[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """The retention of a partition since the cut, in milliseconds, and the present age of the cut.

    `uncompacted_ms`: younger records are not compacted (min.compaction.lag.ms). `tombstones_ms`: how long a deletion
    stays (delete.retention.ms). `retained_ms`: older records may be deleted; None: none ever is for its age.
    `since_parent`: the same since the cut of the parent that stands for the state up to there; None: there is no
    parent.
    """

    age_ms: int
    uncompacted_ms: int = 0
    tombstones_ms: int = 0
    retained_ms: int | None = None
    since_parent: Keeping | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """The offsets `[start, end)` that a partition's log holds now; `topic_id` is Kafka's own, hex, empty if unknown.

    `keeping`: None: unknown.
    """

    start: int
    end: int
    topic_id: str = ""
    keeping: Keeping | None = None
