"""`fork create`: turn a snapshot into a second system, under a prefix, beside production, which is only read.

The same code runs in it with `SNAPKAFKA_FORK=NAME`. See docs/guide/fork.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from snapkafka.kafka.ledger.view import LATEST
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.recovery.masks import Mask
from snapkafka.recovery.plan import Plan, Recovered, Request
from snapkafka.recovery.recovery import Watcher, plan_recovery, recover
from snapkafka.recovery.session import RestoreBulk
from snapkafka.recovery.still_held import with_held
from snapkafka.recovery.suppression import Suppression


async def plan_fork(
    where: Connection | Cluster,
    namespace: str,
    fork: str,
    *,
    snapshot: str = LATEST,
    storage: str = "",
    expires_s: float | None = None,
    with_inputs: bool = False,
    mask: Sequence[Mask] = (),
    suppress: Suppression | None = None,
    allow_unmatched: bool = False,
    force: bool = False,
    bulk: RestoreBulk | None = None,
) -> Plan:
    """Plan the creation of a fork, with every reason to refuse it. Change nothing.

    Args:
        fork: its name.
        snapshot: id, epoch or `latest`, the last good one.
        storage: of its manifest; empty: its place in the ledger.
        expires_s: after how long `drop_expired` removes it; None: never.
        with_inputs: copy the external records from each position to now, which production has read since; those that
            production's log has lost come from the table `inputs`.
        mask: the rules that replace values of tables and topics.
        suppress: names erased keys, which are left out.
        allow_unmatched: accept a mask, and a rule of `suppress`, that matches nothing.
        force: leave out the reasons that `--force` overrides.
        bulk: for tests; None: by librdkafka.

    Raises:
        UnknownSnapshotError, StorageError: there is no such snapshot, or it cannot be read.
        BadInputError: a mask, a rule or the name is invalid; a rule matches nothing, or something cannot be examined
            or masked.
        DependencyMissingError: the extra `restore` is not installed.
    """
    request = Request(
        namespace=namespace,
        name=snapshot,
        storage=storage,
        force=force,
        suppress=suppress,
        allow_unmatched=allow_unmatched,
        masks=tuple(mask),
        fork=fork,
        with_inputs=with_inputs,
        expires_s=expires_s,
    )
    return await plan_recovery(where, request, bulk=bulk)


async def create_fork(
    where: Connection | Cluster,
    plan: Plan,
    *,
    who: str = "",
    notify: Callable[[str], None] = lambda text: None,
    crash: Callable[[str], None] = lambda step: None,
    bulk: RestoreBulk | None = None,
) -> Recovered:
    """Create a fork as planned. Workers of production may run, and are not affected.

    Remainders of an earlier attempt are removed first.

    Args:
        plan: the confirmed plan; it is run as it is, or not at all.
        who: the caller, for people.
        notify: called with each phase.
        crash: for tests: called before each phase.
        bulk: for tests; None: by librdkafka.

    Raises:
        ForkRefusedError, PlanChangedError: nothing was changed.
        BadInputError: a record that production has received since the plan cannot be masked: nothing was changed, or
            the fork is unfinished, and never runs.
        OvertakenError, ForkFailedError, RestoreFailedError: it ended half-way; another run starts over.
    """
    done = await recover(where, plan, watcher=Watcher(who=who, notify=notify, crash=crash), bulk=bulk)
    return await with_held(done, plan, notify)
