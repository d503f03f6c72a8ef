"""The topics of a snapshot, and the settings that they need so that nothing that is appended is refused or deleted.

Messages in flight keep their old timestamps and get a header, so a broker may refuse them, or delete them within
minutes. A new topic is created with the settings of the snapshot's, except for those; what holds after its creation is
read, for the defaults of its broker count as well. A topic that is there is not changed: a restore is refused by name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from snapkafka.manifest import Manifest
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.topic_config import TopicSettings
from snapkafka.units import wall_ms

from .positions import parts_of
from .stored_rows import Carried, GroupAdmin

#: Our header on a record that is appended, with its name and lengths, and Kafka's own of a record and its batch.
ADDED_BYTES: Final = 32 + 100
#: Apps have so long to catch up before their messages may be deleted, or half of what the topic keeps, if that is less.
CATCH_UP_MS: Final = 86_400_000
#: In settings of times, and of retention: no bound.
ENDLESS: Final = str(2**63 - 1)
FOREVER: Final = "-1"
#: What a changelog needs, whatever was recorded. If records of a table are deleted by age as well, as Faust does for
#: windows, state is lost that no app writes again; of a set compaction would keep only the last member.
TABLE: Final = {"cleanup.policy": "compact"}
SETS: Final = {"cleanup.policy": "delete", "retention.ms": FOREVER, "retention.bytes": FOREVER}


class Topics(GroupAdmin, Protocol):
    """The requests that create and delete topics in a recovery."""

    async def topic_defaults(self) -> Mapping[str, str]:
        """Read the settings of a topic that is created without any."""

    async def delete_topics(self, *topics: str) -> None:
        """Delete topics; those that do not exist are skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An existing topic. `settings`: the effective ones; `own`: those on the topic itself."""

    topic_id: str
    partitions: int
    replicas: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. `of`: its original. `replicas` None: the cluster's default. `changed`: settings that differ
    from the original."""

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
    contents: Contents,
    defaults: Mapping[str, str],
    named: Callable[[str], str] = lambda name: name,
) -> tuple[NewTopic, ...]:
    """Compute the topics to create for a snapshot.

    Args:
        sources: the existing topics of the snapshot; for others the manifest counts.
        contents: their first records.
        defaults: the cluster's settings of a topic without its own.
        named: translates the name of a topic of the snapshot.
    """
    recorded = {it.name: it for it in manifest.topics}
    found: list[NewTopic] = []
    for name, partitions in topics_of(manifest).items():
        source = sources.get(name)
        own = source.own if source is not None else {}
        if not own and name in recorded:
            own = recorded[name].settings
        holding = {**defaults, **own, **(source.settings if source is not None else {})}
        changes = contents.changes(name, holding, recorded=own) if holding else {}
        found.append(
            NewTopic(
                topic=named(name),
                of=name,
                partitions=partitions,
                replicas=source.replicas if source is not None else None,
                settings={**own, **changes},
                changed=changes,
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The records that topics get, by the names of the snapshot.

    `carried`: of each input. `largest`: the largest row of each changelog (bytes).
    """

    captured: Captured
    carried: Mapping[str, Carried]
    largest: Mapping[str, int]

    def changes(
        self, of: str, holding: Mapping[str, str], *, recorded: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Find the settings of a topic that would lose or refuse its records, as they would have to be.

        Args:
            of: its name in the snapshot.
            holding: its effective settings.
            recorded: those on the topic of the snapshot itself, if this one is created for it.
        """
        changelog = next((cut for cut in self.captured.changelogs if cut.topic == of), None)
        carried = self.carried.get(of, Carried())
        largest = self.largest.get(of, 0) if changelog is not None else carried.largest
        found: dict[str, str] = {}
        if changelog is not None and recorded is not None:
            wanted = SETS if changelog.sets else TABLE
            found = {name: value for name, value in wanted.items() if holding.get(name) != value}
        elif changelog is None and carried.records:
            found = dict(_times(holding, carried, wall_ms(), recorded))
        limit = TopicSettings.parse(holding).message_bytes
        if largest and limit is not None and limit < largest + ADDED_BYTES:
            found["max.message.bytes"] = str(largest + ADDED_BYTES)
        return found


def _times(
    holding: Mapping[str, str], carried: Carried, now_ms: int, recorded: Mapping[str, str] | None
) -> Iterator[tuple[str, str]]:
    """Find the settings that would delete messages by age, size or key, or refuse their timestamps."""
    settings = TopicSettings.parse(holding)
    deletes = settings.deletes
    if recorded is not None and settings.compacts and "compact" not in recorded.get("cleanup.policy", ""):
        deletes = True
        yield "cleanup.policy", "delete"  # else messages of one key, or without a key, would be lost
    size = carried.bytes + carried.records * ADDED_BYTES
    if deletes and settings.retention_bytes is not None and settings.retention_bytes < size:
        yield "retention.bytes", FOREVER
    if settings.append_time:
        return  # times are those of the append
    age_ms, ahead_ms = now_ms - carried.oldest_ms, carried.youngest_ms - now_ms
    if deletes and (kept_ms := settings.retention_ms) is not None:
        catch_up_ms = 0 if recorded is None else min(CATCH_UP_MS, kept_ms // 2)
        if kept_ms - age_ms < catch_up_ms:
            yield "retention.ms", FOREVER
    for name, beyond in (
        ("message.timestamp.before.max.ms", age_ms),
        ("message.timestamp.after.max.ms", ahead_ms),
        ("message.timestamp.difference.max.ms", max(age_ms, ahead_ms)),  # of brokers before 3.6
    ):
        if 0 <= int(holding.get(name, -1)) < beyond:
            yield name, ENDLESS
