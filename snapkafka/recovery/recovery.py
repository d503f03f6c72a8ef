"""The pipeline of a recovery: plan, hold, check that the plan is still the confirmed one, and run exactly that."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from snapkafka.config import namespace_problem
from snapkafka.errors import BadInputError, ForkRefusedError, RestoreRefusedError
from snapkafka.kafka.ledger.reading import opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import Manifest
from snapkafka.ports import Cluster
from snapkafka.protocol.forking import fork_problem, prefixed

from .appending import Bulk
from .plan import Plan, Recovered, Request, raise_changed, raise_refused
from .planning import planned
from .session import held, opened_session
from .steps import RecoveryRun
from .target import Target


async def plan_recovery(where: Connection | Cluster, request: Request, *, bulk: Bulk | None = None) -> Plan:
    """Plan a recovery, with every reason to refuse it. Change nothing.

    Raises:
        BadInputError: an invalid name or storage; something cannot be examined or
            masked, or a rule about erased keys or a mask matches nothing.
        UnknownSnapshotError, StorageError: there is no such snapshot, or it cannot be read.
        DependencyMissingError: the extra `restore` is not installed.
    """
    _check(request)
    async with _opened_target(where, request, None, bulk) as target:
        return await planned(target)


async def recover(
    where: Connection | Cluster,
    plan: Plan,
    *,
    who: str = "",
    notify: Callable[[str], None] = lambda text: None,
    crash: Callable[[str], None] = lambda step: None,
    bulk: Bulk | None = None,
) -> Recovered:
    """Run a confirmed plan as it is, or change nothing.

    The consumer groups are held before the plan is computed once more, so nothing in it changes afterwards. Workers of
    production may run while a fork is created, and are not affected.

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
        RestoreFailedError, ForkFailedError: it ended half-way; another run continues, but a fork is removed first.
    """
    refused = ForkRefusedError if plan.kind == "fork" else RestoreRefusedError
    raise_refused(plan, refused)
    started = time.monotonic()
    async with _opened_target(where, plan.request, plan, bulk) as target:
        session = target.session
        async with held(session.admin, plan.apps, notify, refused) as holds:
            now = await planned(target)
            raise_changed(plan, now)
            async with opened(where, session.namespace, create=True) as work:
                run = RecoveryRun(
                    target=target, work=work, holds=holds, plan=plan, who=who, notify=notify, crash=crash
                )
                view = await run.run()
    return Recovered(
        plan=plan,
        author=view.author,
        messages=run.appended["messages"],
        inputs=run.appended["inputs"],
        state=run.appended["state"],
        suppressed=target.editing.suppressed,
        masked=target.editing.masked,
        rules=now.rules,
        topics=tuple(target.created),
        compared=run.compared,
        expires_ms=target.expires_ms,
        seconds=round(time.monotonic() - started, 3),
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
    where: Connection | Cluster, request: Request, pinned: Plan | None, bulk: Bulk | None
) -> AsyncIterator[Target]:
    def namespace(manifest: Manifest) -> str:
        found = request.namespace or manifest.namespace
        if problem := namespace_problem(found):
            raise BadInputError(problem, hint="give --namespace")
        return prefixed(request.fork, found) if request.fork else found

    async with opened_session(where, request, namespace, pinned=pinned, bulk=bulk) as session:
        yield Target(session=session)
