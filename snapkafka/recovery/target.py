"""The target of a snapshot: the common part of a restore in place, into another cluster, and a fork.

A target names the logs to write, plans the work, and yields the records for inputs and changelogs; `steps` runs the
plan. It never decides whether the plan is run.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from snapkafka.kafka.ledger.reading import Opened, opened
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.records import Fork, TopicPartition
from snapkafka.protocol.restores import RestoreView
from snapkafka.wire.headers import ledger_id

from .channels import Channel
from .editing import Editing, RuleCount
from .plan import Plan, TopicWork, open_readers
from .positions import Appended, apps_of, changelogs_of, parts_of
from .refusals import Facts
from .session import RecoverySession
from .state import Row
from .stored_rows import carried_by, rows_of_state, workers_of
from .target_facts import Carried, TopicFacts
from .topics import Contents

Offsets = Mapping[TopicPartition, int]


@dataclass(slots=True, kw_only=True)
class Target(ABC):
    """One target of a snapshot.

    Args:
        session: the snapshot, and its target cluster.

    `created`: topics that this run has created.
    """

    session: RecoverySession
    created: list[str] = field(default_factory=list)
    expires_ms: int = 0
    editing: Editing = field(init=False)

    def __post_init__(self) -> None:
        request = self.session.request
        self.editing = Editing(
            self.session.captured,
            request.suppress,
            request.masks,
            allow_unmatched=request.allow_unmatched,
        )

    def named(self, name: str) -> str:
        """Translate a name of the snapshot to that of the log to write."""
        return name

    @property
    def captured(self) -> Captured:
        """The restored cut, by the names of the logs to write."""
        return renamed(self.session.captured, self.named)

    @property
    def origin(self) -> str:
        """The topic id of the snapshot's ledger, if that is in another cluster."""
        return ""

    # -- the plan ---------------------------------------------------------------------------------------------

    @abstractmethod
    async def plan(self) -> Plan:
        """Plan the work, with every reason to refuse it. Change nothing."""

    async def planned(self) -> Plan:
        """Plan, and examine all records to be written or left out, unless it is refused.

        Raises:
            BadInputError: something cannot be examined or masked, or a rule matches nothing.
        """
        plan = await self.plan()
        if plan.refused or self.editing.idle:
            return plan
        records = await self.examined()
        return replace(plan, rules=await asyncio.to_thread(lambda: self._examine(records())))

    def _examine(self, records: Iterable[KafkaRecord]) -> tuple[RuleCount, ...]:
        cuts = changelogs_of(self.session.captured)
        self.editing.examine(row for row in rows_of_state(self.session.placed) if row.tp in cuts)
        self.editing.examine(records)
        self.editing.raise_unmatched()
        self.editing.suppressed = self.editing.masked = 0  # of what is written
        return self.editing.counts

    @abstractmethod
    async def examined(self) -> Callable[[], Iterator[KafkaRecord]]:
        """Prepare the records of inputs to examine: messages in flight, and external records that are written or stay
        unread by their position; by the names of the snapshot. The result blocks."""

    def base_plan(self, unfinished: RestoreView | None) -> Plan:
        """Fill in the common part of every plan.

        Args:
            unfinished: the plan to continue.
        """
        session, manifest, tables = self.session, self.session.manifest, self.session.tables
        changelogs = {cut.topic for cut in session.captured.changelogs}
        inputs = {cut.topic for cut in session.captured.inputs}
        flying = carried_by(record for records in tables.in_flight.values() for record in records)
        return Plan(
            kind=session.request.kind,
            plan=f"{random.getrandbits(64):016x}" if unfinished is None else unfinished.plan,
            request=session.request,
            snapshot=manifest.id,
            attempt=manifest.attempt,
            epoch=manifest.epoch,
            verdict=manifest.verdict,
            digest=manifest.content,
            place=session.place,
            namespace=session.namespace,
            apps=apps_of(self.captured),
            taken_ms=manifest.ledger.triggered_ms,
            work=(
                *(
                    TopicWork(topic=topic, kind="input", records=it.records)
                    for topic, it in sorted(flying.items())
                    if topic in inputs
                ),
                *(
                    TopicWork(topic=topic, kind="changelog", records=rows)
                    for topic, (rows, _) in sorted(tables.state.items())
                    if topic in changelogs
                ),
            ),
            open=open_readers(manifest),
            resumes="" if unfinished is None else unfinished.plan,
            stage="" if unfinished is None else unfinished.stage,
        )

    def contents(self, carried: Mapping[str, Carried]) -> Contents:
        """Sum up the records that topics get.

        Args:
            carried: those of inputs.
        """
        largest = {topic: size for topic, (_, size) in self.session.tables.state.items()}
        return Contents(captured=self.session.captured, carried=carried, largest=largest)

    async def facts(
        self, topics: Iterable[str], contents: Contents, *, new: Mapping[str, Mapping[str, str]]
    ) -> Facts:
        """Gather the facts for the refusals.

        Args:
            topics: by the names of the target cluster.
            contents: the records to append.
            new: the settings of the topics that are created for this, by name.
        """
        session, request = self.session, self.session.request
        described = await session.admin.describe_topics(list(topics))
        there = await self.existing(
            {TopicPartition(part.topic, part.partition) for part in parts_of(session.captured)}
        )
        return Facts(
            kind=request.kind,
            manifest=session.manifest,
            restores=session.state.restores,
            ledger_topic_id=session.topic_id,
            files=session.tables.damage,
            fork=request.fork,
            with_inputs=request.with_inputs,
            topics={
                name: TopicFacts(topic_id=it.topic_id, partitions=it.partitions)
                for name, it in described.items()
            },
            ends=await session.admin.log_ends(there) if there else {},
            changes={
                name: contents.changes(name, await session.settings(name), recorded=new.get(name))
                for name in described
            },
            hellos=session.hellos,
            members=await workers_of(session.admin, apps_of(self.captured)),
        )

    async def existing(self, wanted: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Find the partitions that exist in the cluster."""
        tps = sorted(wanted)
        described = await self.session.admin.describe_topics({tp.topic for tp in tps})
        return [tp for tp in tps if tp.topic in described and tp.partition < described[tp.topic].partitions]

    # -- what the steps ask -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def ledger(self) -> AsyncIterator[Opened]:
        """Open the target cluster's ledger; create it if it does not exist."""
        async with opened(self.session.where, self.session.namespace, create=True) as work:
            yield work

    def announced(self, plan: Plan, who: str) -> Fork | None:
        """Build the record that the ledger needs before the plan begins, if there is one."""
        return None

    async def create(self) -> None:  # noqa: B027 -- a system has them
        """Create the topics of the plan."""

    @abstractmethod
    async def channels(self, ends: Offsets, own_id: int) -> Callable[[], Iterator[Channel]]:
        """Prepare the records for inputs, by the names of the snapshot; the result blocks.

        Args:
            ends: all records below are older than the restore.
            own_id: of the ledger there, for stamps.
        """

    async def require_inputs(  # noqa: B027 -- most append all of it
        self, appended: Collection[TopicPartition]
    ) -> None:
        """Check before the commit that readers of inputs to which nothing was appended can go back.

        Raises:
            RestoreFailedError: records were deleted meanwhile.
        """

    def count(self, appended: Mapping[TopicPartition, Iterable[Appended]]) -> tuple[int, int]:
        """Count the messages in flight and the external records among those appended to inputs."""
        flying = self.session.tables.in_flight
        own = {
            (self.named(tp.topic), tp.partition, it.offset) for tp, found in flying.items() for it in found
        }
        places = [(*tp, it.old) for tp, items in appended.items() for it in items]
        messages = sum(place in own for place in places)
        return messages, len(places) - messages

    def to_write(self, channel: Channel) -> Channel:
        """Translate a channel to the log to write."""
        topic = self.named(channel.tp.topic)
        records = tuple(record._replace(topic=topic) for record in channel.records)
        return Channel(TopicPartition(topic, channel.tp.partition), records)

    def rows(self) -> Iterator[Row]:
        """Read the rows to which changelogs are to fold, by the names of the logs to write, in the order of
        partitions."""
        for row in self.editing.edit(rows_of_state(self.session.placed)):
            yield Row(TopicPartition(self.named(row.tp.topic), row.tp.partition), row.key, row.value)

    def ledger_id(self, work: Opened) -> int:
        """Return the short id of the ledger there, for stamps."""
        return ledger_id(bytes.fromhex(getattr(work.ledger, "topic_id", self.session.topic_id)))

    def takes_external(self, topic: str) -> bool:
        """Return whether programs without snapkafka may append to a topic while it is restored."""
        captured = self.session.captured
        known = {entry.topic for entry in self.session.manifest.external}
        return self.takes_others(topic) and (
            topic in known or topic not in {end.topic for end in captured.senders}
        )

    def takes_others(self, topic: str) -> bool:
        """Return whether apps that are not restored may append to a topic meanwhile."""
        return topic not in {cut.topic for cut in self.captured.changelogs}


def renamed(captured: Captured, named: Callable[[str], str]) -> Captured:
    """Translate the inputs and changelogs of a cut to other topics."""
    if named("") == "":
        return captured
    return replace(
        captured,
        inputs=tuple(
            replace(
                cut,
                app=named(cut.app),
                topic=named(cut.topic),
                topic_id="",
                agents=tuple(replace(at, topic=named(at.topic)) for at in cut.agents),
            )
            for cut in captured.inputs
        ),
        changelogs=tuple(
            replace(cut, app=named(cut.app), topic=named(cut.topic), topic_id="")
            for cut in captured.changelogs
        ),
    )
