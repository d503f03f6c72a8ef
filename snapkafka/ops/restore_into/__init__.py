"""`restore --into`: what a storage holds of a snapshot goes on in another, empty cluster; the old one is not needed.

| module | |
|---|---|
| `planning` | which topics are created, what is not there, and every reason to refuse it; pure |
| `creating` | the steps in their order; they are those of a restore, after the topics are created |

See docs/guide/restore.md.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import cast

from snapkafka.config import namespace_problem
from snapkafka.errors import BadInputError, LedgerUnusableError
from snapkafka.kafka.bulk import KafkaBulk
from snapkafka.kafka.connection import Connection
from snapkafka.kafka.lasting import wall_ms
from snapkafka.kafka.reading import latest_of_apps, opened
from snapkafka.ops.restore.code import Missing, missing_parts, without
from snapkafka.ops.restore.committing import RestoreBulk
from snapkafka.ops.restore.editing import Editing, Suppression
from snapkafka.ops.restore.looking import Tables, carried_by, load
from snapkafka.ops.restore.planning import apps_of, lowest_positions, open_readers
from snapkafka.ops.restore.refusing import Facts, TopicFacts, raise_refused
from snapkafka.ops.restore.topics import NewTopic, Topics, admin_of, new_topics, topics_of
from snapkafka.ports import Cluster
from snapkafka.protocol.completion import LedgerState
from snapkafka.protocol.forking import LEDGER
from snapkafka.protocol.records import Hello, TopicPartition
from snapkafka.protocol.restoring import RestoreView
from snapkafka.query.engine import Placed
from snapkafka.query.locate import manifest_places
from snapkafka.runtime.extras import require_extra
from snapkafka.store import read_manifest
from snapkafka.wire.headers import ledger_id

from .creating import Recreating
from .planning import AbsentInput, IntoPlan, absent_inputs, missing_topics, notes, refusals

__all__ = ["AbsentInput", "IntoPlan", "RestoredInto", "plan_restore_into", "restore_into"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredInto:
    """Hold what was done. `topics`: were created. `messages`, `inputs`, `state`: so many messages in flight, external
    records (stored, and in the new cluster already), and records of state were appended; -1: by an earlier run of the
    same plan. `absent`, `notes`: see `IntoPlan`. `undo`: what takes it back."""

    plan: str
    snapshot: str
    epoch: int
    namespace: str
    apps: tuple[str, ...]
    author: int
    resumed: bool
    topics: tuple[str, ...]
    messages: int
    inputs: int
    state: int
    suppressed: int
    absent: tuple[AbsentInput, ...]
    notes: tuple[str, ...]
    undo: str
    seconds: float


async def plan_restore_into(
    where: Connection | Cluster,
    namespace: str,
    name: str,
    *,
    storage: str,
    force: bool = False,
    drop_missing: bool = False,
    bulk: RestoreBulk | None = None,
) -> IntoPlan:
    """Find out what a restore into another cluster would do, and every reason to refuse it. Changes nothing.

    Args:
        where: the new cluster.
        namespace: empty: that of the snapshot.
        name: id, epoch or `latest`, the last one of the storage that is good.
        storage: where its manifest lies.
        force: leave out the reasons that `--force` overrides.
        drop_missing: leave out what code that has run there already lacks.
        bulk: for tests; None: by librdkafka.

    Raises:
        BadInputError: no storage is given.
        UnknownSnapshotError, StorageError: there is no such snapshot, or it cannot be read.
        DependencyMissingError: the extra `restore` is not installed.
    """
    async with _begun(where, namespace, name, storage, bulk) as it:
        return await it.plan(force=force, drop_missing=drop_missing)


async def restore_into(
    where: Connection | Cluster,
    namespace: str,
    name: str,
    *,
    storage: str,
    force: bool = False,
    drop_missing: bool = False,
    suppress: Suppression | None = None,
    who: str = "",
    say: Callable[[str], None] = lambda text: None,
    crash: Callable[[str], None] = lambda step: None,
    bulk: RestoreBulk | None = None,
) -> RestoredInto:
    """Restore the apps of a snapshot into another cluster, or finish one that was interrupted.

    Args:
        where, namespace, name, storage, force, drop_missing, bulk: as for `plan_restore_into`.
        suppress: names erased keys, which are left out.
        who: asks for it.
        say: hears each phase.
        crash: for tests: is called before each phase.

    Raises:
        RestoreRefusedError: for a reason that it names; nothing was changed.
        RestoreFailedError: it ended half-way; run again it continues.
    """
    started = time.monotonic()
    async with _begun(where, namespace, name, storage, bulk) as it:
        editing = Editing(it.placed.manifest.captured, suppress) if suppress is not None else None
        plan = await it.plan(force=force, drop_missing=drop_missing)
        raise_refused(plan.refusals)
        manifest, now_ms = it.placed.manifest, wall_ms()
        async with opened(where, it.namespace, create=True) as work:
            topic_id = getattr(work.ledger, "topic_id", manifest.ledger.topic_id)
            steps = Recreating(
                work=work,
                admin=it.admin,
                topics=it.admin,
                bulk=it.bulk,
                placed=it.placed,
                tables=it.tables,
                ledger_id=ledger_id(bytes.fromhex(topic_id)),
                plan=plan.resumes or f"{random.getrandbits(64):016x}",
                who=who,
                triggered_ms=manifest.ledger.triggered_ms,
                now_ms=now_ms,
                settings={},
                editing=editing,
                origin=manifest.ledger.topic_id,
                new=it.wanted(now_ms),
                say=say,
                crash=crash,
            )
            view = await steps.run()
    return RestoredInto(
        plan=view.plan,
        snapshot=plan.snapshot,
        epoch=plan.epoch,
        namespace=plan.namespace,
        apps=plan.apps,
        author=view.author,
        resumed=bool(plan.resumes),
        topics=steps.created,
        messages=steps.appended.get("messages", -1),
        inputs=steps.appended.get("inputs", -1),
        state=steps.appended.get("state", -1),
        suppressed=editing.suppressed if editing is not None else 0,
        absent=plan.absent,
        notes=plan.notes,
        undo=_undo(plan),
        seconds=round(time.monotonic() - started, 3),
    )


def _undo(plan: IntoPlan) -> str:
    """Name what takes it back: the old cluster was not touched, and in the new one there was nothing."""
    topics = [it.topic for it in plan.topics] + list(plan.existing)
    return (
        f"stop the workers, and delete these topics: {', '.join([*sorted(topics), LEDGER + plan.namespace])}"
    )


# --- One look --------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Look:
    """A snapshot, its tables and the new cluster, while a restore is planned and done."""

    where: Connection | Cluster
    admin: Topics
    bulk: RestoreBulk
    placed: Placed
    tables: Tables
    namespace: str

    def wanted(self, now_ms: int) -> tuple[NewTopic, ...]:
        """Compute every topic of the snapshot with what it is created with."""
        carried = carried_by(record for records in self.tables.in_flight.values() for record in records)
        largest = {topic: size for topic, (_, _, size) in self.tables.state.items()}
        return new_topics(self.placed.manifest, {}, carried, largest, now_ms)

    async def plan(self, *, force: bool, drop_missing: bool) -> IntoPlan:
        state, topic_id = await self._ledger()
        hellos = {view.hello.app: view.hello for view in latest_of_apps(state)}
        dropped = self._drop_missing(hellos) if drop_missing else ()
        manifest, now_ms = self.placed.manifest, wall_ms()
        apps = apps_of(manifest.captured)
        described = await self.admin.describe_topics(list(topics_of(manifest)))
        there = [TopicPartition(name, n) for name, it in described.items() for n in range(it.partitions)]
        lasting = state.restores.open
        same = lasting is not None and _is_of(lasting, self.placed)
        carried = carried_by(record for records in self.tables.in_flight.values() for record in records)
        inputs = sum(map(len, self.tables.external.values()))
        facts = Facts(
            ledger_topic_id=topic_id,
            now_ms=now_ms,
            topics={
                name: TopicFacts(
                    topic_id=it.topic_id, partitions=it.partitions, settings=await self._settings(name)
                )
                for name, it in described.items()
            },
            starts=await self.admin.log_starts(there) if there else {},
            members={app: await self.admin.members(app) for app in apps},
            hellos=hellos,
            files=self.tables.damage,
            carried=carried,
            state_largest={topic: largest for topic, (_, _, largest) in self.tables.state.items()},
            other_plan="" if lasting is None or same else str(lasting),
        )
        found = refusals(
            manifest,
            facts,
            await self.admin.log_ends(there) if there else {},
            state.restores,
            resumes=lasting if same else None,
            force=force,
        )
        return IntoPlan(
            snapshot=manifest.id,
            epoch=manifest.epoch,
            namespace=self.namespace,
            verdict=manifest.verdict,
            apps=apps,
            topics=missing_topics(self.wanted(now_ms), described),
            existing=tuple(sorted(described)),
            records=sum(map(len, self.tables.in_flight.values())) - inputs,
            inputs=inputs,
            state=sum(rows for rows, _, _ in self.tables.state.values()),
            absent=absent_inputs(manifest),
            notes=(
                *notes(manifest, [app for app in apps if app not in hellos]),
                *(f"{item} is no longer in the code, and left out" for item in dropped),
            ),
            refusals=() if same and lasting is not None and lasting.committed else found,
            open=open_readers(manifest) if manifest.verdict == "VERIFIED_OPEN" else (),
            resumes=lasting.plan if lasting is not None and same else "",
            stage=lasting.stage if lasting is not None and same else "",
        )

    def _drop_missing(self, hellos: Mapping[str, Hello]) -> tuple[Missing, ...]:
        """Leave out what the code that ran last lacks."""
        manifest = self.placed.manifest
        dropped = missing_parts(manifest.captured, hellos)
        left = replace(manifest, captured=without(manifest.captured, dropped))
        self.placed = self.placed._replace(manifest=left)
        return dropped

    async def _ledger(self) -> tuple[LedgerState, str]:
        """Read the ledger of the new cluster and its topic id; it need not be there."""
        topic = LEDGER + self.namespace
        described = await self.admin.describe_topics([topic])
        if topic not in described:
            return LedgerState(), ""
        async with opened(self.where, self.namespace) as work:
            return work.reading.state, described[topic].topic_id

    async def _settings(self, topic: str) -> Mapping[str, str]:
        try:
            return (await self.admin.topic_settings(topic))[0]
        except LedgerUnusableError:
            return {}


def _is_of(view: RestoreView, placed: Placed) -> bool:
    """Is an open restore that of this snapshot, from its own cluster?"""
    manifest, begun = placed.manifest, view.begun
    return (begun.snapshot, begun.epoch, begun.only, begun.origin) == (
        manifest.id,
        manifest.epoch,
        "",
        manifest.ledger.topic_id,
    )


@asynccontextmanager
async def _begun(
    where: Connection | Cluster, namespace: str, name: str, storage: str, bulk: RestoreBulk | None
) -> AsyncIterator[_Look]:
    if not storage:
        raise BadInputError(
            "a restore into another cluster needs to know where the tables of the snapshot lie",
            hint="add --storage DIR: nothing is asked of the old cluster",
        )
    if bulk is None:
        require_extra("restore", "a restore")
        if not isinstance(where, Connection):
            raise BadInputError("a restore needs a connection to Kafka", hint="give --into")
        bulk = cast(RestoreBulk, KafkaBulk(where))
    (place,) = await manifest_places(None, namespace, [name], storage=storage, good=True)
    placed = Placed(*read_manifest(place))
    into = namespace or placed.manifest.namespace
    if problem := namespace_problem(into):
        raise BadInputError(problem, hint="give --namespace")
    tables = await load(placed)
    tables = replace(tables, in_flight=tables.unread(lowest_positions(placed.manifest.captured)))
    admin = admin_of(where)
    try:
        yield _Look(where=where, admin=admin, bulk=bulk, placed=placed, tables=tables, namespace=into)
    finally:
        if (stop := getattr(bulk, "stop", None)) is not None:
            stop.set()
        await admin.close()
