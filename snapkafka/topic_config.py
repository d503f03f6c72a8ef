"""The settings of a topic that decide how long Kafka keeps its records, as Kafka names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from snapkafka.protocol.records import Retention
from snapkafka.units import DAY_MS

#: In Kafka's settings: no bound.
UNBOUNDED: Final = -1
#: Kafka's other way to say so is the largest number that there is; nobody means a time of centuries.
FOR_EVER_MS: Final = 200 * 365 * DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The effective settings of a topic that decide what becomes of its records. None: no bound.

    `policy`: `cleanup.policy`. `retention_ms`, `retention_bytes`: what is older, or more, is deleted. `uncompacted_ms`:
    a record is not compacted sooner; `compacted_ms`: and at the latest then. `tombstones_ms`: a compacted log keeps a
    deletion so long. `message_bytes`: a larger batch is refused (None: also unknown). `append_time`: the broker sets
    the timestamps. `in_sync`: so many replicas acknowledge a record, at least.
    """

    policy: str
    retention_ms: int | None
    retention_bytes: int | None
    uncompacted_ms: int
    compacted_ms: int | None
    tombstones_ms: int
    message_bytes: int | None
    append_time: bool
    in_sync: int

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> TopicSettings:
        """Read settings as Kafka names them; one that is missing has Kafka's default, and to Kafka every number below
        0 means no bound."""

        def bound(name: str, above: int = FOR_EVER_MS) -> int | None:
            found = int(settings.get(name, UNBOUNDED))
            return found if 0 <= found < above else None

        return cls(
            policy=settings.get("cleanup.policy", "delete"),
            retention_ms=bound("retention.ms"),
            retention_bytes=bound("retention.bytes", 2**63 - 1),
            uncompacted_ms=int(settings.get("min.compaction.lag.ms", 0)),
            compacted_ms=bound("max.compaction.lag.ms"),
            tombstones_ms=int(settings.get("delete.retention.ms", DAY_MS)),
            message_bytes=bound("max.message.bytes") or None,
            append_time=settings.get("message.timestamp.type", "CreateTime") != "CreateTime",
            in_sync=int(settings.get("min.insync.replicas", 1)),
        )

    @property
    def deletes(self) -> bool:
        """Whether records are deleted for their age, or the size of the log."""
        return "delete" in self.policy

    @property
    def compacts(self) -> bool:
        """Whether only the last record of a key is kept."""
        return "compact" in self.policy


def promised_by(topic: str, holding: Mapping[str, str]) -> Retention:
    """Return the retention settings of a changelog."""
    settings = TopicSettings.parse(holding)
    retained_ms = UNBOUNDED
    if settings.deletes and settings.retention_bytes is not None:
        retained_ms = 0  # where size decides no age is safe
    elif settings.deletes and settings.retention_ms is not None:
        retained_ms = settings.retention_ms
    return Retention(
        topic=topic,
        uncompacted_ms=settings.uncompacted_ms,
        tombstones_ms=settings.tombstones_ms,
        retained_ms=retained_ms,
    )
