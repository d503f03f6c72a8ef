"""The target of a snapshot: the system itself, another cluster, or a fork. It yields the records for inputs and
changelogs, and creates topics; `planning` plans the work, and `steps` runs the plan.

In place, a restore overwrites, it does not merge, and nothing is deleted. The others are copies, in topics that are
created for it. Another cluster has only the stored manifest and tables of the old one; external records that producers
have sent there meanwhile come after the messages in flight. A fork has its topics, groups and ledger under a prefix, in
the same cluster; the original is only read.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final, cast

from snapkafka.checks import ReadRange
from snapkafka.config import namespace_problem
from snapkafka.errors import BadInputError, LedgerUnusableError, PlanChangedError, RestoreFailedError
from snapkafka.kafka import Connection, KafkaBulk, KafkaRecord
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin, administration
from snapkafka.kafka.ledger.reading import latest_of_apps, opened
from snapkafka.manifest import Manifest
from snapkafka.ports import Cluster
from snapkafka.protocol import Captured, Fork, Hello, LedgerState, TopicPartition
from snapkafka.protocol.forking import LEDGER, prefixed
from snapkafka.query.engine import Placed
from snapkafka.query.locate import manifest_places
from snapkafka.runtime.child import to_its_end
from snapkafka.runtime.extras import require_extra
from snapkafka.store import read_manifest
from snapkafka.units import wall_ms
from snapkafka.wire.headers import ledger_id

from .channels import Begins, Channel, channels, holds_own, lost_inputs
from .editing import Editing
from .plan import Plan, Request
from .state import Difference, apps_of, changelogs_of, differences, lowest_positions, renamed
from .topics import NO_LOG, Contents, NewTopic, StoredTables, load, rows_of_state

#: No stamp is of this ledger.
NO_LEDGER: Final = -1
AUTO_CREATED: Final = "run the same command again; see auto.create.topics.enable of the brokers"

Offsets = Mapping[TopicPartition, int]


@dataclass(slots=True, kw_only=True)
class Target:
    """A snapshot and one target of it. `state`: the fold of the ledger there, of namespace `namespace`; `topic_id`: of
    that ledger (empty: it does not exist yet). `new`, `contents`: topics of a copy, and what they get, once it is
    planned. `created`: topics that this run has created."""

    request: Request
    admin: KafkaTopicAdmin
    bulk: KafkaBulk
    place: str
    placed: Placed
    tables: StoredTables
    namespace: str
    state: LedgerState
    topic_id: str
    created: list[str] = field(default_factory=list)
    expires_ms: int = 0
    editing: Editing = field(init=False)
    new: tuple[NewTopic, ...] = ()
    contents: Contents = field(init=False)

    def __post_init__(self) -> None:
        asked = self.request
        self.editing = Editing(self.cut, asked.suppress, asked.masks, allow_unmatched=asked.allow_unmatched)

    @property
    def manifest(self) -> Manifest:
        return self.placed.manifest

    @property
    def cut(self) -> Captured:
        """The snapshot, by its own names."""
        return self.manifest.captured

    @property
    def captured(self) -> Captured:
        """The restored cut, by the names of the logs to write."""
        return renamed(self.cut, self.named) if self.fork else self.cut

    @property
    def in_place(self) -> bool:
        return self.request.kind == "in-place"

    @property
    def elsewhere(self) -> bool:
        return self.request.kind == "cluster"

    @property
    def fork(self) -> str:
        return self.request.fork

    @property
    def origin(self) -> str:
        """The topic id of the snapshot's ledger, if that is in another cluster."""
        return self.manifest.ledger.topic_id if self.elsewhere else ""

    @property
    def ledger_id(self) -> int:
        """The id of the ledger there in stamps; if it does not exist, that of none."""
        return ledger_id(bytes.fromhex(self.topic_id)) if self.topic_id else NO_LEDGER

    @property
    def hellos(self) -> dict[str, Hello]:
        return {view.hello.app: view.hello for view in latest_of_apps(self.state)}

    def named(self, name: str) -> str:
        """Translate a name of the snapshot to that of the log to write."""
        return prefixed(self.fork, name) if self.fork else name

    async def settings(self, topic: str = "") -> Mapping[str, str]:
        """Read the effective settings of a topic, or of one that is created without any; empty: unauthorized."""
        with contextlib.suppress(LedgerUnusableError):
            return (await self.admin.topic_settings(topic))[0] if topic else await self.admin.topic_defaults()
        return {}

    async def begins(self, bases: Offsets | None = None) -> Begins:
        """Find what the inputs begin with, up to these ends; None, and in a fork: up to the present ones."""
        lowest = lowest_positions(self.cut)
        if self.fork and not self.request.with_inputs:
            return Begins(self.tables.in_flight, [ReadRange(*tp, 0, 0) for tp in lowest], NO_LEDGER)
        starts = await self.admin.log_starts(lowest)
        if bases is None or self.fork:
            bases = await self.admin.log_ends(lowest)
        own_id, begin = self.ledger_id, starts
        if not self.elsewhere:
            own_id = ledger_id(bytes.fromhex(self.manifest.ledger.topic_id))
            begin = {tp: max(lowest[tp], start) for tp, start in starts.items()}
        return Begins(
            self.tables.unread(
                lowest, None if self.elsewhere else {tp: starts.get(tp, NO_LOG) for tp in lowest}
            ),
            [ReadRange(*tp, begin.get(tp, 0), bases.get(tp, 0)) for tp in lowest],
            own_id,
            self.elsewhere,
            [tp for tp, start in starts.items() if start > lowest[tp]],
            [*lost_inputs(self.manifest, self.tables, starts, apart=self.elsewhere)],
        )

    def channels_of(
        self, begins: Begins, count: Callable[[KafkaRecord], None] = lambda record: None
    ) -> Iterator[Channel]:
        """Collect what is appended; in place, nothing to partitions whose readers can go back: their records are
        counted. Blocks."""
        own: Collection[TopicPartition] = begins.inputs
        if self.in_place:
            own = holds_own(self.bulk, begins, self.editing.erases_any, count)
        return channels(self.bulk, begins, own, self.editing.edit)

    def announced(self, plan: Plan, who: str) -> Fork | None:
        """Build the record that the ledger of a fork needs before the plan begins."""
        if not self.fork:
            return None
        if (expires_ms := self.request.expires_ms) is not None:
            self.expires_ms = wall_ms() + expires_ms
        return Fork(
            n=random.getrandbits(62),
            plan=plan.plan,
            fork=self.fork,
            source=self.request.namespace or self.manifest.namespace,
            snapshot=plan.snapshot,
            attempt=plan.attempt,
            epoch=plan.epoch,
            apps=apps_of(self.cut),
            expires_ms=self.expires_ms,
            who=who,
        )

    async def create(self, missing: Iterable[NewTopic]) -> None:
        """Create topics, and check that all of a copy keep what they get."""
        for it in missing:
            # A broker creates it whether or not its answer is awaited: later than who removes what is there.
            created = self.admin.create_topic(it.topic, partitions=it.partitions, settings=it.settings)
            if not await to_its_end(created):
                what = f"topic {it.topic} was created by another client meanwhile"
                raise RestoreFailedError(what, hint=AUTO_CREATED)
            self.created.append(it.topic)
        for it in self.new:
            holding, _ = await self.admin.topic_settings(it.topic)
            if changes := self.contents.changes(it.of, holding, recorded=it.settings):
                wanted = ", ".join(f"{name}={value}" for name, value in sorted(changes.items()))
                raise RestoreFailedError(
                    f"topic {it.topic} would refuse or delete what is appended: it needs {wanted}",
                    hint="set that, and run the same command again",
                )

    async def channels(self, ends: Offsets) -> Callable[[], Iterator[Channel]]:
        """Prepare the records for inputs, by the names of the logs to write; the result blocks."""
        begins, force = await self.begins(ends), self.request.force
        for it in begins.lost:
            if not (force and it.forceable):
                hint = "nothing is committed; choose a later snapshot"
                raise RestoreFailedError(f"{it.what} ({it.code})", hint=hint)
        return lambda: map(self._to_write, self.channels_of(begins))

    def _to_write(self, channel: Channel) -> Channel:
        topic = self.named(channel.tp.topic)
        records = tuple(record._replace(topic=topic) for record in channel.records)
        return Channel(TopicPartition(topic, channel.tp.partition), records)

    async def require_inputs(self, appended: Collection[TopicPartition]) -> None:
        """Check before the commit that readers of inputs to which nothing was appended can go back."""
        lowest = {tp: at for tp, at in lowest_positions(self.captured).items() if tp not in appended}
        starts = await self.admin.log_starts(lowest)
        if gone := [tp for tp, position in sorted(lowest.items()) if starts.get(tp, 0) > position]:
            what = (
                f"records of {gone[0]} from offset {lowest[gone[0]]} on were deleted meanwhile (offsets-gone)"
            )
            raise RestoreFailedError(what, hint="nothing is committed; run the same command again")

    def lacking(
        self, starts: Offsets, ends: Offsets, is_void: Callable[[KafkaRecord], bool] = lambda record: False
    ) -> Iterator[Difference]:
        """Find the differences of changelogs, between these offsets, from the rows of the cut. Blocks."""

        def read(tp: TopicPartition) -> Iterable[KafkaRecord]:
            return self.bulk.read([ReadRange(*tp, starts.get(tp, 0), ends.get(tp, 0))])

        return differences(self.rows(), read, changelogs_of(self.captured), is_void)

    def stored_rows(self) -> Iterator[KafkaRecord]:
        cuts = changelogs_of(self.cut)
        return (row for row in rows_of_state(self.placed) if row[:2] in cuts)

    def rows(self) -> Iterator[KafkaRecord]:
        """Read the rows to which changelogs are to fold, in the order of partitions."""
        rows = self.editing.edit(self.stored_rows())
        return (row._replace(topic=self.named(row.topic)) for row in rows) if self.fork else rows

    def takes_external(self, topic: str) -> bool:
        """Return whether programs without snapkafka may append to a topic of the snapshot while it is restored."""
        known = {entry.topic for entry in self.manifest.external}
        senders = {end.topic for end in self.cut.senders}
        return self.takes_others(topic) and (topic in known or topic not in senders)

    def takes_others(self, topic: str) -> bool:
        """Return whether apps that are not restored may append to a topic meanwhile: not to that of a fork."""
        return not self.fork and topic not in {cut.topic for cut in self.cut.changelogs}

    def takes(self, record: KafkaRecord, sender: int | None) -> bool:
        """Return whether this process, or what has stamped for another place, may append a record meanwhile."""
        if record.header is None:
            return self.takes_external(record.topic)
        return sender is None and self.takes_others(record.topic)


