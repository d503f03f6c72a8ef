"""Describe what the creation of a fork does, computed without I/O.

Topics of a fork have the partition counts and the settings of those that they are named after, except where such a
setting would lose or refuse what the fork begins with: records in flight bear their old timestamps, and a header.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from snapkafka.manifest import Manifest
from snapkafka.ops.restore.planning import apps_of
from snapkafka.ops.restore.refusing import (
    AFTER,
    BEFORE,
    HEADER_BYTES,
    OVERHEAD_BYTES,
    UNBOUNDED,
    Carried,
    Refusal,
    parts_of,
)
from snapkafka.protocol.captured import Captured
from snapkafka.protocol.forking import LEDGER, of_fork, prefix_of, prefixed

__all__ = ["ForkPlan", "NewTopic", "Source", "in_fork", "new_topics", "refusals", "topics_of"]

#: Kafka's own limit.
TOPIC_CHARS_MAX = 249


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A topic of production. `settings`: those that hold; `own`: those that were made on the topic itself."""

    topic_id: str
    partitions: int
    replicas: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic that is created. `of`: the one that it is named after. `changed`: settings that are not those of that."""

    topic: str
    of: str
    partitions: int
    replicas: int | None
    settings: Mapping[str, str]
    changed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkPlan:
    """Hold what the creation of a fork would do, and why it would not.

    `apps`, `namespace`: by their names in the fork. `records`: how many messages and external records it begins with.
    `unfinished`: topics of an earlier attempt, which are removed first.
    """

    fork: str
    snapshot: str
    epoch: int
    verdict: str
    source: str
    namespace: str
    apps: tuple[str, ...]
    topics: tuple[NewTopic, ...]
    records: int
    state: int
    refusals: tuple[Refusal, ...]
    unfinished: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        return bool(self.refusals)


def topics_of(manifest: Manifest) -> dict[str, int]:
    """Count the partitions of each topic that a fork needs: inputs, changelogs and outputs."""
    counts: defaultdict[str, int] = defaultdict(int)
    for part in (*parts_of(manifest.captured), *manifest.captured.senders):
        counts[part.topic] = max(counts[part.topic], part.partition + 1)
    return dict(sorted(counts.items())) | {it.name: it.partitions for it in manifest.topics}


def in_fork(captured: Captured, fork: str) -> Captured:
    """Translate inputs and changelogs to their names in the fork."""

    def named(name: str) -> str:
        return prefixed(fork, name)

    return dataclasses.replace(
        captured,
        inputs=tuple(
            dataclasses.replace(
                cut,
                app=named(cut.app),
                topic=named(cut.topic),
                topic_id="",
                agents=tuple(dataclasses.replace(at, topic=named(at.topic)) for at in cut.agents),
            )
            for cut in captured.inputs
        ),
        changelogs=tuple(
            dataclasses.replace(cut, app=named(cut.app), topic=named(cut.topic), topic_id="")
            for cut in captured.changelogs
        ),
    )


def new_topics(
    manifest: Manifest,
    fork: str,
    sources: Mapping[str, Source],
    carried: Mapping[str, Carried],
    state_largest: Mapping[str, int],
    now_ms: int,
) -> tuple[NewTopic, ...]:
    """Compute the topics of a fork.

    Args:
        sources: the topics of production that exist.
        carried: what each input begins with.
        state_largest: the largest row of each changelog (bytes).
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
                topic=prefixed(fork, name),
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


# --- Why not ---------------------------------------------------------------------------------------------------------


def refusals(
    manifest: Manifest,
    fork: str,
    *,
    files: str,
    there: Collection[str],
    unfinished: Collection[str],
    exists: str,
    force: bool,
) -> tuple[Refusal, ...]:
    """Find every reason not to create a fork.

    Args:
        files: what is wrong with the files; empty: nothing.
        there: topics that exist.
        unfinished: those among them that an earlier attempt has left.
        exists: a fork that is there already, as a phrase; empty: none.
        force: leave out what it overrides.
    """
    found = [
        *_snapshot(manifest, files),
        *_names(manifest, fork, there, unfinished, exists),
    ]
    return tuple(item for item in found if not (force and item.forceable))


def _snapshot(manifest: Manifest, files: str) -> Iterator[Refusal]:
    if manifest.verdict not in ("VERIFIED", "VERIFIED_OPEN"):
        yield Refusal(
            code="verdict",
            what=f"snapshot {manifest.id} is {manifest.verdict or 'not verified'}",
            hint="choose a VERIFIED snapshot (`snapkafka list`), or add --force and expect wrong values",
            forceable=True,
        )
    if files:
        yield Refusal(code="files", what=files, hint="choose another snapshot, or assemble this one again")
    if not apps_of(manifest.captured):
        yield Refusal(
            code="no-apps",
            what=f"snapshot {manifest.id} has no app with inputs or tables",
            hint="choose one that was taken while workers ran",
        )
    changelogs = {cut.topic for cut in manifest.captured.changelogs}
    for topic in sorted({cut.topic for cut in manifest.captured.inputs} & changelogs):
        yield Refusal(
            code="changelog-is-input",
            what=f"topic {topic} is the changelog of one app and an input of another",
            hint="its readers would take the state that is written for new changes: this cannot be forked",
        )
    for topic, *codecs in sorted(
        {(c.topic, c.key_codec, c.value_codec) for c in manifest.captured.changelogs if c.sets}
    ):
        if codecs != ["json", "json"]:
            yield Refusal(
                code="set-codec",
                what=f"changelog {topic} of a table of sets has codecs {codecs[0]} and {codecs[1]}",
                hint="only tables of sets in JSON can be forked",
            )


def _names(
    manifest: Manifest, fork: str, there: Collection[str], unfinished: Collection[str], exists: str
) -> Iterator[Refusal]:
    if exists:
        yield Refusal(
            code="fork-exists",
            what=exists,
            hint=f"remove it first: snapkafka fork drop {fork}; or choose another name",
        )
        return
    external = sorted(topic for topic in there if of_fork(fork, topic) and topic not in unfinished)
    if external:
        more = f" and {len(external) - 1} more" if len(external) > 1 else ""
        yield Refusal(
            code="topics-exist",
            what=f"topic {external[0]}{more} begins with {prefix_of(fork)} already",
            hint=f"remove what is left of it (snapkafka fork drop {fork}), or choose another name",
        )
    names = [prefixed(fork, name) for name in (*topics_of(manifest), *apps_of(manifest.captured))]
    names.append(LEDGER + prefixed(fork, manifest.namespace))
    if too_long := [name for name in names if len(name) > TOPIC_CHARS_MAX]:
        yield Refusal(
            code="name-too-long",
            what=f"{too_long[0]} has {len(too_long[0])} characters, and Kafka takes {TOPIC_CHARS_MAX}",
            hint="choose a shorter name",
        )
