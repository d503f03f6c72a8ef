"""`fork`: a snapshot becomes a second system, under a prefix, beside production, which is only read.

The same code runs in it with `SNAPKAFKA_FORK=NAME`. See docs/guide/fork.md.

| module | |
|---|---|
| `planning` | which topics are created, and every reason not to; pure |
| `creating` | the steps in their order; they are those of a restore, into topics of the fork |
| `listing` | which forks there are, and their removal |
| `comparing` | what a fork has changed since its snapshot |
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

from snapkafka.errors import BadInputError, ForkRefusedError, LedgerUnusableError
from snapkafka.kafka.bulk import KafkaBulk
from snapkafka.kafka.connection import Connection
from snapkafka.kafka.lasting import wall_ms
from snapkafka.kafka.reading import opened
from snapkafka.ops.restore.committing import RestoreBulk
from snapkafka.ops.restore.editing import Editing, Mask, Suppression
from snapkafka.ops.restore.looking import Tables, carried_by, load
from snapkafka.ops.restore.planning import apps_of, lowest_positions
from snapkafka.ops.restore.refusing import TopicFacts, external_refusals
from snapkafka.ops.restore.topics import NewTopic, Source, Topics, admin_of, new_topics, topics_of
from snapkafka.ports import Cluster
from snapkafka.protocol.forking import LEDGER, fork_problem, of_fork, prefixed
from snapkafka.query.engine import Placed
from snapkafka.query.locate import manifest_places
from snapkafka.runtime.extras import require_extra
from snapkafka.store import read_manifest
from snapkafka.wire.headers import ledger_id

from .comparing import diff_fork
from .creating import NO_LOG, Forking, log_starts
from .listing import Dropped, Fork, drop_expired, drop_fork, fork_in, list_forks, removed
from .planning import ForkPlan, refusals

__all__ = [
    "Dropped",
    "Fork",
    "ForkPlan",
    "Forked",
    "NewTopic",
    "create_fork",
    "diff_fork",
    "drop_expired",
    "drop_fork",
    "list_forks",
    "plan_fork",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """Hold what was created. `namespace`, `apps`, `topics`: by their names in the fork.

    `messages`, `inputs`, `state`: so many messages in flight, external records and rows of tables it begins with.
    `suppressed`, `masked`: so many of all of them were left out, or have another value.
    """

    fork: str
    plan: str
    snapshot: str
    epoch: int
    source: str
    namespace: str
    apps: tuple[str, ...]
    topics: tuple[str, ...]
    messages: int
    inputs: int
    state: int
    suppressed: int
    masked: int
    expires_ms: int
    seconds: float


async def plan_fork(
    where: Connection | Cluster,
    namespace: str,
    fork: str,
    *,
    snapshot: str = "latest",
    storage: str = "",
    with_inputs: bool = False,
    force: bool = False,
    bulk: RestoreBulk | None = None,
) -> ForkPlan:
    """Find out what the creation of a fork would do, and every reason to refuse it. Changes nothing.

    Args:
        fork: its name.
        snapshot: id, epoch or `latest`, the last one that is good.
        storage: where its manifest lies; empty: its place in the ledger.
        with_inputs: the fork is to have the external records from each position to now, as production has read them
            since; those that production's log has lost come from the table `inputs`.
        force: leave out the reasons that `--force` overrides.
        bulk: for tests; None: by librdkafka.

    Raises:
        UnknownSnapshotError, StorageError: there is no such snapshot, or it cannot be read.
        DependencyMissingError: the extra `restore` is not installed.
    """
    async with _begun(where, namespace, fork, snapshot, storage, bulk) as it:
        return await it.plan(with_inputs=with_inputs, force=force)


async def create_fork(
    where: Connection | Cluster,
    namespace: str,
    fork: str,
    *,
    snapshot: str = "latest",
    storage: str = "",
    expires_s: float | None = None,
    with_inputs: bool = False,
    mask: Sequence[Mask] = (),
    suppress: Suppression | None = None,
    force: bool = False,
    who: str = "",
    say: Callable[[str], None] = lambda text: None,
    crash: Callable[[str], None] = lambda step: None,
    bulk: RestoreBulk | None = None,
) -> Forked:
    """Create a fork of a snapshot. Workers of production may run, and nothing of theirs is changed.

    What an earlier attempt has left is removed first.

    Args:
        fork, snapshot, storage, with_inputs, force, bulk: as for `plan_fork`.
        expires_s: from then on `drop_expired` removes it; None: never.
        mask: replaces values, of tables and topics.
        suppress: names erased keys, which are left out.
        who: asks for it.
        say: hears each phase.
        crash: for tests: is called before each phase.

    Raises:
        ForkRefusedError: for a reason that it names; nothing was changed.
        BadInputError: a mask is wrong, or cannot be applied to a value: the fork is unfinished then, and never runs.
        ForkFailedError, RestoreFailedError: it ended half-way; run again it starts over.
    """
    started = time.monotonic()
    if expires_s is not None and expires_s <= 0:
        raise BadInputError(f"a fork cannot expire after {expires_s:g} s", hint="leave it out: it never does")
    async with _begun(where, namespace, fork, snapshot, storage, bulk) as it:
        plan = await it.plan(with_inputs=with_inputs, force=force)
        if plan.refused:
            reasons = "; ".join(f"{item.what} ({item.code})" for item in plan.refusals)
            raise ForkRefusedError(f"nothing was changed: {reasons}", hint=plan.refusals[0].hint)
        editing = Editing(it.placed.manifest.captured, suppress, tuple(mask))
        if plan.unfinished:
            say("removing what an earlier attempt has left")
            await removed(it.admin, where, fork, plan.unfinished, it.ledger, ())
        now_ms = wall_ms()
        async with opened(where, plan.namespace, create=True) as work:
            topic_id = getattr(work.ledger, "topic_id", it.placed.manifest.ledger.topic_id)
            steps = Forking(
                work=work,
                admin=it.admin,
                topics=it.admin,
                bulk=it.bulk,
                placed=it.placed,
                tables=it.tables,
                ledger_id=ledger_id(bytes.fromhex(topic_id)),
                production_id=ledger_id(bytes.fromhex(it.placed.manifest.ledger.topic_id)),
                plan=f"{random.getrandbits(64):016x}",
                who=who,
                triggered_ms=it.placed.manifest.ledger.triggered_ms,
                now_ms=now_ms,
                settings={},
                fork=fork,
                new=plan.topics,
                source=plan.source,
                editing=editing,
                with_inputs=with_inputs,
                expires_ms=0 if expires_s is None else now_ms + round(expires_s * 1_000),
                say=say,
                crash=crash,
            )
            await steps.create()
            view = await steps.run()
    return Forked(
        fork=fork,
        plan=view.plan,
        snapshot=plan.snapshot,
        epoch=plan.epoch,
        source=plan.source,
        namespace=plan.namespace,
        apps=plan.apps,
        topics=tuple(it.topic for it in steps.made),
        messages=steps.appended["messages"],
        inputs=steps.appended["inputs"],
        state=steps.appended["state"],
        suppressed=editing.suppressed,
        masked=editing.masked,
        expires_ms=steps.expires_ms,
        seconds=round(time.monotonic() - started, 3),
    )


# --- One look --------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Look:
    """A snapshot, its tables and its cluster, while a fork is planned and created."""

    where: Connection | Cluster
    admin: Topics
    bulk: RestoreBulk
    placed: Placed
    tables: Tables
    source: str
    fork: str

    @property
    def namespace(self) -> str:
        return prefixed(self.fork, self.source)

    @property
    def ledger(self) -> str:
        return LEDGER + self.namespace

    async def plan(self, *, with_inputs: bool, force: bool) -> ForkPlan:
        manifest = self.placed.manifest
        sources, lowest = await self._sources(), lowest_positions(manifest.captured)
        begins, external = self.tables.in_flight, []
        if with_inputs:
            starts = await log_starts(self.admin, lowest)
            begins = self.tables.unread(lowest, starts)
            topics = {
                name: TopicFacts(topic_id=it.topic_id, partitions=it.partitions)
                for name, it in sources.items()
            }
            there = {tp: start for tp, start in starts.items() if start < NO_LOG}
            external = list(external_refusals(manifest, topics, there, lowest))
        own = sorted(name for name in await self.admin.describe_topics() if of_fork(self.fork, name))
        exists, unfinished = await self._existing(own)
        carried = carried_by(record for records in begins.values() for record in records)
        records = sum(map(len, self.tables.in_flight.values()))
        largest = {topic: size for topic, (_, _, size) in self.tables.state.items()}
        return ForkPlan(
            fork=self.fork,
            snapshot=manifest.id,
            epoch=manifest.epoch,
            verdict=manifest.verdict,
            source=self.source,
            namespace=self.namespace,
            apps=tuple(prefixed(self.fork, app) for app in apps_of(manifest.captured)),
            topics=new_topics(
                manifest,
                sources,
                carried,
                largest,
                wall_ms(),
                lambda name: prefixed(self.fork, name),
            ),
            records=records,
            stored=sum(map(len, begins.values())) - records,
            state=sum(rows for rows, _, _ in self.tables.state.values()),
            refusals=refusals(
                manifest,
                self.fork,
                files=self.tables.damage,
                there=own,
                unfinished=unfinished,
                exists=exists,
                external=external,
                force=force,
            ),
            unfinished=tuple(unfinished),
        )

    async def _existing(self, there: list[str]) -> tuple[str, list[str]]:
        """Find a fork of this name: as a phrase if it is whole, else the topics that its creation has left."""
        if self.ledger not in there:
            return "", []
        async with opened(self.where, self.namespace) as work:
            found = fork_in(work)
            empty = work.reading.state.end == 0
        if found is None:
            return ("", [self.ledger]) if empty else (f"{self.ledger} is the ledger of no fork", [])
        if found.stage == "ready":
            return f"fork {self.fork} exists: it is of snapshot {found.snapshot}", []
        planned = {name for name, _ in found.topics}
        return "", [name for name in there if name in planned]

    async def _sources(self) -> dict[str, Source]:
        described = await self.admin.describe_topics(list(topics_of(self.placed.manifest)))
        found = {}
        for name, it in described.items():
            try:
                holding, own = await self.admin.topic_settings(name)
            except LedgerUnusableError:  # without the right to look, what was recorded counts
                holding, own = {}, {}
            found[name] = Source(
                topic_id=it.topic_id,
                partitions=it.partitions,
                replicas=getattr(it, "replicas", None) or None,
                settings=holding,
                own=own,
            )
        return found


@asynccontextmanager
async def _begun(
    where: Connection | Cluster,
    namespace: str,
    fork: str,
    snapshot: str,
    storage: str,
    bulk: RestoreBulk | None,
) -> AsyncIterator[_Look]:
    if problem := fork_problem(fork):
        raise BadInputError(problem, hint="as in: snapkafka fork create staging --from latest")
    if bulk is None:
        require_extra("restore", "a fork")
        if not isinstance(where, Connection):
            raise BadInputError("a fork needs a connection to Kafka", hint="give --bootstrap")
        bulk = cast(RestoreBulk, KafkaBulk(where))
    (place,) = await manifest_places(where, namespace, [snapshot], storage=storage, good=True)
    placed = Placed(*read_manifest(place))
    admin = admin_of(where)
    try:
        yield _Look(
            where=where,
            admin=admin,
            bulk=bulk,
            placed=placed,
            tables=await load(placed),
            source=namespace or placed.manifest.namespace,
            fork=fork,
        )
    finally:
        if (stop := getattr(bulk, "stop", None)) is not None:
            stop.set()
        await asyncio.shield(admin.close())
