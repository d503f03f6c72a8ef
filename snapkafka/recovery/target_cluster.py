"""A restore into another cluster: a stored snapshot continues there; the old cluster is not needed.

Only the stored manifest and tables are left of the old cluster. They hold the state, the messages in flight, the
positions, and the topics with their settings; external records that were still to be read, if assembly was asked to
store them. They do not hold outputs, or records of the apps after the cut.

Nothing is deleted. A crash before the commit point leaves records that the next run does not count: they lie below its
bases. External records that producers have sent meanwhile are appended again after the messages in flight.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from snapkafka.checks import ReadRange
from snapkafka.errors import RestoreFailedError
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.manifest import Manifest
from snapkafka.protocol.records import TopicPartition
from snapkafka.protocol.restores import Restores, RestoreView
from snapkafka.wire.headers import ledger_id

from .channels import Channel, channels
from .lost_inputs import lost_arrivals, raise_lost
from .plan import AbsentInput, Plan
from .positions import Appended, changelogs_of, inputs_of, lowest_positions
from .reasons import code_refusals, copy_refusals, member_refusals
from .record_refusals import record_refusals
from .stored_rows import carried_by, ranges_from
from .target import Target, TargetRun, unforced
from .target_facts import Facts, Refusal
from .topics import Contents, NewTopic, new_topics, settle, topics_of, validated

#: Names in a sentence, at most.
NAMED: Final = 5
#: Added to offsets of the new log: they come after every one of the old.
NEW_LOG: Final = 1 << 62
#: No stamp is of this ledger.
NO_LEDGER: Final = -1


@dataclass(slots=True, kw_only=True)
class OtherCluster(Target):
    """An empty cluster, which is not the snapshot's."""

    _new: tuple[NewTopic, ...] = ()

    @property
    def origin(self) -> str:
        return self.session.manifest.ledger.topic_id

    # -- the plan ---------------------------------------------------------------------------------------------

    async def plan(self) -> Plan:
        session, manifest = self.session, self.session.manifest
        unfinished = session.state.restores.open
        same = unfinished is not None and _is_of(unfinished, manifest)
        begins = self._begins()
        carried = carried_by(record for records in begins.values() for record in records)
        facts = await self.facts(
            topics_of(manifest), carried, "" if unfinished is None or same else str(unfinished)
        )
        there = [TopicPartition(name, n) for name, it in facts.topics.items() for n in range(it.partitions)]
        plan = self.base_plan(unfinished if same else None)
        stored = sum(map(len, session.tables.external.values()))
        unseen = [app for app in plan.apps if app not in facts.hellos]
        self._new, unfit = new_topics(manifest, {}, self._contents(), await session.defaults())
        missing = missing_topics(self._new, facts.topics)
        return replace(
            plan,
            work=self.work(carried_by(record for of in session.tables.in_flight.values() for record in of)),
            topics=missing,
            existing=tuple(sorted(facts.topics)),
            stored=stored,
            absent=absent_inputs(manifest),
            notes=(*notes(manifest, unseen), *plan.notes),
            refusals=unforced(
                [
                    *refusals(
                        manifest,
                        facts,
                        await self._held(there),
                        session.state.restores,
                        resumes=unfinished if same else None,
                    ),
                    *await self._lost(facts.starts, facts.ends),
                    *unfit,
                    *await validated(session.admin, missing),
                ],
                force=session.request.force,
            ),
        )

    async def examined(self) -> Callable[[], Iterator[KafkaRecord]]:
        session = self.session
        described = await session.admin.describe_topics({tp.topic for tp in lowest_positions(self.captured)})
        there = [
            tp
            for tp in lowest_positions(self.captured)
            if tp.topic in described and tp.partition < described[tp.topic].partitions
        ]
        starts = await session.admin.log_starts(there) if there else {}
        ranges = ranges_from(starts, await session.admin.log_ends(there) if there else {})
        own_id = self._own_id
        return lambda: chain(
            (record for records in self._begins().values() for record in records),
            (
                record
                for channel in channels(session.bulk, ranges, {}, frozenset(there), own_id)
                for record in channel.records
            ),
        )

    async def _lost(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> list[Refusal]:
        inputs = {tp: starts[tp] for tp in inputs_of(self.captured) if tp in starts}
        return await asyncio.to_thread(
            lambda: list(lost_arrivals(self.session.bulk, inputs, ends, self._own_id))
        )

    @property
    def _own_id(self) -> int:
        topic_id = self.session.topic_id
        return ledger_id(bytes.fromhex(topic_id)) if topic_id else NO_LEDGER

    async def _held(self, there: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Count the records of each partition."""
        if not there:
            return {}
        ends, starts = await self.session.admin.log_ends(there), await self.session.admin.log_starts(there)
        return {tp: end - starts.get(tp, 0) for tp, end in ends.items()}

    def _begins(self) -> dict[TopicPartition, list[KafkaRecord]]:
        """Collect the first records of each input."""
        return self.session.tables.unread(lowest_positions(self.session.captured))

    def _contents(self) -> Contents:
        """Sum up the first records of the topics."""
        tables = self.session.tables
        return Contents(
            captured=self.session.captured,
            carried=carried_by(record for records in self._begins().values() for record in records),
            largest={topic: size for topic, (_, size) in tables.state.items()},
        )

    # -- what the steps ask -----------------------------------------------------------------------------------

    async def create(self, run: TargetRun) -> None:
        """Create the missing topics.

        Raises:
            RestoreFailedError: one has another number of partitions by now.
        """
        admin, wanted = self.session.admin, self._new
        names = [it.topic for it in wanted]
        there = await admin.describe_topics(names)
        for it in wanted:
            if it.topic not in there and await admin.create_topic(
                it.topic, partitions=it.partitions, replicas=it.replicas, settings=it.settings
            ):
                run.created.append(it.topic)
        now = await admin.describe_topics(names)
        for it in wanted:
            if now[it.topic].partitions != it.partitions:
                raise RestoreFailedError(
                    f"topic {it.topic} was created by another client meanwhile, with {now[it.topic].partitions}"
                    f" partitions instead of {it.partitions}",
                    hint="delete it, and run the same command again; see auto.create.topics.enable of the brokers",
                )
        run.changed += await settle(admin, wanted, self._contents())

    async def channels(
        self, run: TargetRun, ends: Mapping[TopicPartition, int]
    ) -> Callable[[], Iterator[Channel]]:
        lowest = lowest_positions(self.captured)
        starts = await run.admin.log_starts(lowest)
        raise_lost(await self._lost(starts, ends))
        ranges = ranges_from({tp: starts[tp] for tp in lowest}, ends)
        return lambda: self._in_order(ranges, run.ledger_id)

    def _in_order(self, ranges: Sequence[ReadRange], own_id: int) -> Iterator[Channel]:
        """Yield every input: the unread records, then external records that are in the new log by now."""
        every = frozenset(TopicPartition(it.topic, it.partition) for it in ranges)
        begins = self._begins()
        for found in channels(self.session.bulk, ranges, {}, every, own_id, editing=self.editing):
            flying = sorted(begins.get(found.tp, ()), key=lambda record: record.offset)
            since = (record._replace(offset=record.offset + NEW_LOG) for record in found.records)
            yield Channel(found.tp, (*self.editing.edit(flying), *since))

    def count(self, appended: Mapping[TopicPartition, Iterable[Appended]]) -> tuple[int, int]:
        external = {(tp, it.offset) for tp, records in self.session.tables.external.items() for it in records}
        places = [(tp, it.old) for tp, items in appended.items() for it in items]
        messages = sum(old < NEW_LOG and (tp, old) not in external for tp, old in places)
        return messages, len(places) - messages


def _is_of(view: RestoreView, manifest: Manifest) -> bool:
    """Return whether an open restore is that of this snapshot, from its own cluster."""
    begun = view.begun
    return (begun.snapshot, begun.epoch, begun.origin) == (
        manifest.id,
        manifest.epoch,
        manifest.ledger.topic_id,
    )


# --- What is not there -----------------------------------------------------------------------------------------------


def absent_inputs(manifest: Manifest) -> tuple[AbsentInput, ...]:
    """List every input from the first offset that no table has: no table tells what came from outside afterwards."""
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
            cut_end=max(begin[tp], *(cut.log_end for cut in cuts)),
        )
        for tp, cuts in inputs_of(manifest.captured).items()
    )


def notes(manifest: Manifest, unseen: Sequence[str]) -> tuple[str, ...]:
    """List what else is missing, a sentence each.

    Args:
        unseen: apps of which no process has joined in the new cluster.
    """
    captured = manifest.captured
    read = {*(tp.topic for tp in (*inputs_of(captured), *changelogs_of(captured)))}
    outputs = [name for name in topics_of(manifest) if name not in read]
    recorded = {it.name: it for it in manifest.topics}
    bare = [name for name in topics_of(manifest) if name not in recorded or not recorded[name].settings]
    found = []
    if outputs:
        found.append(f"outputs begin empty: {_named(outputs)}; what was in them before the cut is not stored")
    if bare:
        found.append(f"no settings are recorded for {_named(bare)}: the defaults of the new cluster apply")
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
    """Find the topics to create."""
    return tuple(it for it in new if it.topic not in there)


# --- Why not ---------------------------------------------------------------------------------------------------------


def refusals(
    manifest: Manifest,
    facts: Facts,
    ends: Mapping[TopicPartition, int],
    restores: Restores,
    *,
    resumes: RestoreView | None,
) -> Iterator[Refusal]:
    """Find every reason not to restore into this cluster.

    Args:
        facts: of the new cluster; `topics` are those of the snapshot that exist there.
        ends: the number of records in each of their partitions.
        restores: those in its ledger.
        resumes: the open restore to continue: its own topics and records are no reason.
    """
    yield from copy_refusals(manifest, facts.files, done="restored")
    yield from _cluster(manifest, facts, restores)
    if resumes is None:
        yield from _topics(manifest, facts, ends)
        yield from record_refusals(facts)
    yield from code_refusals(manifest.captured, facts.hellos)
    yield from member_refusals(facts.members)


def _cluster(manifest: Manifest, facts: Facts, restores: Restores) -> Iterator[Refusal]:
    if facts.ledger_topic_id == manifest.ledger.topic_id:
        yield Refusal(
            code="same-cluster",
            what=f"this cluster has the ledger that the snapshot is of ({manifest.ledger.topic})",
            hint="leave out --into: a restore in place keeps the topics and their records",
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
                hint="delete it while it is empty: the restore creates it",
            )
        held = sum(records for tp, records in ends.items() if tp.topic == topic)
        if held:
            yield Refusal(
                code="topic-not-empty",
                what=f"topic {topic} exists here and holds {held:,} records",
                hint="a restore into a cluster needs empty or absent topics: use another cluster, or delete it",
            )
