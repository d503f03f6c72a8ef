"""Describe what a restore into another cluster does, and what it cannot bring back, computed without I/O.

Of the old cluster there is nothing but what assembly has stored: the manifest and the tables. They hold the state, the
messages in flight, the positions, and the topics with their settings; external records that were still to be read,
where it was asked to store them. They do not hold outputs, or what the apps wrote after the cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from snapkafka.manifest import Manifest
from snapkafka.ops.restore.editing import RuleCount
from snapkafka.ops.restore.planning import changelogs_of, inputs_of, lowest_positions
from snapkafka.ops.restore.refusing import (
    Facts,
    Refusal,
    code_refusals,
    copy_refusals,
    member_refusals,
    record_refusals,
)
from snapkafka.ops.restore.topics import NewTopic, topics_of
from snapkafka.protocol.captured import InputCut
from snapkafka.protocol.records import TopicPartition
from snapkafka.protocol.restoring import Restores, RestoreView

__all__ = ["AbsentInput", "IntoPlan", "absent_inputs", "missing_topics", "notes", "refusals"]

#: What the manifest does not have.
UNRECORDED: Final = (
    "not recorded, and as the new cluster has them: replication factors, access rights, quotas, and the offsets of"
    " consumer groups outside of the snapshot"
)
#: Names in a sentence, at most.
NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentInput:
    """External records that the apps had still to read, and that no table holds: of the old cluster's log from `start`,
    the lowest position of an agent or the end of what is stored, on. `apart_until`: the highest position; between both
    some agents have processed a record and others have not. `cut_end`: where that log ended at the cut; what was
    written after it is not there either. `mixed`: the apps write there, too: what they had sent between both is in
    flight, and is restored."""

    topic: str
    partition: int
    start: int
    apart_until: int
    cut_end: int
    mixed: bool

    @property
    def unread(self) -> int:
        """How many offsets lay between the position and the end at the cut."""
        return self.cut_end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class IntoPlan:
    """Hold what a restore into another cluster would do, and why it would not.

    `topics`: are created; `existing`: are there already, and empty. `records`, `inputs`, `state`: how many messages in
    flight, stored external records, and rows of tables are appended. `absent`: external records that are not there.
    `notes`: what else is not, a sentence each. `open`: names the readers that leave the snapshot open. `resumes`,
    `stage`: the restore that this one continues; empty: it is a new one. `rules`: how much each rule about erased keys
    matches.
    """

    snapshot: str
    epoch: int
    namespace: str
    verdict: str
    apps: tuple[str, ...]
    topics: tuple[NewTopic, ...]
    existing: tuple[str, ...]
    records: int
    inputs: int
    state: int
    absent: tuple[AbsentInput, ...]
    notes: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    open: tuple[str, ...] = ()
    resumes: str = ""
    stage: str = ""
    rules: tuple[RuleCount, ...] = ()

    @property
    def refused(self) -> bool:
        return bool(self.refusals)


# --- What is not there -----------------------------------------------------------------------------------------------


def absent_inputs(manifest: Manifest) -> tuple[AbsentInput, ...]:
    """List the inputs with external records, or whose writers are unknown, from the offset on that no table has."""
    written = {end.topic for end in manifest.captured.senders}
    external = {entry.topic for entry in manifest.external}
    lowest = lowest_positions(manifest.captured)
    stored = {(it.topic, it.partition): it for it in manifest.inputs}
    begin = {
        tp: stored[tp].end if tp in stored and stored[tp].start <= position else position
        for tp, position in lowest.items()
    }
    return tuple(
        AbsentInput(
            topic=tp.topic,
            partition=tp.partition,
            start=begin[tp],
            apart_until=max(begin[tp], *(_passed(cut) for cut in cuts)),
            cut_end=max(begin[tp], *(cut.log_end for cut in cuts)),
            mixed=tp.topic in written,
        )
        for tp, cuts in inputs_of(manifest.captured).items()
        if tp.topic in external or tp.topic not in written
    )


def _passed(cut: InputCut) -> int:
    """Find the offset from which on no agent has started a record."""
    return max(
        (it + 1 for at in cut.agents for it in (at.offset - 1, *at.started_above)), default=cut.position
    )


def notes(manifest: Manifest, unseen: Sequence[str]) -> tuple[str, ...]:
    """Describe what else is not there: a sentence each.

    Args:
        unseen: apps of which no process has joined in the new cluster.
    """
    captured = manifest.captured
    read = {*(tp.topic for tp in (*inputs_of(captured), *changelogs_of(captured)))}
    outputs = [name for name in topics_of(manifest) if name not in read]
    recorded = {it.name: it for it in manifest.topics}
    bare = [name for name in topics_of(manifest) if name not in recorded or not recorded[name].settings]
    found = [UNRECORDED]
    if outputs:
        found.append(f"outputs begin empty: {_named(outputs)}; what was in them before the cut is not stored")
    if bare:
        found.append(f"no settings are recorded for {_named(bare)}: the defaults of the new cluster hold")
    if unseen:
        found.append(
            f"the code of {_named(unseen)} has not run here: it is not compared with that of the snapshot"
        )
    found += [f"{item.app}: {item.what}, and no snapshot holds that" for item in captured.uncaptured]
    return tuple(found)


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def missing_topics(new: tuple[NewTopic, ...], there: Collection[str]) -> tuple[NewTopic, ...]:
    """Find what has to be created."""
    return tuple(it for it in new if it.topic not in there)


# --- Why not ---------------------------------------------------------------------------------------------------------


def refusals(
    manifest: Manifest,
    facts: Facts,
    ends: Mapping[TopicPartition, int],
    restores: Restores,
    *,
    resumes: RestoreView | None,
    force: bool,
) -> tuple[Refusal, ...]:
    """Find every reason not to restore into this cluster.

    Args:
        facts: of the new cluster; `topics` are those of the snapshot that exist there, `starts` of their partitions.
        ends: the log ends of these.
        restores: what its ledger states.
        resumes: the open restore that is continued.
        force: leave out what it overrides.
    """
    found = [
        *copy_refusals(manifest, facts.files, done="restored"),
        *_cluster(manifest, facts, restores),
        *(_topics(manifest, facts, ends) if resumes is None else ()),
        *code_refusals(manifest.captured, facts.hellos),
        *record_refusals(facts),
        *member_refusals(facts.members),
    ]
    return tuple(item for item in found if not (force and item.forceable))


def _cluster(manifest: Manifest, facts: Facts, restores: Restores) -> Iterator[Refusal]:
    if facts.ledger_topic_id == manifest.ledger.topic_id:
        yield Refusal(
            code="same-cluster",
            what=f"this cluster has the ledger that the snapshot is of ({manifest.ledger.topic})",
            hint="leave out --into: a restore in place keeps the topics and all that lies in them",
        )
    if facts.other_plan:
        yield Refusal(
            code="plan-open",
            what=f"another restore is open: {facts.other_plan}",
            hint="finish it, or give it up: snapkafka restore --abort",
        )
    for view in restores.views.values():
        if view.stage == "done" and view.begun.origin:
            yield Refusal(
                code="restored-already",
                what=f"{view} was restored into this cluster already",
                hint="start the workers; to go back to a later snapshot, restore it in place",
            )


def _topics(manifest: Manifest, facts: Facts, ends: Mapping[TopicPartition, int]) -> Iterator[Refusal]:
    for topic, partitions in topics_of(manifest).items():
        now = facts.topics.get(topic)
        if now is None:
            continue
        if now.partitions != partitions:
            yield Refusal(
                code="partitions-changed",
                what=f"topic {topic} has {now.partitions} partitions here, and had {partitions} in the snapshot",
                hint="delete it, as long as it is empty: it is created as it was",
            )
        held = sum(end - facts.starts.get(tp, 0) for tp, end in ends.items() if tp.topic == topic)
        if held:
            yield Refusal(
                code="topic-not-empty",
                what=f"topic {topic} exists here and holds {held:,} records",
                hint="a restore into a cluster takes topics that are empty or not there: use another, or delete it",
            )
