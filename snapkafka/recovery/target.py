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
from snapkafka.protocol.records import TopicPartition
from snapkafka.protocol.restores import RestoreView
from snapkafka.topic_config import TopicSettings
from snapkafka.units import wall_ms
from snapkafka.wire.headers import ledger_id

from .channels import Channel
from .editing import Editing, RuleCount
from .finish import Commit
from .plan import Plan, TopicWork, open_readers
from .positions import Appended, apps_of, changelogs_of, inputs_of
from .session import RecoverySession
from .state import Row
from .stored_rows import rows_of_state, workers_of
from .target_facts import Carried, Facts, Refusal, TopicFacts


@dataclass(slots=True, kw_only=True)
class TargetRun(Commit, ABC):
    """A run of all steps, as its target sees it. `created`, `changed`: topics that this run has."""

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    @property
    @abstractmethod
    def ledger_id(self) -> int:
        """The id of the ledger that headers name."""

    @abstractmethod
    async def quiet(self) -> dict[TopicPartition, int]:
        """Wait until no transaction is open, and return the ends."""


@dataclass(slots=True, kw_only=True)
class Target(ABC):
    """One target of a snapshot.

    Args:
        session: the snapshot, and its target cluster.
    """

    session: RecoverySession
    editing: Editing = field(init=False)

    def __post_init__(self) -> None:
        request = self.session.request
        self.editing = Editing(
            self.session.captured,
            request.suppress,
            request.masks,
            allow_unmatched=request.allow_unmatched,
        )

    @property
    def captured(self) -> Captured:
        """The restored cut, by the names of the logs to write."""
        return self.session.captured

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
        session, manifest = self.session, self.session.manifest
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
            open=open_readers(manifest),
            resumes="" if unfinished is None else unfinished.plan,
            stage="" if unfinished is None else unfinished.stage,
        )

    def work(self, carried: Mapping[str, Carried]) -> tuple[TopicWork, ...]:
        """Sum up the records to append, by the names of the snapshot.

        Args:
            carried: the messages in flight of each input.
        """
        changelogs = {cut.topic for cut in self.session.captured.changelogs}
        return tuple(
            TopicWork(topic=topic, kind="input", records=it.records) for topic, it in sorted(carried.items())
        ) + tuple(
            TopicWork(topic=topic, kind="changelog", records=rows)
            for topic, (rows, _) in sorted(self.session.tables.state.items())
            if topic in changelogs
        )

    async def facts(
        self, topics: Iterable[str], carried: Mapping[str, Carried], other_plan: str = ""
    ) -> Facts:
        """Gather the facts for the refusals.

        Args:
            topics: by the names of the target cluster.
            carried: the records to append to inputs.
            other_plan: another open restore, as a phrase.
        """
        session = self.session
        described = await session.admin.describe_topics(list(topics))
        there = [
            tp
            for tp in (*inputs_of(self.captured), *changelogs_of(self.captured))
            if tp.topic in described and tp.partition < described[tp.topic].partitions
        ]
        return Facts(
            ledger_topic_id=session.topic_id,
            now_ms=wall_ms(),
            topics={
                name: TopicFacts(
                    topic_id=it.topic_id,
                    partitions=it.partitions,
                    settings=TopicSettings.parse(await session.settings(name)),
                )
                for name, it in described.items()
            },
            starts=await session.admin.log_starts(there) if there else {},
            ends=await session.admin.log_ends(there) if there else {},
            members=await workers_of(session.admin, apps_of(self.captured)),
            hellos=session.hellos,
            files=session.tables.damage,
            carried=carried,
            state_largest={topic: largest for topic, (_, largest) in session.tables.state.items()},
            other_plan=other_plan,
        )

    # -- what the steps ask -----------------------------------------------------------------------------------

    async def clear(self, plan: Plan, notify: Callable[[str], None]) -> None:  # noqa: B027 -- most have nothing to do
        """Remove the remainders of an earlier attempt, as the plan names them."""

    @asynccontextmanager
    async def ledger(self) -> AsyncIterator[Opened]:
        """Open the target cluster's ledger; create it if it does not exist."""
        async with opened(self.session.where, self.session.namespace, create=True) as work:
            yield work

    async def announce(self, run: TargetRun) -> None:  # noqa: B027 -- most have nothing to do
        """Append the records that the ledger needs before the plan begins."""

    async def create(self, run: TargetRun) -> None:  # noqa: B027 -- most have nothing to do
        """Create the topics of the plan."""

    async def ends(self, run: TargetRun) -> dict[TopicPartition, int]:
        """Find the ends after which to append: all records below are older than the restore."""
        return await run.quiet()

    @abstractmethod
    async def channels(
        self, run: TargetRun, ends: Mapping[TopicPartition, int]
    ) -> Callable[[], Iterator[Channel]]:
        """Prepare the records for inputs, by the names of the logs to write; the result blocks."""

    async def require_inputs(  # noqa: B027 -- most append all of it
        self, run: TargetRun, appended: Collection[TopicPartition]
    ) -> None:
        """Check before the commit that readers of inputs to which nothing was appended can go back.

        Raises:
            RestoreFailedError: records were deleted meanwhile.
        """

    def count(self, appended: Mapping[TopicPartition, Iterable[Appended]]) -> tuple[int, int]:
        """Count the messages in flight and the external records among those appended to inputs."""
        own = {(tp, it.offset) for tp, found in self.session.tables.in_flight.items() for it in found}
        places = [(tp, it.old) for tp, items in appended.items() for it in items]
        messages = sum(place in own for place in places)
        return messages, len(places) - messages

    def rows(self) -> Iterable[Row]:
        """Read the rows to which changelogs are to fold, by the names of the logs to write, in the order of
        partitions."""
        return self.editing.edit(rows_of_state(self.session.placed))

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


def unforced(found: Iterable[Refusal], *, force: bool) -> tuple[Refusal, ...]:
    """Leave out the reasons that `force` overrides."""
    return tuple(item for item in found if not (force and item.forceable))
