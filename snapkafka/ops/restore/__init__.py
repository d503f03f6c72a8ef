"""`restore`: append to the logs of a system what makes it go on from a verified snapshot.

It overwrites, it does not merge: what the apps did since the cut is of no effect any more, but nothing is deleted, and
outputs that others have read cannot be taken back. See docs/guide/restore.md.

| module | |
|---|---|
| `planning` | which positions, records and outputs are concerned; pure |
| `refusing` | every reason not to do it, by a stable code; pure |
| `selecting` | a part of a snapshot, and what speaks against it; pure |
| `code` | the code of the snapshot beside the code that would run; pure |
| `looking` | the facts for both: cluster, ledger, files |
| `appending` | records of the restore's own process, stamped, and compared with the log afterwards |
| `channels`, `state` | what is appended to inputs and to changelogs |
| `committing` | the steps in their order, and the commit point |
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, cast

from snapkafka.errors import BadInputError, RestoreRefusedError, SnapkafkaError
from snapkafka.kafka.bulk import KafkaBulk
from snapkafka.kafka.connection import Connection
from snapkafka.kafka.lasting import wall_ms
from snapkafka.kafka.reading import Opened, latest_of_apps, opened
from snapkafka.ops.triggering import trigger
from snapkafka.ports import Cluster
from snapkafka.protocol.captured import Captured
from snapkafka.protocol.records import Restore, TopicPartition
from snapkafka.protocol.restoring import RestoreView
from snapkafka.query.engine import Placed
from snapkafka.query.locate import manifest_places
from snapkafka.runtime.extras import require_extra
from snapkafka.store import read_manifest
from snapkafka.wire.headers import ledger_id

from .channels import channels, holds_own
from .code import Missing, missing_parts, without
from .committing import RestoreBulk, Restoring, open_plan
from .editing import Editing, Suppression
from .looking import Groups, Tables, carried_by, load, look, ranges_from
from .planning import (
    Irrevocable,
    PartitionMove,
    Plan,
    TopicWork,
    apps_of,
    changelogs_of,
    inputs_of,
    irrevocable,
    lowest_positions,
    open_readers,
)
from .refusing import Facts, Refusal, raise_refused, refusals
from .selecting import ALL, Selection, refused_parts, select, sent_by

__all__ = [
    "Irrevocable",
    "PartitionMove",
    "Plan",
    "Refusal",
    "Restored",
    "Selection",
    "TopicWork",
    "abort_restore",
    "plan_restore",
    "restore",
]

#: How often the members of groups are counted with `wait_s`.
WAIT_POLL_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Hold what was done. `messages`, `state`: so many records were appended to inputs and changelogs; -1: by an
    earlier run of the same plan. `irrevocable`: outputs after the cut, which cannot be taken back. `undo`: the snapshot
    that was taken before; empty: there is not one. `notes`: what to know besides, a sentence each.
    `consistent`: see `Plan`."""

    plan: str
    snapshot: str
    epoch: int
    apps: tuple[str, ...]
    author: int
    resumed: bool
    messages: int
    state: int
    irrevocable: tuple[Irrevocable, ...]
    seconds: float
    undo: str = ""
    notes: tuple[str, ...] = ()
    consistent: bool = True


async def plan_restore(
    where: Connection | Cluster,
    namespace: str,
    name: str,
    *,
    storage: str = "",
    force: bool = False,
    drop_missing: bool = False,
    selection: Selection = ALL,
    bulk: RestoreBulk | None = None,
) -> Plan:
    """Find out what a restore would do, and every reason to refuse it. Changes nothing.

    Args:
        name: id, epoch or `latest`, the last one that is good.
        storage: where its manifest lies; empty: its place in the ledger.
        force: leave out the reasons that `--force` overrides.
        drop_missing: leave out tables, agents and inputs that the code lacks by now.
        selection: restore this part alone; the result is not a consistent cut.
        bulk: for tests; None: by librdkafka.

    Raises:
        BadInputError: the snapshot has not what is selected.
        UnknownSnapshotError, StorageError: there is no such snapshot, or it cannot be read.
        DependencyMissingError: the extra `restore` is not installed.
    """
    async with _begun(where, namespace, name, storage, bulk, selection) as it:
        if drop_missing:
            it.drop_missing()
        return await it.plan(force=force)


