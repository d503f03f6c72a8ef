"""The pipeline of a recovery: plan, hold, check that the plan is still the confirmed one, and run exactly that."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from snapkafka.config import namespace_problem
from snapkafka.errors import BadInputError, ForkRefusedError, RestoreRefusedError, SnapkafkaError
from snapkafka.kafka.ledger.reading import LATEST, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import Manifest
from snapkafka.ports import Cluster
from snapkafka.protocol.forking import fork_problem, prefixed
from snapkafka.protocol.restores import RestoreView

from .finish import Commit
from .plan import PartitionMove, Plan, Recovered, Request, raise_changed, raise_refused
from .positions import group_offsets
from .reasons import member_refusals
from .session import RestoreBulk, admin_of, held, opened_session, opened_state
from .steps import RecoveryRun
from .stored_rows import workers_of
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


async def plan_recovery(
    where: Connection | Cluster, request: Request, *, bulk: RestoreBulk | None = None
) -> Plan:
    """Plan a recovery, with every reason to refuse it. Change nothing.

    A plan that is past its commit point is finished from the ledger alone, whatever the state of its snapshot.

    Raises:
        BadInputError: an invalid name or storage; something cannot be examined or
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
    who: str = "",
    notify: Callable[[str], None] = lambda text: None,
    crash: Callable[[str], None] = lambda step: None,
    bulk: RestoreBulk | None = None,
) -> Recovered:
    """Run a confirmed plan as it is, or finish one that was interrupted; or change nothing.

    The consumer groups are held before the plan is computed once more, so nothing in it changes afterwards. Workers of
    production may run while a fork is created, and are not affected; remainders of an earlier attempt are removed.

    Args:
        who: the caller, for people.
        notify: called with each phase.
        crash: for tests: called with the name of each phase before it begins.
        bulk: for tests; None: by librdkafka.

    Raises:
        RestoreRefusedError, ForkRefusedError: for a reason that it names; nothing was changed.
        PlanChangedError: it would be another plan by now; nothing was changed.
        BadInputError: a record that production has received since the plan cannot be masked: nothing was changed, or
            the fork is unfinished, and never runs.
        OvertakenError: another run or a worker has taken over; this one changed nothing more.
        RestoreFailedError, ForkFailedError: it ended half-way; another run continues, or starts over.
    """
    refused = ForkRefusedError if plan.kind == "fork" else RestoreRefusedError
    raise_refused(plan, refused)
    started = time.monotonic()
    if plan.committed:
        done = await _finish(
            where, plan, notify, partial(Commit, plan=plan, who=who, notify=notify, crash=crash)
        )
    else:
        made = partial(RecoveryRun, plan=plan, who=who, notify=notify, crash=crash)
        done = await _run(where, plan, notify, made, refused, bulk)
    return replace(done, seconds=round(time.monotonic() - started, 3))


async def _run(
    where: Connection | Cluster,
    plan: Plan,
    notify: Callable[[str], None],
    made: Callable[..., RecoveryRun],
    refused: type[SnapkafkaError],
    bulk: RestoreBulk | None,
) -> Recovered:
    async with _opened_target(where, plan.request, plan, bulk) as target:
        session = target.session
        async with held(session.admin, plan.apps, notify, refused) as holds:
            now = await target.planned()
            raise_changed(plan, now)
            await target.clear(plan, notify)
            async with target.ledger() as work:
                run = made(work=work, admin=session.admin, holds=holds, target=target, bulk=session.bulk)
                view = await run.run()
    return replace(
        _recovered(plan, view),
        messages=run.appended["messages"],
        inputs=run.appended["inputs"],
        state=run.appended["state"],
        suppressed=target.editing.suppressed,
        masked=target.editing.masked,
        rules=now.rules,
        topics=tuple(run.created),
        notes=(*plan.notes, *run.changed),
        compared=run.compared,
        source=target.source if isinstance(target, ForkTarget) else "",
        expires_ms=target.expires_ms if isinstance(target, ForkTarget) else 0,
    )


def _recovered(plan: Plan, view: RestoreView) -> Recovered:
    """Build the result of a plan of which an earlier run has appended everything."""
    return Recovered(
        kind=plan.kind,
        plan=view.plan,
        snapshot=plan.snapshot,
        epoch=plan.epoch,
        namespace=plan.namespace,
        apps=plan.apps,
        author=view.author,
        resumed=bool(plan.resumes),
        messages=-1,
        inputs=-1,
        state=-1,
        seconds=0.0,
        irrevocable=plan.irrevocable,
        absent=plan.absent,
        notes=plan.notes,
        fork=plan.request.fork,
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
        yield TARGETS[request.kind](session=session)


# --- Past the commit point ------------------------------------------------------------------------------------------


async def _plan_to_finish(where: Connection | Cluster, request: Request) -> Plan | None:
    """Plan the rest of a committed open plan, if that is requested; None: there is none."""
    if request.kind == "fork" or not request.namespace:
        return None
    async with admin_of(where) as admin:
        state, _ = await opened_state(where, admin, request.namespace)
        view = state.restores.open
        if view is None or not view.committed or bool(view.begun.origin) != request.into:
            return None
        if request.name not in (LATEST, view.begun.snapshot, str(view.begun.epoch)):
            return None
        return await _finishing(admin, request, view)


async def _finishing(admin: Topics, request: Request, view: RestoreView) -> Plan:
    offsets = group_offsets(view.positions())
    groups = {app: await admin.committed(app) for app in offsets}
    members = await workers_of(admin, view.apps)
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
    )


async def _finish(
    where: Connection | Cluster, plan: Plan, notify: Callable[[str], None], made: Callable[..., Commit]
) -> Recovered:
    async with admin_of(where) as admin, held(admin, plan.apps, notify) as holds:
        now = await _plan_to_finish(where, plan.request)
        if now is not None:
            raise_changed(plan, now)
        async with opened(where, plan.namespace) as work:
            view = await made(work=work, admin=admin, holds=holds).finish()
    return _recovered(plan, view)
