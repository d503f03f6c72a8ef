"""The pipeline of a recovery: plan, hold, check that the plan is still the confirmed one, and run exactly that."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from snapkafka.config import namespace_problem
from snapkafka.errors import BadInputError, ForkRefusedError, RestoreRefusedError
from snapkafka.kafka.cluster.group_hold import HOLDER
from snapkafka.kafka.ledger.view import LATEST, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import Manifest
from snapkafka.ports import Cluster
from snapkafka.protocol.forking import fork_problem, prefixed
from snapkafka.protocol.restores import RestoreView

from .editing import RuleCount
from .finish import Commit
from .plan import PartitionMove, Plan, Recovered, Request, raise_changed, raise_refused
from .positions import group_offsets
from .refusals import member_refusals
from .session import RestoreBulk, admin_of, held, opened_session, opened_state
from .steps import Run
from .target import Target
from .target_cluster import OtherCluster
from .target_fork import ForkTarget
from .target_in_place import InPlace
from .topics import Topics

TARGETS: Final[dict[str, type[Target]]] = {
    "in-place": InPlace,
    "cluster": OtherCluster,
    "fork": ForkTarget,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """A follower of a recovery.

    `who` is the caller. `notify` is called with each phase. `crash` is for tests: it is called with the name of each
    phase before it begins.
    """

    who: str = ""
    notify: Callable[[str], None] = lambda text: None
    crash: Callable[[str], None] = lambda step: None


async def plan_recovery(
    where: Connection | Cluster, request: Request, *, bulk: RestoreBulk | None = None
) -> Plan:
    """Plan a recovery, with every reason to refuse it. Change nothing.

    A plan that is past its commit point is finished from the ledger alone, whatever the state of its snapshot.

    Raises:
        BadInputError: the snapshot lacks a selected part; an invalid name or storage; something cannot be examined or
            masked, or a rule about erased keys or a mask matches nothing.
        UnknownSnapshotError, StorageError: there is no such snapshot, or it cannot be read.
        DependencyMissingError: the extra `restore` is not installed.
    """
    _check(request)
    if (finish := await _plan_to_finish(where, request)) is not None:
        return finish
    async with _opened_target(where, request, None, bulk) as target:
        named = replace(request, namespace=request.namespace or target.session.namespace)
        return await _plan_to_finish(where, named) or await target.planned()


async def recover(
    where: Connection | Cluster,
    plan: Plan,
    *,
    watcher: Watcher | None = None,
    bulk: RestoreBulk | None = None,
) -> Recovered:
    """Run a plan, or change nothing.

    The consumer groups are held before the plan is computed once more, so nothing in it changes afterwards.

    Raises:
        RestoreRefusedError, ForkRefusedError: for a reason that it names; nothing was changed.
        PlanChangedError: it would be another plan by now; nothing was changed.
        OvertakenError: another run or a worker has taken over; this one changed nothing more.
        RestoreFailedError, ForkFailedError: it ended half-way; another run continues, or starts over.
    """
    refused = ForkRefusedError if plan.kind == "fork" else RestoreRefusedError
    raise_refused(plan, refused)
    watcher, started = watcher or Watcher(), time.monotonic()
    if plan.committed:
        return await _finish(where, plan, watcher, started)
    async with _opened_target(where, plan.request, plan, bulk) as target:
        session = target.session
        async with held(session.admin, plan.apps, watcher.notify, refused) as holds:
            now = await target.planned()
            raise_changed(plan, now)
            await target.clear(plan, watcher.notify)
            async with target.ledger() as work:
                run = Run(
                    work=work,
                    admin=session.admin,
                    holds=holds,
                    plan=plan,
                    who=watcher.who,
                    notify=watcher.notify,
                    crash=watcher.crash,
                    target=target,
                    bulk=session.bulk,
                )
                view = await run.run()
    return _recovered(
        plan,
        view,
        started,
        messages=run.appended["messages"],
        inputs=run.appended["inputs"],
        state=run.appended["state"],
        suppressed=target.editing.suppressed,
        masked=target.editing.masked,
        rules=now.rules,
        topics=tuple(run.created),
        changed=tuple(run.changed),
        compared=run.compared,
        undo=target.undo,
        source=target.source if isinstance(target, ForkTarget) else "",
        expires_ms=target.expires_ms if isinstance(target, ForkTarget) else 0,
    )


def _recovered(
    plan: Plan,
    view: RestoreView,
    started: float,
    *,
    messages: int = -1,
    inputs: int = -1,
    state: int = -1,
    suppressed: int = 0,
    masked: int = 0,
    topics: tuple[str, ...] = (),
    changed: tuple[str, ...] = (),
    compared: tuple[str, ...] = (),
    undo: str = "",
    source: str = "",
    expires_ms: int = 0,
    rules: tuple[RuleCount, ...] = (),
) -> Recovered:
    return Recovered(
        kind=plan.kind,
        plan=view.plan,
        snapshot=plan.snapshot,
        epoch=plan.epoch,
        namespace=plan.namespace,
        apps=plan.apps,
        author=view.author,
        resumed=bool(plan.resumes),
        messages=messages,
        inputs=inputs,
        state=state,
        seconds=round(time.monotonic() - started, 3),
        suppressed=suppressed,
        masked=masked,
        topics=topics,
        irrevocable=plan.irrevocable,
        absent=plan.absent,
        notes=(*plan.notes, *changed),
        compared=compared,
        consistent=plan.consistent,
        undo=undo,
        fork=plan.request.fork,
        source=source,
        expires_ms=expires_ms,
        rules=rules,
    )


def _check(request: Request) -> None:
    if request.kind == "cluster" and not request.storage:
        raise BadInputError(
            "a restore into another cluster needs to know where the tables of the snapshot lie",
            hint="add --storage DIR: nothing is asked of the old cluster",
        )
    if request.kind == "fork" and (problem := fork_problem(request.fork)):
        raise BadInputError(problem, hint="as in: snapkafka fork create staging --from latest")
    if request.expires_s is not None and request.expires_s <= 0:
        raise BadInputError(
            f"a fork cannot expire after {request.expires_s:g} s", hint="leave it out: it never does"
        )


@asynccontextmanager
async def _opened_target(
    where: Connection | Cluster, request: Request, pinned: Plan | None, bulk: RestoreBulk | None
) -> AsyncIterator[Target]:
    def namespace(manifest: Manifest) -> str:
        found = request.namespace or manifest.namespace
        if problem := namespace_problem(found):
            raise BadInputError(problem, hint="give --namespace")
        return prefixed(request.fork, found) if request.fork else found

    async with opened_session(where, request, namespace, pinned=pinned, bulk=bulk) as session:
        if request.drop_missing:
            session.drop_missing()
        yield TARGETS[request.kind](session=session)


# --- Past the commit point ------------------------------------------------------------------------------------------


async def _plan_to_finish(where: Connection | Cluster, request: Request) -> Plan | None:
    """Plan the rest of a committed open plan, if that is requested; None: there is none."""
    if request.kind == "fork" or not request.namespace:
        return None
    admin = admin_of(where)
    try:
        state, _, _ = await opened_state(where, admin, request.namespace)
        view = state.restores.open
        if view is None or not view.committed or bool(view.begun.origin) != request.into:
            return None
        if request.name not in (LATEST, view.begun.snapshot, str(view.begun.epoch)):
            return None
        return await _finishing(admin, request, view)
    finally:
        await admin.close()


async def _finishing(admin: Topics, request: Request, view: RestoreView) -> Plan:
    offsets = group_offsets(view.positions())
    groups = {app: await admin.committed(app) for app in offsets}
    members = {app: await _workers(admin, app) for app in view.apps}
    return Plan(
        kind=request.kind,
        plan=view.plan,
        request=request,
        snapshot=view.begun.snapshot,
        attempt=view.begun.attempt,
        epoch=view.begun.epoch,
        verdict="",
        digest="",
        place="",
        namespace=request.namespace,
        apps=view.apps,
        moves=tuple(
            PartitionMove(
                app=app,
                topic=tp.topic,
                partition=tp.partition,
                before=groups[app].get(tp, (-1, ""))[0],
                after=offset,
            )
            for app, of_app in sorted(offsets.items())
            for tp, offset in sorted(of_app.items())
        ),
        notes=("everything was appended by an earlier run: only the positions are left to be set",),
        refusals=tuple(member_refusals(members)),
        resumes=view.plan,
        stage=view.stage,
        consistent=not view.begun.only,
    )


async def _workers(admin: Topics, app: str) -> int:
    return len([it for it in await admin.group_members(app) if it.client != HOLDER])


async def _finish(where: Connection | Cluster, plan: Plan, watcher: Watcher, started: float) -> Recovered:
    admin = admin_of(where)
    try:
        async with held(admin, plan.apps, watcher.notify) as holds:
            now = await _plan_to_finish(where, plan.request)
            if now is not None:
                raise_changed(plan, now)
            async with opened(where, plan.namespace) as work:
                commit = Commit(
                    work=work,
                    admin=admin,
                    holds=holds,
                    plan=plan,
                    who=watcher.who,
                    notify=watcher.notify,
                    crash=watcher.crash,
                )
                view = await commit.finish()
    finally:
        await admin.close()
    return _recovered(plan, view, started)