async def restore(
    where: Connection | Cluster,
    namespace: str,
    name: str,
    *,
    storage: str = "",
    force: bool = False,
    drop_missing: bool = False,
    selection: Selection = ALL,
    wait_s: float = 0.0,
    safety: bool = True,
    suppress: Suppression | None = None,
    who: str = "",
    say: Callable[[str], None] = lambda text: None,
    crash: Callable[[str], None] = lambda step: None,
    bulk: RestoreBulk | None = None,
) -> Restored:
    """Restore the apps of a snapshot in place, or finish a restore that was interrupted.

    Args:
        name, storage, force, drop_missing, selection, bulk: as for `plan_restore`.
        wait_s: wait so long for the consumer groups to have no member.
        safety: where workers still run, take a snapshot before they are waited for: the way back.
        suppress: names erased keys: they stay deleted in tables, and their messages are left out.
        who: asks for it.
        say: hears each phase.
        crash: for tests: is called before each phase.

    Raises:
        RestoreRefusedError: for a reason that it names; nothing was changed.
        RestoreFailedError: it ended half-way; run again it continues.
    """
    started = time.monotonic()
    async with _begun(where, namespace, name, storage, bulk, selection) as it:
        editing = Editing(it.placed.manifest.captured, suppress) if suppress is not None else None
        undo = await _safety_snapshot(where, it, who, say) if safety and wait_s else ""
        await it.await_no_members(wait_s, say)
        if drop_missing:
            it.drop_missing()
        plan = await it.plan(force=force)
        raise_refused(plan.refusals)
        facts, lasting = it.facts, it.work.reading.state.restores.open
        steps = Restoring(
            work=it.work,
            admin=it.admin,
            bulk=it.bulk,
            placed=it.placed,
            tables=it.tables,
            ledger_id=it.ledger_id,
            plan=lasting.plan if lasting is not None else f"{random.getrandbits(64):016x}",
            who=who,
            triggered_ms=it.placed.manifest.ledger.triggered_ms,
            now_ms=facts.now_ms,
            settings={topic: it.settings for topic, it in facts.topics.items()},
            selection=it.selection,
            sender=it.sender,
            editing=editing,
            say=say,
            crash=crash,
        )
        view = await steps.run()
    return Restored(
        plan=view.plan,
        snapshot=plan.snapshot,
        epoch=plan.epoch,
        apps=plan.apps,
        author=view.author,
        resumed=bool(plan.resumes),
        messages=steps.appended.get("messages", -1),
        state=steps.appended.get("state", -1),
        irrevocable=plan.irrevocable,
        undo=undo,
        notes=plan.notes,
        consistent=plan.consistent,
        seconds=round(time.monotonic() - started, 3),
    )


async def abort_restore(where: Connection | Cluster, namespace: str, *, reason: str) -> str:
    """Give up the restore that is open, as long as it is not committed; returns its plan.

    Raises:
        BadInputError: none is open.
        RestoreRefusedError: it has passed its commit point, and can only be finished.
    """
    async with opened(where, namespace) as work:
        view = open_plan(work)
        if view is None:
            raise BadInputError("no restore is open", hint="`snapkafka list` lists snapshots")
        if view.committed:
            raise RestoreRefusedError(
                f"{view} has passed its commit point",
                hint=f"run `snapkafka restore {view.begun.snapshot} --yes`",
            )
        record = Restore(n=random.getrandbits(62), plan=view.plan, stage="aborted", reason=reason)
        await work.catch_up(to=await work.ledger.append(record) + 1)
        return view.plan