@asynccontextmanager
async def opened_target(
    where: Connection | Cluster,
    request: Request,
    *,
    pinned: Plan | None = None,
    bulk: KafkaBulk | None = None,
) -> AsyncIterator[Target]:
    """Open a snapshot and its target cluster. `pinned`: a confirmed plan: its snapshot is opened, whatever the name in
    the request means by now."""
    if bulk is None:
        require_extra("restore", "a recovery")
        bulk = KafkaBulk(cast(Connection, where))
    if pinned is not None:
        place = pinned.place
    else:
        source = None if request.into else where
        (place,) = await manifest_places(
            source, request.namespace, [request.name], storage=request.storage, good=True
        )
    store, manifest = read_manifest(place)
    found = (manifest.content, manifest.id, manifest.attempt, manifest.epoch)
    if pinned is not None and found != (pinned.digest, pinned.snapshot, pinned.attempt, pinned.epoch):
        raise PlanChangedError(
            f"nothing was changed: {place} is another manifest now: {manifest.id}, attempt {manifest.attempt},"
            f" content {manifest.content[:16]}"
        )
    namespace = request.namespace or manifest.namespace
    if problem := namespace_problem(namespace):
        raise BadInputError(problem, hint="give --namespace")
    namespace = prefixed(request.fork, namespace) if request.fork else namespace
    placed = Placed(store, manifest)
    tables = await load(placed)
    async with administration(where) as admin:
        state, topic = LedgerState(), LEDGER + namespace
        ledger = (await admin.describe_topics([topic])).get(topic)
        if ledger is not None:  # it need not exist
            async with opened(where, namespace) as work:
                state = work.reading.state
        try:
            yield Target(
                request=replace(request, name=manifest.id),
                admin=admin,
                bulk=bulk,
                place=place,
                placed=placed,
                tables=tables,
                namespace=namespace,
                state=state,
                topic_id="" if ledger is None else ledger.topic_id,
            )
        finally:
            bulk.stop.set()
