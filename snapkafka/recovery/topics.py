"""The topics to create for a snapshot: for a fork, or in a cluster without them.

They have the partition counts and the settings of the snapshot's topics, except for settings that would lose or refuse
their first records: messages in flight keep their old timestamps, and get a header.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from snapkafka.errors import LedgerUnusableError, RestoreFailedError
from snapkafka.manifest import Manifest
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.units import wall_ms

from .new_topics import Fitting, fit_input, fit_plain_changelog, fit_set_changelog
from .positions import parts_of
from .stored_rows import GroupAdmin
from .target_facts import Carried, Refusal


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
) -> tuple[tuple[NewTopic, ...], tuple[Refusal, ...]]:
    """Compute the topics to create for a snapshot, and the reasons against them.

    Args:
        sources: the existing topics of the snapshot; for others the manifest counts.
        contents: their first records.
        defaults: the cluster's settings of a topic without its own.
        named: translates the name of a topic of the snapshot.
    """
    recorded = {it.name: it for it in manifest.topics}
    found: list[NewTopic] = []
    refusals: list[Refusal] = []
    for name, partitions in topics_of(manifest).items():
        source = sources.get(name)
        own = source.own if source is not None else {}
        if not own and name in recorded:
            own = recorded[name].settings
        holding = {**defaults, **own, **(source.settings if source is not None else {})}
        fitting = contents.fit(name, named(name), holding, own) if holding else Fitting({})
        refusals += fitting.refusals
        found.append(
            NewTopic(
                topic=named(name),
                of=name,
                partitions=partitions,
                replicas=source.replicas if source is not None else None,
                settings={**own, **fitting.changes},
                changed=fitting.changes,
            )
        )
    return tuple(found), tuple(refusals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The first records of new topics, by the names of the snapshot.

    `carried`: of each input. `largest`: the largest row of each changelog (bytes).
    """

    captured: Captured
    carried: Mapping[str, Carried]
    largest: Mapping[str, int]

    def fit(self, of: str, topic: str, holding: Mapping[str, str], own: Mapping[str, str]) -> Fitting:
        """Find the settings of a topic that would lose or refuse its records.

        Args:
            of: its name in the snapshot.
            topic: its name in the target.
            holding: its effective settings.
            own: those on the topic of the snapshot itself.
        """
        cuts = {cut.topic: cut for cut in self.captured.changelogs}
        if of in cuts:
            fit = fit_set_changelog if cuts[of].sets else fit_plain_changelog
            return fit(topic, holding, self.largest.get(of, 0))
        carried = self.carried.get(of, Carried())
        if not carried.records:
            return Fitting({})
        return fit_input(topic, holding, carried, now_ms=wall_ms(), recorded=own)


async def validated(admin: Topics, wanted: Iterable[NewTopic]) -> tuple[Refusal, ...]:
    """Ask the cluster whether it would create topics; nothing is created.

    Returns:
        a reason for each that it would refuse, with the broker's own words.
    """
    found = []
    for it in wanted:
        try:
            await admin.create_topic(
                it.topic,
                partitions=it.partitions,
                replicas=it.replicas,
                settings=it.settings,
                validate_only=True,
            )
        except LedgerUnusableError as error:
            hint = "create the topic by hand with other settings, or change the broker"
            found.append(Refusal(code="topic-refused", what=error.message, hint=hint))
    return tuple(found)


async def settle(admin: Topics, wanted: Iterable[NewTopic], contents: Contents) -> tuple[str, ...]:
    """Read the settings of the created topics, defaults of the cluster included, and change those that would lose or
    refuse their records.

    Returns:
        the changes, a sentence for each topic.

    Raises:
        RestoreFailedError: something cannot be changed.
    """
    changed = []
    for it in wanted:
        holding, _ = await admin.topic_settings(it.topic)
        fitting = contents.fit(it.of, it.topic, holding, it.settings)
        if fitting.refusals:
            raise RestoreFailedError(fitting.refusals[0].what, hint=fitting.refusals[0].hint)
        if fitting.changes:
            await admin.alter_settings(it.topic, fitting.changes)
            settings = ", ".join(f"{name}={value}" for name, value in sorted(fitting.changes.items()))
            changed.append(f"topic {it.topic} got {settings}: its records would be deleted or refused")
    return tuple(changed)