async def _safety_snapshot(
    where: Connection | Cluster, it: _Look, who: str, say: Callable[[str], None]
) -> str:
    """Take a snapshot while workers still run; returns its id, empty where nobody can cut any more."""
    apps = apps_of(it.placed.manifest.captured)
    if open_plan(it.work) is not None or not [app for app in apps if await it.admin.members(app)]:
        return ""
    snapshot_id = f"before-restore-{random.getrandbits(32):08x}"
    say(f"taking snapshot {snapshot_id}, the way back")
    try:
        storage = it.placed.store.uri
        await trigger(
            where, it.work.namespace, snapshot_id=snapshot_id, storage=storage, who=who, apps=apps, wait=True
        )
    except SnapkafkaError as error:
        say(
            f"no snapshot was taken ({error.message}): the way back is the moment at which Faust would have continued"
        )
        return ""
    say(f"undo: snapkafka assemble {snapshot_id}; snapkafka restore {snapshot_id}")
    return snapshot_id


# --- One look -------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Look:
    """A snapshot, its tables and its cluster, while a plan is made and done."""

    work: Opened
    admin: Groups
    bulk: RestoreBulk
    placed: Placed
    tables: Tables
    topic_id: str
    whole: Captured
    known: Facts | None = None
    dropped: tuple[Missing, ...] = ()
    selection: Selection = ALL
    sender: Callable[[int], bool] | None = None

    def drop_missing(self) -> None:
        """Leave out what the code that ran last lacks; the plan names it."""
        captured = self.placed.manifest.captured
        hellos = {view.hello.app: view.hello for view in latest_of_apps(self.work.reading.state)}
        self.dropped = missing_parts(captured, hellos)
        left = replace(self.placed.manifest, captured=without(captured, self.dropped))
        self.placed = self.placed._replace(manifest=left)

    @property
    def facts(self) -> Facts:
        assert self.known is not None, "plan() comes first"
        return self.known

    @property
    def ledger_id(self) -> int:
        return ledger_id(bytes.fromhex(self.topic_id))

    async def await_no_members(self, wait_s: float, say: Callable[[str], None]) -> None:
        """Wait until no group has members, or for `wait_s`: what is left then is a reason to refuse."""
        deadline, told = asyncio.get_running_loop().time() + wait_s, False
        while asyncio.get_running_loop().time() < deadline:
            if not [app for app in apps_of(self.placed.manifest.captured) if await self.admin.members(app)]:
                return
            if not told:
                say("waiting for the consumer groups to have no member")
                told = True
            await asyncio.sleep(WAIT_POLL_S)

    async def plan(self, *, force: bool) -> Plan:
        manifest = self.placed.manifest
        captured, lasting = manifest.captured, open_plan(self.work)
        wanted = (manifest.id, manifest.epoch, self.selection.text)
        same = lasting is not None and wanted == (
            lasting.begun.snapshot,
            lasting.begun.epoch,
            lasting.begun.only,
        )
        self.sender = sent_by(self.selection, self.whole, captured, self.work.reading.state)
        lowest = lowest_positions(captured)
        described = await self.admin.describe_topics({tp.topic for tp in lowest})
        there = [
            tp for tp in lowest if tp.topic in described and tp.partition < described[tp.topic].partitions
        ]
        ends, starts = await self.admin.log_ends(there), await self.admin.log_starts(there)
        ranges = ranges_from({tp: max(at, starts[tp]) for tp, at in lowest.items() if tp in ends}, ends)
        unread = self.tables.unread(lowest, starts)
        in_flight = {tp: found for tp, found in unread.items() if tp in ends}
        found = await asyncio.to_thread(
            lambda: list(
                channels(
                    self.bulk,
                    ranges,
                    in_flight,
                    holds_own(self.bulk, ranges, in_flight, self.ledger_id, self.sender),
                    self.ledger_id,
                    self.sender,
                )
            )
        )
        appends = {channel.tp: len(channel.records) for channel in found}
        carried = carried_by(record for channel in found for record in channel.records)
        self.known = await look(
            self.work,
            self.admin,
            self.placed,
            self.tables,
            ledger_topic_id=self.topic_id,
            now_ms=wall_ms(),
            carried=carried,
            other_plan="" if lasting is None or same else str(lasting),
        )
        work = [
            TopicWork(topic=topic, kind="input", records=it.records, bytes=it.bytes)
            for topic, it in sorted(carried.items())
        ] + [
            TopicWork(topic=topic, kind="changelog", records=rows, bytes=size)
            for topic, (rows, size, _) in sorted(self.tables.state.items())
            if topic in {cut.topic for cut in captured.changelogs}
        ]
        return Plan(
            snapshot=manifest.id,
            epoch=manifest.epoch,
            namespace=self.work.namespace,
            verdict=manifest.verdict,
            apps=apps_of(captured),
            moves=await self._moves(appends),
            work=tuple(work),
            irrevocable=await self._irrevocable(),
            refusals=() if _committed(lasting, same=same) else self._refusals(lowest, appends, force=force),
            resumes=lasting.plan if lasting is not None and same else "",
            stage=lasting.stage if lasting is not None and same else "",
            open=open_readers(manifest) if manifest.verdict == "VERIFIED_OPEN" else (),
            notes=(
                *([self.selection.note] if self.selection else []),
                *(f"{item} is no longer in the code, and left out" for item in self.dropped),
            ),
            consistent=not self.selection,
        )

    def _refusals(
        self, lowest: dict[TopicPartition, int], appends: dict[TopicPartition, int], *, force: bool
    ) -> tuple[Refusal, ...]:
        manifest, facts = self.placed.manifest, self.facts
        of_part = refused_parts(
            self.selection, self.whole, manifest.captured, self.work.reading.state, facts.hellos, appends
        )
        found = refusals(manifest, facts, lowest, force=force, part=bool(self.selection))
        return (*found, *(item for item in of_part if not (force and item.forceable)))

    async def _moves(self, appends: dict[TopicPartition, int]) -> tuple[PartitionMove, ...]:
        captured = self.placed.manifest.captured
        groups = {app: await self.admin.committed(app) for app in apps_of(captured)}
        return tuple(
            PartitionMove(
                app=cut.app,
                topic=tp.topic,
                partition=tp.partition,
                before=groups[cut.app].get(tp, (-1, ""))[0],
                after=None if tp in appends else min([p.offset for p in cut.agents] or [cut.position]),
                appends=appends.get(tp, 0),
            )
            for tp, cuts in inputs_of(captured).items()
            for cut in cuts
        )

    async def _irrevocable(self) -> tuple[Irrevocable, ...]:
        captured = self.placed.manifest.captured
        known = {*inputs_of(captured), *changelogs_of(captured)}
        outputs = {TopicPartition(it.topic, it.partition) for it in captured.senders} - known
        described = await self.admin.describe_topics({tp.topic for tp in outputs}) if outputs else {}
        there = [tp for tp in outputs if tp.topic in described]
        return irrevocable(captured, await self.admin.log_ends(there) if there else {})


