"""The topics that are created for what a snapshot holds: for a fork, or in a cluster that has none of them.

They have the partition counts and the settings of those of the snapshot, except where such a setting would lose or
refuse what they begin with: records in flight bear their old timestamps, and a header.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from snapkafka.manifest import Manifest

from .facts import Groups
from .positions import parts_of
from .refusals import AFTER, BEFORE, HEADER_BYTES, OVERHEAD_BYTES, UNBOUNDED, Carried

__all__ = ["NewTopic", "Source", "Topics", "new_topics", "topics_of"]


class Topics(Groups, Protocol):
    """Topics as a recovery creates and deletes them."""

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replicas: int | None = None,
        settings: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> bool:
        """Create a topic; False where it was there already."""

    async def delete_topics(self, *topics: str) -> None:
        """Delete topics; those that are not there are skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A topic that exists. `settings`: those that hold; `own`: those that were made on the topic itself."""

    topic_id: str
    partitions: int
    replicas: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic that is created. `of`: the one that it is named after. `replicas` None: as the cluster has them.
    `changed`: settings that are not those of that."""

    topic: str
    of: str
    partitions: int
    replicas: int | None
    settings: Mapping[str, str]
    changed: Mapping[str, str] = field(default_factory=dict)


def topics_of(manifest: Manifest) -> dict[str, int]:
    """Count the partitions of each topic of a snapshot: inputs, changelogs and outputs."""
    counts: defaultdict[str, int] = defaultdict(int)
    for part in (*parts_of(manifest.captured), *manifest.captured.senders):
        counts[part.topic] = max(counts[part.topic], part.partition + 1)
    return dict(sorted(counts.items())) | {it.name: it.partitions for it in manifest.topics}


def new_topics(
    manifest: Manifest,
    sources: Mapping[str, Source],
    carried: Mapping[str, Carried],
    state_largest: Mapping[str, int],
    now_ms: int,
    named: Callable[[str], str] = lambda name: name,
) -> tuple[NewTopic, ...]:
    """Compute the topics that are created for a snapshot.

    Args:
        sources: the topics of the snapshot that exist; of others it counts what the manifest has recorded.
        carried: what each input begins with.
        state_largest: the largest row of each changelog (bytes).
        named: translates the name of a topic of the snapshot.
    """
    recorded = {it.name: it for it in manifest.topics}
    found = []
    for name, partitions in topics_of(manifest).items():
        source = sources.get(name)
        own = source.own if source is not None else {}
        if not own and name in recorded:
            own = recorded[name].settings
        holding = {**own, **(source.settings if source is not None else {})}
        changed = _fitting(holding, carried.get(name, Carried()), state_largest.get(name, 0), now_ms)
        found.append(
            NewTopic(
                topic=named(name),
                of=name,
                partitions=partitions,
                replicas=source.replicas if source is not None else None,
                settings={**own, **changed},
                changed=changed,
            )
        )
    return tuple(found)


def _fitting(holding: Mapping[str, str], carried: Carried, largest: int, now_ms: int) -> dict[str, str]:
    """Find the settings that would lose or refuse what is appended, each with a value that does not."""
    changed = {}
    limit = int(holding.get("max.message.bytes", 0))
    needed = max(largest, carried.largest) + HEADER_BYTES + OVERHEAD_BYTES
    if limit and needed > limit:
        changed["max.message.bytes"] = str(needed)
    if not carried.records or holding.get("message.timestamp.type", "CreateTime") != "CreateTime":
        return changed
    age_ms, ahead_ms = now_ms - carried.oldest_ms, carried.youngest_ms - now_ms
    retention_ms = int(holding.get("retention.ms", -1))
    if "delete" in holding.get("cleanup.policy", "delete") and retention_ms != -1 and age_ms > retention_ms:
        changed["retention.ms"] = "-1"
    for name, beyond in ((BEFORE, age_ms), (AFTER, ahead_ms)):
        bound = int(holding.get(name, -1))
        if bound not in UNBOUNDED and beyond > bound:
            changed[name] = str(UNBOUNDED[-1])
    return changed
