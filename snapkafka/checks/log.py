"""The log as the checks see it: its records, and the bounds of its partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from snapkafka.protocol.records import TopicPartition

#: The process of a record that none of ours wrote.
EXTERNAL: Final = -1


#: Past every offset.
NO_END: Final = (1 << 63) - 1


class LogRecord(NamedTuple):
    """Hold what a check needs of a record: where it is, and what its `_sk` header states (`process` EXTERNAL: no
    header).

    `cause`: partition and offset of the record whose event it is an effect of; None: of none, or not stamped.
    `key_hash`: None where it has no key, or none that matters here.
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
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """Hold what the broker has promised to keep of a partition since the cut, in milliseconds, and how old that is by
    now.

    `uncompacted_ms`: a record younger than that supersedes none (min.compaction.lag.ms). `tombstones_ms`: so long a
    deletion stays (delete.retention.ms). `retained_ms`: older records may be deleted; None: none ever is for its age.
    `since_parent`: the same since the cut of the parent, where one stands for the state up to there; None: none does.
    """

    age_ms: int
    uncompacted_ms: int = 0
    tombstones_ms: int = 0
    retained_ms: int | None = None
    since_parent: Keeping | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """Hold what a partition's log holds now: offsets `[start, end)`; `topic_id` is Kafka's own, hex, empty if unknown.

    `keeping`: None where it is not known.
    """

    start: int
    end: int
    topic_id: str = ""
    keeping: Keeping | None = None