def _committed(view: RestoreView | None, *, same: bool) -> bool:
    """Has the open plan passed its commit point? Then it is finished, whatever speaks against it."""
    return view is not None and same and view.committed


@asynccontextmanager
async def _begun(
    where: Connection | Cluster,
    namespace: str,
    name: str,
    storage: str,
    bulk: RestoreBulk | None,
    selection: Selection,
) -> AsyncIterator[_Look]:
    if bulk is None:
        require_extra("restore", "a restore")
        if not isinstance(where, Connection):
            raise BadInputError("a restore needs a connection to Kafka", hint="give --bootstrap")
        bulk = cast(RestoreBulk, KafkaBulk(where))
    (place,) = await manifest_places(where, namespace, [name], storage=storage, good=True)
    store, manifest = read_manifest(place)
    whole, part = manifest.captured, select(manifest.captured, selection)
    tables = await load(Placed(store, manifest), apps_of(part) if selection else ())
    placed = Placed(store, replace(manifest, captured=part))
    async with opened(where, namespace or placed.manifest.namespace) as work:
        try:
            yield _Look(
                work=work,
                admin=cast(Groups, work.admin),
                bulk=bulk,
                placed=placed,
                tables=tables,
                whole=whole,
                selection=selection,
                topic_id=getattr(work.ledger, "topic_id", placed.manifest.ledger.topic_id),
            )
        finally:
            if (stop := getattr(bulk, "stop", None)) is not None:
                stop.set()
