"""Where a snapshot is restored to: what is the same for a restore in place, into another cluster, and a fork.

A target names the logs that are written to, plans what is done, and yields what is appended to inputs and changelogs;
`steps` does the plan. It never decides whether the plan is done.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from snapkafka.kafka.cluster.group_hold import HOLDER
from snapkafka.kafka.cluster.retention import wall_ms
from snapkafka.kafka.ledger.view import Opened, opened
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.records import TopicPartition
from snapkafka.protocol.restores import RestoreView
from snapkafka.wire.headers import ledger_id

from .appending import LogRecord
from .channels import Channel
from .editing import Editing, RuleCount
from .facts import rows_of_state
from .finish import Commit
from .plan import Plan, TopicWork, open_readers
from .positions import Appended, apps_of, changelogs_of, inputs_of
from .refusals import Carried, Facts, Refusal, TopicFacts
from .selection import Keys
from .session import Session
from .state import Row

__all__ = ["Target", "TargetRun", "unforced"]


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
    """One place that a snapshot goes to.

    Args:
        session: the snapshot, and the cluster there.
    """

    session: Session
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
        """The cut that is restored, by the names of the logs that are written to."""
        return self.session.captured

    @property
    def origin(self) -> str:
        """The topic id of the snapshot's ledger, where that is of another cluster."""
        return ""

    @property
    def undo(self) -> str:
        """The way to take it back; empty: only a restore of an earlier snapshot does."""
        return ""

    # -- the plan ---------------------------------------------------------------------------------------------

    @abstractmethod
    async def plan(self) -> Plan:
        """Find out what would be done, and every reason to refuse it. Changes nothing."""

    async def planned(self) -> Plan:
        """Plan, and examine all that would be written or left out, unless it is refused.

        Raises:
            BadInputError: something cannot be examined or masked, or a rule matches nothing.
        """
        plan = await self.plan()
        if plan.refused or self.editing.idle:
            return plan
        records = await self.examined()
        return replace(plan, rules=await asyncio.to_thread(lambda: self._examine(records())))

    def _examine(self, records: Iterable[LogRecord]) -> tuple[RuleCount, ...]:
        captured, selected = self.session.captured, self.session.request.selection.keys
        cuts = changelogs_of(captured)
        keys = Keys(selected) if selected else None
        self.editing.examine(
            row
            for row in rows_of_state(self.session.placed)
            if row.tp in cuts and (keys is None or keys.takes(cuts[row.tp], row.key))
        )
        self.editing.examine(records)
        self.editing.raise_unmatched()
        self.editing.suppressed = self.editing.masked = 0  # of what is written
        return self.editing.counts

    @abstractmethod
    async def examined(self) -> Callable[[], Iterator[LogRecord]]:
        """Prepare the records of inputs that are examined: messages in flight, and external records that are written
        or stay unread by their position; by the names of the snapshot. The result blocks."""

    def base_plan(self, lasting: RestoreView | None) -> Plan:
        """Fill in what is the same for every target.

        Args:
            lasting: the plan that is continued.
        """
        session, manifest = self.session, self.session.manifest
        return Plan(
            kind=session.request.kind,
            plan=f"{random.getrandbits(64):016x}" if lasting is None else lasting.plan,
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
            notes=tuple(f"{item} is no longer in the code, and left out" for item in session.dropped),
            resumes="" if lasting is None else lasting.plan,
            stage="" if lasting is None else lasting.stage,
        )

    def work(self, carried: Mapping[str, Carried]) -> tuple[TopicWork, ...]:
        """Sum up what is appended, by the names of the snapshot.

        Args:
            carried: the messages in flight of each input.
        """
        changelogs = {cut.topic for cut in self.session.captured.changelogs}
        return tuple(
            TopicWork(topic=topic, kind="input", records=it.records, bytes=it.bytes)
            for topic, it in sorted(carried.items())
        ) + tuple(
            TopicWork(topic=topic, kind="changelog", records=rows, bytes=size)
            for topic, (rows, size, _) in sorted(self.session.tables.state.items())
            if topic in changelogs
        )

    async def facts(
        self, topics: Iterable[str], carried: Mapping[str, Carried], other_plan: str = ""
    ) -> Facts:
        """Gather what refusals go by.

        Args:
            topics: by the names of the cluster it goes to.
            carried: what would be appended to inputs.
            other_plan: another restore that is open, as a phrase.
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
                    topic_id=it.topic_id, partitions=it.partitions, settings=await session.settings(name)
                )
                for name, it in described.items()
            },
            starts=await session.admin.log_starts(there) if there else {},
            ends=await session.admin.log_ends(there) if there else {},
            members={app: await self._workers(app) for app in apps_of(self.captured)},
            hellos=session.hellos,
            files=session.tables.damage,
            carried=carried,
            state_largest={topic: largest for topic, (_, _, largest) in session.tables.state.items()},
            other_plan=other_plan,
        )

    async def _workers(self, app: str) -> int:
        return len([it for it in await self.session.admin.group_members(app) if it.client != HOLDER])

    # -- what the steps ask -----------------------------------------------------------------------------------

    async def clear(self, plan: Plan, say: Callable[[str], None]) -> None:  # noqa: B027 -- most have nothing to do
        """Remove what an earlier attempt has left, as the plan names it."""

    @asynccontextmanager
    async def ledger(self) -> AsyncIterator[Opened]:
        """Open the ledger of the cluster it goes to; create it where it does not exist."""
        async with opened(self.session.where, self.session.namespace, create=True) as work:
            yield work

    async def announce(self, run: TargetRun) -> None:  # noqa: B027 -- most have nothing to do
        """Append what the ledger has to state before the plan begins."""

    async def create(self, run: TargetRun) -> None:  # noqa: B027 -- most have nothing to do
        """Create the topics of the plan."""

    async def ends(self, run: TargetRun) -> dict[TopicPartition, int]:
        """Find the ends behind which is appended: all below is of the time before."""
        return await run.quiet()

    @abstractmethod
    async def channels(
        self, run: TargetRun, ends: Mapping[TopicPartition, int]
    ) -> Callable[[], Iterator[Channel]]:
        """Prepare what is appended to inputs, by the names of the logs that are written to; the result blocks."""

    def count(self, appended: Mapping[TopicPartition, Iterable[Appended]]) -> tuple[int, int]:
        """Count the messages in flight and the external records among what was appended to inputs."""
        own = {(tp, it.offset) for tp, found in self.session.tables.in_flight.items() for it in found}
        places = [(tp, it.old) for tp, items in appended.items() for it in items]
        messages = sum(place in own for place in places)
        return messages, len(places) - messages

    def settled(self) -> Mapping[TopicPartition, int]:
        """The offset of each changelog from which on records may name keys that the cut has otherwise."""
        return {}

    def whole(
        self, ends: Mapping[TopicPartition, int], present: Mapping[TopicPartition, int]
    ) -> Collection[TopicPartition]:
        """Find the changelogs of which every row is written, whatever their logs hold.

        Args:
            ends: up to where each was read.
            present: how many records were read of each, from where its state is settled.
        """
        return changelogs_of(self.captured)

    def rows(self) -> Iterable[Row]:
        """Read the rows of the cut, by the names of the logs that are written to."""
        return rows_of_state(self.session.placed)

    def marked(self, rows: Iterable[Row]) -> Iterable[tuple[Row, bool]]:
        """Mark each row whose key was erased, and stays deleted."""
        return self.editing.marked(rows)

    def ledger_id(self, work: Opened) -> int:
        """The short id of the ledger there, which stamps bear."""
        return ledger_id(bytes.fromhex(getattr(work.ledger, "topic_id", self.session.topic_id)))

    @property
    def sender(self) -> Callable[[int], bool] | None:
        """Whether a process is one of the restored apps; None: all that write there are."""
        return None

    def takes_external(self, topic: str) -> bool:
        """May somebody without snapkafka append to a topic while it is restored?"""
        captured = self.session.whole
        known = {entry.topic for entry in self.session.manifest.external}
        return self.takes_others(topic) and (
            topic in known or topic not in {end.topic for end in captured.senders}
        )

    def takes_others(self, topic: str) -> bool:
        """May apps that are not restored append to a topic meanwhile?"""
        return topic not in {cut.topic for cut in self.captured.changelogs}


def unforced(found: Iterable[Refusal], *, force: bool) -> tuple[Refusal, ...]:
    """Leave out the reasons that `force` overrides."""
    return tuple(item for item in found if not (force and item.forceable))
