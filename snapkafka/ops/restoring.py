"""`restore`: plan it, run the confirmed plan, or give it up; in place or into another cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

from snapkafka.errors import BadInputError, RestoreRefusedError, SnapkafkaError
from snapkafka.kafka.cluster.group_hold import HOLDER
from snapkafka.kafka.ledger.view import LATEST, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.protocol.records import Restore
from snapkafka.query.locate import manifest_places
from snapkafka.recovery.plan import Plan, Recovered, Request
from snapkafka.recovery.positions import apps_of
from snapkafka.recovery.recovery import Watcher, plan_recovery, recover
from snapkafka.recovery.selection import ALL, Selection
from snapkafka.recovery.session import RestoreBulk, admin_of
from snapkafka.recovery.still_held import with_held
from snapkafka.recovery.suppression import Suppression
from snapkafka.store import read_manifest

from .triggering import trigger

#: How often the members of groups are counted.
WAIT_POLL_S: Final = 0.5


async def plan_restore(
    where: Connection | Cluster,
    namespace: str,
    name: str = LATEST,
    *,
    storage: str = "",
    into: bool = False,
    force: bool = False,
    drop_missing: bool = False,
    selection: Selection = ALL,
    suppress: Suppression | None = None,
    allow_unmatched: bool = False,
    bulk: RestoreBulk | None = None,
) -> Plan:
    """Plan a restore, with every reason to refuse it. Change nothing.

    Args:
        where: the cluster to restore.
        namespace: its own; empty: that of the snapshot.
        name: id, epoch or `latest`, the last good one.
        storage: of its manifest; empty: its place in the ledger.
        into: whether the cluster is another one than the snapshot's, and empty.
        force: leave out the reasons that `--force` overrides.
        drop_missing: leave out tables, agents and inputs that the code no longer has.
        selection: restore only this part; the result is not a consistent cut.
        suppress: names erased keys: they stay deleted in tables, and their messages are left out.
        allow_unmatched: accept a rule of `suppress` that matches nothing.
        bulk: for tests; None: by librdkafka.

    Raises:
        BadInputError: the snapshot lacks a selected part; there is no storage for another cluster; a rule matches
            nothing, or something cannot be examined.
        UnknownSnapshotError, StorageError: there is no such snapshot, or it cannot be read.
        DependencyMissingError: the extra `restore` is not installed.
    """
    request = Request(
        namespace=namespace,
        name=name,
        storage=storage,
        into=into,
        force=force,
        drop_missing=drop_missing,
        selection=selection,
        suppress=suppress,
        allow_unmatched=allow_unmatched,
    )
    return await plan_recovery(where, request, bulk=bulk)


async def restore(
    where: Connection | Cluster,
    plan: Plan,
    *,
    who: str = "",
    notify: Callable[[str], None] = lambda text: None,
    crash: Callable[[str], None] = lambda step: None,
    bulk: RestoreBulk | None = None,
) -> Recovered:
    """Restore the apps of a snapshot as planned, or finish a restore that was interrupted.

    Args:
        plan: the confirmed plan; it is run as it is, or not at all.
        who: the caller, for people.
        notify: called with each phase.
        crash: for tests: called before each phase.
        bulk: for tests; None: by librdkafka.

    Raises:
        RestoreRefusedError, PlanChangedError: nothing was changed.
        OvertakenError: another run continues it.
        RestoreFailedError: it ended half-way; another run continues it.
    """
    done = await recover(where, plan, watcher=Watcher(who=who, notify=notify, crash=crash), bulk=bulk)
    return await with_held(done, plan, notify)


async def await_workers(
    where: Connection | Cluster,
    namespace: str,
    name: str = LATEST,
    *,
    wait_s: float,
    storage: str = "",
    selection: Selection = ALL,
    safety: bool = True,
    who: str = "",
    notify: Callable[[str], None] = lambda text: None,
) -> str:
    """Wait until the workers that a restore concerns have left their consumer groups, or for `wait_s`.

    Args:
        safety: if workers still run, take a snapshot first, to be able to return.

    Returns:
        the id of that snapshot; empty: none was taken.
    """
    (place,) = await manifest_places(where, namespace, [name], storage=storage, good=True)
    store, manifest = read_manifest(place)
    apps = selection.apps or apps_of(manifest.captured)
    admin = admin_of(where)

    async def running() -> bool:
        for app in apps:
            if any(it.client != HOLDER for it in await admin.group_members(app)):
                return True
        return False

    try:
        if not await running():
            return ""
        async with opened(where, namespace or manifest.namespace) as work:
            unfinished = work.reading.state.restores.open is not None
        undo = ""
        if safety and not unfinished:
            undo = await _safety_snapshot(
                where, namespace or manifest.namespace, apps, store.uri, who, notify
            )
        notify("waiting for the consumer groups to have no member")
        deadline = asyncio.get_running_loop().time() + wait_s
        while await running():
            if asyncio.get_running_loop().time() > deadline:
                break  # what is left then is a reason to refuse the plan
            await asyncio.sleep(WAIT_POLL_S)
    finally:
        await admin.close()
    return undo


async def _safety_snapshot(
    where: Connection | Cluster,
    namespace: str,
    apps: tuple[str, ...],
    storage: str,
    who: str,
    notify: Callable[[str], None],
) -> str:
    snapshot_id = f"before-restore-{random.getrandbits(32):08x}"
    notify(f"taking snapshot {snapshot_id}, to undo the restore")
    try:
        await trigger(
            where, namespace, snapshot_id=snapshot_id, storage=storage, who=who, apps=apps, wait=True
        )
    except SnapkafkaError as error:
        notify(f"no snapshot was taken ({error.message}): undo returns to where Faust would have continued")
        return ""
    notify(f"undo: snapkafka assemble {snapshot_id}; snapkafka restore {snapshot_id}")
    return snapshot_id


async def abort_restore(where: Connection | Cluster, namespace: str, *, reason: str) -> str:
    """Give up the open restore, as long as it has appended nothing; return its plan.

    Appended records lie above the present positions: a worker that started would take them in, also one without
    snapkafka. So after the first append a restore is finished, or replaced by the restore of another snapshot.

    Raises:
        BadInputError: none is open.
        RestoreRefusedError: it has appended records, or has passed its commit point.
    """
    async with opened(where, namespace) as work:
        view = work.reading.state.restores.open
        if view is None:
            raise BadInputError("no restore is open", hint="`snapkafka list` lists snapshots")
        finish = f"finish it: snapkafka restore {view.begun.snapshot}" + " --into ..." * bool(
            view.begun.origin
        )
        if view.committed:
            raise RestoreRefusedError(f"{view} has passed its commit point", hint=finish)
        if view.leaves:
            topics = sorted({tp.topic for tp in view.leaves})
            raise RestoreRefusedError(
                f"{view} has appended records to {', '.join(topics)}, which workers would read",
                hint=f"{finish}; or restore another snapshot of all its apps, which takes its place",
            )
        if view.unsure:
            raise RestoreRefusedError(
                f"{work.reading.state.tails}: {view} may have appended records, which workers would take in",
                hint=f"{finish}; or restore another snapshot of all its apps, which takes its place",
            )
        record = Restore(n=random.getrandbits(62), plan=view.plan, stage="aborted", reason=reason)
        await work.catch_up(to=await work.ledger.append(record) + 1)
        if work.reading.state.restores.open is not None:
            raise RestoreRefusedError(f"{view} continued meanwhile: it was not aborted", hint=finish)
        return view.plan
