"""The target of a snapshot: the system itself, another cluster, or a fork. It yields the records for inputs and
changelogs, and creates topics; `planning` plans the work, and `steps` runs the plan.

In place, a restore overwrites, it does not merge: the work of the apps since the cut loses its effect, but nothing is
deleted, and outputs that others have read cannot be undone.

The others are copies, in topics that are created for it. Another cluster has only the stored manifest and tables of the
old one: state, messages in flight, positions, topics with their settings, and external records if assembly was asked to
store them; no outputs, and no records of the apps after the cut. External records that producers have sent there
meanwhile come after the messages in flight. A fork has its topics, groups and ledger under a prefix, in the same
cluster; the original is only read. Its prefix has no topics before; a crash leaves some, which `fork drop` removes.

See docs/guide/restore.md and docs/guide/fork.md.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from snapkafka.checks import ReadRange
from snapkafka.errors import ForkFailedError, RestoreFailedError
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.forking import prefixed
from snapkafka.protocol.records import Fork, TopicPartition
from snapkafka.runtime.signals import to_its_end
from snapkafka.units import wall_ms
from snapkafka.wire.headers import ledger_id

from .channels import Channel, channels, holds_own, lost_arrivals, lost_inputs
from .editing import Editing
from .plan import Plan, Refusal
from .session import NO_LEDGER, RecoverySession
from .state import Difference, Row, apps_of, changelogs_of, differences, lowest_positions, renamed
from .topics import Contents, NewTopic, rows_of_state

#: Above every offset: where the log of a topic starts that does not exist.
NO_LOG: Final = 1 << 63

Offsets = Mapping[TopicPartition, int]


class Begins(NamedTuple):
    """What inputs begin with: stored records, and those from ranges of a log whose stamps are of ledger `ledger_id`.
    `begun`: partitions whose log begins above the position of a reader. `lost`: what is missing there."""

    stored: Mapping[TopicPartition, Sequence[KafkaRecord]]
    ranges: Sequence[ReadRange]
    ledger_id: int
    begun: Collection[TopicPartition] = ()
    lost: Sequence[Refusal] = ()

    @property
    def inputs(self) -> list[TopicPartition]:
        return [TopicPartition(it.topic, it.partition) for it in self.ranges]


@dataclass(slots=True, kw_only=True)
class Target:
    """One target of a snapshot. `new`, `contents`: topics of a copy, and what they get, once it is planned. `created`:
    topics that this run has created."""

    session: RecoverySession
    created: list[str] = field(default_factory=list)
    expires_ms: int = 0
    editing: Editing = field(init=False)
    new: tuple[NewTopic, ...] = ()
    contents: Contents = field(init=False)

    def __post_init__(self) -> None:
        request = self.session.request
        self.editing = Editing(
            self.session.captured, request.suppress, request.masks, allow_unmatched=request.allow_unmatched
        )

    @property
    def in_place(self) -> bool:
        return self.session.request.kind == "in-place"

    @property
    def elsewhere(self) -> bool:
        return self.session.request.kind == "cluster"

    @property
    def fork(self) -> str:
        return self.session.request.fork

    def named(self, name: str) -> str:
        """Translate a name of the snapshot to that of the log to write."""
        return prefixed(self.fork, name) if self.fork else name

    @property
    def captured(self) -> Captured:
        """The restored cut, by the names of the logs to write."""
        return renamed(self.session.captured, self.named) if self.fork else self.session.captured

    @property
    def origin(self) -> str:
        """The topic id of the snapshot's ledger, if that is in another cluster."""
        return self.session.manifest.ledger.topic_id if self.elsewhere else ""

    # -- what inputs get --------------------------------------------------------------------------------------

    async def begins(self, bases: Offsets | None = None, own_id: int | None = None) -> Begins:
        """Find what the inputs begin with.

        Args:
            bases: where to stop; None, and in a fork: at the present ends.
            own_id: of the ledger of another cluster; None: of the one that exists.
        """
        session, admin = self.session, self.session.admin
        lowest = lowest_positions(session.captured)
        if self.fork and not session.request.with_inputs:
            return Begins(session.tables.in_flight, [ReadRange(*tp, 0, 0) for tp in lowest], NO_LEDGER)
        there = await self.existing(lowest)
        starts = dict(await admin.log_starts(there)) if there else {}
        if bases is None or self.fork:
            bases = await admin.log_ends(there) if there else {}
        if self.elsewhere:
            if own_id is None:
                own_id = session.ledger_id
            stored, begin, lost = session.tables.unread(lowest), starts, lost_arrivals(starts)
        else:
            own_id = ledger_id(bytes.fromhex(session.manifest.ledger.topic_id))
            stored = session.tables.unread(lowest, {tp: starts.get(tp, NO_LOG) for tp in lowest})
            begin = {tp: max(lowest[tp], starts[tp]) for tp in there}
            lost = lost_inputs(session.manifest, session.tables, starts)
        return Begins(
            stored,
            [ReadRange(*tp, begin.get(tp, 0), bases.get(tp, 0)) for tp in lowest],
            own_id,
            [tp for tp in there if starts[tp] > lowest[tp]],
            [*lost],
        )

    def collected(
        self,
        begins: Begins,
        own: Collection[TopicPartition],
        edit: Callable[[Iterator[KafkaRecord]], Iterator[KafkaRecord]] = lambda records: records,
    ) -> Iterator[Channel]:
        """Collect the records of these inputs. Blocks."""
        bulk, apart = self.session.bulk, self.elsewhere
        return channels(bulk, begins.ranges, begins.stored, own, begins.ledger_id, edit, apart=apart)

    def channels_of(
        self, begins: Begins, count: Callable[[KafkaRecord], None] = lambda record: None
    ) -> Iterator[Channel]:
        """Collect what is appended: in place, nothing to partitions whose readers can go back. Blocks.

        Args:
            count: called with the external records of these.
        """
        own: Collection[TopicPartition] = begins.inputs
        if self.in_place:
            needed = {*begins.stored, *begins.begun}
            own = holds_own(
                self.session.bulk, begins.ranges, needed, begins.ledger_id, self.editing.erases_any, count
            )
        return self.collected(begins, own, self.editing.edit)

    async def existing(self, wanted: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Find the partitions that exist in the cluster."""
        tps = sorted(wanted)
        described = await self.session.admin.describe_topics({tp.topic for tp in tps})
        return [tp for tp in tps if tp.topic in described and tp.partition < described[tp.topic].partitions]

    # -- what the steps ask -----------------------------------------------------------------------------------

    def announced(self, plan: Plan, who: str) -> Fork | None:
        """Build the record that the ledger of a fork needs before the plan begins."""
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
        """Create the missing topics of the plan.

        Raises:
            ForkFailedError: one was created by another client meanwhile.
            RestoreFailedError: one has another number of partitions, or settings that would lose its records.
        """
        if not self.new:
            return
        admin, names = self.session.admin, [it.topic for it in self.new]
        there = {} if self.fork else await admin.describe_topics(names)
        for it in self.new:
            if it.topic in there:
                continue
            # A broker creates it whether or not its answer is awaited: later than who removes what is there.
            created = admin.create_topic(it.topic, partitions=it.partitions, settings=it.settings)
            if await to_its_end(created):
                self.created.append(it.topic)
            elif self.fork:
                raise ForkFailedError(f"topic {it.topic} was created by another client meanwhile")
        now = await admin.describe_topics(names)
        for it in self.new:
            if now[it.topic].partitions != it.partitions:
                raise RestoreFailedError(
                    f"topic {it.topic} was created by another client meanwhile, with {now[it.topic].partitions}"
                    f" partitions instead of {it.partitions}",
                    hint="delete it, and run the same command again; see auto.create.topics.enable of the brokers",
                )
            holding, _ = await admin.topic_settings(it.topic)
            if changes := self.contents.changes(it.of, holding, recorded=it.settings):
                wanted = ", ".join(f"{name}={value}" for name, value in sorted(changes.items()))
                raise RestoreFailedError(
                    f"topic {it.topic} would refuse or delete what is appended: it needs {wanted}",
                    hint="set that, and run the same command again",
                )

    async def channels(self, ends: Offsets, own_id: int) -> Callable[[], Iterator[Channel]]:
        """Prepare the records for inputs, by the names of the logs to write; the result blocks.

        Args:
            ends: all records below are older than the restore.
            own_id: of the ledger there, for stamps.

        Raises:
            RestoreFailedError: records that are needed were deleted meanwhile.
        """
        begins, force = await self.begins(ends, own_id), self.session.request.force
        for item in (it for it in begins.lost if not (force and it.forceable)):
            raise RestoreFailedError(
                f"{item.what} ({item.code})", hint="nothing is committed; choose a later snapshot"
            )
        return lambda: map(self._to_write, self.channels_of(begins))

    def _to_write(self, channel: Channel) -> Channel:
        topic = self.named(channel.tp.topic)
        records = tuple(record._replace(topic=topic) for record in channel.records)
        return Channel(TopicPartition(topic, channel.tp.partition), records)

    async def require_inputs(self, appended: Collection[TopicPartition]) -> None:
        """Check before the commit that readers of inputs to which nothing was appended can go back.

        Raises:
            RestoreFailedError: records were deleted meanwhile.
        """
        lowest = {tp: at for tp, at in lowest_positions(self.captured).items() if tp not in appended}
        starts = await self.session.admin.log_starts(lowest) if lowest else {}
        for tp in (tp for tp, position in sorted(lowest.items()) if starts.get(tp, 0) > position):
            raise RestoreFailedError(
                f"records of {tp} from offset {lowest[tp]} on were deleted meanwhile (offsets-gone)",
                hint="nothing is committed; run the same command again",
            )

    async def lacking(
        self, ends: Offsets, is_void: Callable[[KafkaRecord], bool] = lambda record: False
    ) -> Callable[[], Iterator[Difference]]:
        """Prepare the differences of changelogs, below these ends, from the rows of the cut; the result blocks.

        Args:
            is_void: see `state.fold`.
        """
        cuts, bulk = changelogs_of(self.captured), self.session.bulk
        starts = await self.session.admin.log_starts(ends.keys() & cuts.keys()) if ends else {}

        def read(tp: TopicPartition) -> Iterable[KafkaRecord]:
            start, end = starts.get(tp, 0), ends.get(tp, 0)
            return bulk.read([ReadRange(*tp, start, end)]) if start < end else ()

        return lambda: differences(self.rows(), read, cuts, is_void)

    def stored_rows(self) -> Iterator[Row]:
        """Read the rows of the cut."""
        cuts = changelogs_of(self.session.captured)
        return (row for row in rows_of_state(self.session.placed) if row.tp in cuts)

    def rows(self) -> Iterator[Row]:
        """Read the rows to which changelogs are to fold, by the names of the logs to write, in the order of
        partitions."""
        for row in self.editing.edit(self.stored_rows()):
            yield Row(TopicPartition(self.named(row.tp.topic), row.tp.partition), row.key, row.value)

    def takes_external(self, topic: str) -> bool:
        """Return whether programs without snapkafka may append to a topic of the snapshot while it is restored."""
        known = {entry.topic for entry in self.session.manifest.external}
        senders = {end.topic for end in self.session.captured.senders}
        return self.takes_others(topic) and (topic in known or topic not in senders)

    def takes_others(self, topic: str) -> bool:
        """Return whether apps that are not restored may append to a topic meanwhile: not to that of a fork."""
        return not self.fork and topic not in {cut.topic for cut in self.captured.changelogs}
