"""A copy of a snapshot in topics that are created for it: in another cluster, or beside the system, as a fork.

Another cluster has only the stored manifest and tables of the old one: state, messages in flight, positions, topics
with their settings, and external records if assembly was asked to store them; no outputs, and no records of the apps
after the cut. External records that producers have sent there meanwhile come after the messages in flight. Nothing is
deleted: a crash leaves records that the next run does not count, because they lie below its bases.

A fork has its topics, groups and ledger under a prefix, in the same cluster; the original is only read. Its prefix has
no topics before. A crash before `done` leaves some, which `fork drop` removes. See docs/guide/fork.md.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from snapkafka.checks import ReadRange
from snapkafka.errors import ForkFailedError, LedgerUnusableError, RestoreFailedError
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.manifest import Manifest
from snapkafka.protocol.forking import of_fork, prefixed
from snapkafka.protocol.records import Fork, Restore, TopicPartition
from snapkafka.runtime.signals import to_its_end
from snapkafka.units import wall_ms
from snapkafka.wire.headers import ledger_id

from .channels import Channel, channels
from .lost_inputs import lost_arrivals, lost_inputs, raise_lost
from .plan import AbsentInput, Plan
from .positions import apps_of, inputs_of, lowest_positions
from .refusals import refusals
from .stored_rows import carried_by
from .target import Offsets, Target
from .target_facts import Refusal
from .topics import Contents, NewTopic, Source, new_topics, topics_of

#: No stamp is of this ledger.
NO_LEDGER: Final = -1
#: Above every offset: where the log of a topic starts that does not exist.
NO_LOG: Final = 1 << 63


class Begins(NamedTuple):
    """What the inputs of a copy begin with: stored records, and external ones from ranges of a log whose stamps are of
    ledger `ledger_id`. `lost`: what is missing there."""

    stored: Mapping[TopicPartition, Sequence[KafkaRecord]]
    ranges: Sequence[ReadRange]
    ledger_id: int
    lost: Sequence[Refusal] = ()


@dataclass(slots=True, kw_only=True)
class Copy(Target):
    """An empty cluster, which is not the snapshot's, or the prefix of a fork."""

    _new: tuple[NewTopic, ...] = ()
    _contents: Contents | None = None

    @property
    def fork(self) -> str:
        return self.session.request.fork

    def named(self, name: str) -> str:
        return prefixed(self.fork, name) if self.fork else name

    @property
    def origin(self) -> str:
        return "" if self.fork else self.session.manifest.ledger.topic_id

    # -- the plan ---------------------------------------------------------------------------------------------

    async def plan(self) -> Plan:
        session, manifest = self.session, self.session.manifest
        unfinished = session.state.restores.open
        same = unfinished is not None and _is_of(unfinished.begun, manifest)
        begins = await self._begins()
        carried = carried_by(record for records in begins.stored.values() for record in records)
        self._contents = contents = self.contents(carried)
        sources = await self._sources() if self.fork else {}
        self._new = new = new_topics(manifest, sources, contents, await session.defaults(), self.named)
        names = await session.admin.describe_topics() if self.fork else ()
        under_prefix = [name for name in names if of_fork(self.fork, name)]
        facts = replace(
            await self.facts(topics_of(manifest), contents, new={it.of: it.settings for it in new}),
            lost=begins.lost,
            under_prefix=under_prefix,
            resumes=unfinished if same else None,
        )
        there = () if self.fork else facts.topics.keys()
        missing = tuple(it for it in new if it.topic not in there)
        facts = replace(
            facts,
            holding=await self._holding(facts.topics),
            rejected=await self._rejected(missing, under_prefix),
        )
        plan = self.base_plan(facts.resumes)
        unseen = [app for app in plan.apps if app not in facts.hellos]
        return replace(
            plan,
            topics=missing,
            existing=tuple(sorted(there)),
            stored=sum(map(len, begins.stored.values())) - sum(map(len, session.tables.in_flight.values())),
            absent=() if self.fork else absent_inputs(manifest),
            notes=() if self.fork else notes(manifest, unseen),
            refusals=refusals(facts, force=session.request.force),
        )

    async def _begins(self, bases: Offsets | None = None, own_id: int | None = None) -> Begins:
        """Find what the inputs begin with.

        Args:
            bases: in another cluster, where to stop; None: at the present ends.
            own_id: of the ledger there; None: of the one that exists.
        """
        session, admin = self.session, self.session.admin
        lowest = lowest_positions(session.captured)
        if self.fork and not session.request.with_inputs:
            ranges = [ReadRange(*tp, 0, 0) for tp in lowest]
            return Begins(session.tables.in_flight, ranges, NO_LEDGER)
        there = await self.existing(lowest)
        starts = dict(await admin.log_starts(there)) if there else {}
        ends = dict(bases if bases is not None else await admin.log_ends(there) if there else {})
        if self.fork:
            own_id = ledger_id(bytes.fromhex(session.manifest.ledger.topic_id))
            stored = session.tables.unread(lowest, {tp: starts.get(tp, NO_LOG) for tp in lowest})
            begin = {tp: max(lowest[tp], starts[tp]) for tp in there}
        else:
            if own_id is None:
                own_id = ledger_id(bytes.fromhex(session.topic_id)) if session.topic_id else NO_LEDGER
            stored, begin = session.tables.unread(lowest), starts
        ranges = [ReadRange(*tp, begin.get(tp, 0), ends.get(tp, 0)) for tp in lowest]

        def lost() -> list[Refusal]:
            if not self.fork:
                return list(lost_arrivals(session.bulk, starts, ends, own_id))
            known = {tp: lowest[tp] for tp in there}
            return list(
                lost_inputs(session.manifest, session.tables, session.bulk, known, starts, ends, own_id)
            )

        return Begins(stored, ranges, own_id, await asyncio.to_thread(lost))

    def _channels(self, begins: Begins, *, edited: bool) -> Iterator[Channel]:
        return channels(
            self.session.bulk,
            begins.ranges,
            begins.stored,
            frozenset(TopicPartition(it.topic, it.partition) for it in begins.ranges),
            begins.ledger_id,
            self.editing if edited else None,
            apart=not self.fork,
        )

    async def examined(self) -> Callable[[], Iterator[KafkaRecord]]:
        begins = await self._begins()
        return lambda: (
            record for channel in self._channels(begins, edited=False) for record in channel.records
        )

    async def _holding(self, topics: Mapping[str, object]) -> dict[str, int]:
        """Count the records of the topics that exist in another cluster."""
        if self.fork or not topics:
            return {}
        admin = self.session.admin
        there = [
            TopicPartition(name, number)
            for name, it in (await admin.describe_topics(list(topics))).items()
            for number in range(it.partitions)
        ]
        starts, ends = await admin.log_starts(there), await admin.log_ends(there)
        return {
            name: sum(ends.get(tp, 0) - starts.get(tp, 0) for tp in there if tp.topic == name)
            for name in topics
        }

    async def _rejected(self, wanted: Sequence[NewTopic], there: Sequence[str]) -> list[str]:
        """Ask the cluster whether it would create topics; return its words where it would not. Nothing is created."""
        found = []
        for it in wanted if not there else ():
            try:
                await self.session.admin.create_topic(
                    it.topic,
                    partitions=it.partitions,
                    replicas=it.replicas,
                    settings=it.settings,
                    validate_only=True,
                )
            except LedgerUnusableError as error:
                found.append(error.message)
        return found

    async def _sources(self) -> dict[str, Source]:
        """Read the topics of production."""
        admin = self.session.admin
        found = {}
        for name, it in (await admin.describe_topics(list(topics_of(self.session.manifest)))).items():
            try:
                holding, own = await admin.topic_settings(name)
            except LedgerUnusableError:  # without the right to read them, what was recorded counts
                holding, own = {}, {}
            found[name] = Source(
                topic_id=it.topic_id,
                partitions=it.partitions,
                replicas=getattr(it, "replicas", None) or None,
                settings=holding,
                own=own,
            )
        return found

    # -- what the steps ask -----------------------------------------------------------------------------------

    def announced(self, plan: Plan, who: str) -> Fork | None:
        if not self.fork:
            return None
        expires_s = self.session.request.expires_s
        self.expires_ms = 0 if expires_s is None else wall_ms() + round(expires_s * 1_000)
        return Fork(
            n=random.getrandbits(62),
            plan=plan.plan,
            fork=self.fork,
            source=self.session.request.namespace or self.session.manifest.namespace,
            snapshot=plan.snapshot,
            attempt=plan.attempt,
            epoch=plan.epoch,
            apps=apps_of(self.session.captured),
            expires_ms=self.expires_ms,
            who=who,
        )

    async def create(self) -> None:
        """Create the missing topics.

        Raises:
            ForkFailedError: one was created by another client meanwhile.
            RestoreFailedError: one has another number of partitions, or settings that would lose its records.
        """
        admin, names = self.session.admin, [it.topic for it in self._new]
        there = {} if self.fork else await admin.describe_topics(names)
        for it in self._new:
            if it.topic in there:
                continue
            # A broker creates it whether or not its answer is awaited: later than who removes what is there.
            created = await to_its_end(
                admin.create_topic(
                    it.topic, partitions=it.partitions, replicas=it.replicas, settings=it.settings
                )
            )
            if created:
                self.created.append(it.topic)
            elif self.fork:
                raise ForkFailedError(f"topic {it.topic} was created by another client meanwhile")
        now = await admin.describe_topics(names)
        assert self._contents is not None, "plan() comes first"
        for it in self._new:
            if now[it.topic].partitions != it.partitions:
                raise RestoreFailedError(
                    f"topic {it.topic} was created by another client meanwhile, with {now[it.topic].partitions}"
                    f" partitions instead of {it.partitions}",
                    hint="delete it, and run the same command again; see auto.create.topics.enable of the brokers",
                )
            holding, _ = await admin.topic_settings(it.topic)
            if changes := self._contents.changes(it.of, holding, recorded=it.settings):
                wanted = ", ".join(f"{name}={value}" for name, value in sorted(changes.items()))
                raise RestoreFailedError(
                    f"topic {it.topic} would refuse or delete what is appended: it needs {wanted}",
                    hint="set that, and run the same command again",
                )

    async def channels(self, ends: Offsets, own_id: int) -> Callable[[], Iterator[Channel]]:
        begins = await self._begins(None if self.fork else ends, None if self.fork else own_id)
        raise_lost(begins.lost, force=self.session.request.force)
        return lambda: self._channels(begins, edited=True)

    def takes_others(self, topic: str) -> bool:
        return not self.fork and super(Copy, self).takes_others(topic)


def _is_of(begun: Restore, manifest: Manifest) -> bool:
    """Return whether an open restore is that of this snapshot, from its own cluster."""
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
    """List what else is not compared or restored, a sentence each.

    Args:
        unseen: apps of which no process has joined in the new cluster.
    """
    found = [f"{item.app}: {item.what}, and no snapshot holds that" for item in manifest.captured.uncaptured]
    if unseen:
        apps = ", ".join(unseen)
        found.append(f"the code of {apps} has not run here: it is not compared with that of the snapshot")
    return tuple(found)
