"""`pause`, `resume`, `retire`, `abort`: append records to the ledger that every service obeys, without a restart (R10,
R15)."""

from __future__ import annotations

import random
from dataclasses import dataclass

from snapkafka.errors import BadInputError, TriggerRefusedError, Verb
from snapkafka.kafka.ledger.reading import Opened, find_snapshot, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.protocol.records import Abort, LedgerRecord, Pause, Retire

from .listing import Summary, summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """The state of a namespace. `changed`: whether this call changed it. `aborted`: snapshots that were in progress."""

    namespace: str
    paused: bool
    retired: tuple[str, ...]
    changed: bool
    aborted: tuple[str, ...] = ()


async def pause(where: Connection | Cluster, namespace: str) -> Switched:
    """Allow no snapshots until further notice, and abort those in progress. Nothing else stops or restarts."""
    async with opened(where, namespace) as work:
        changed = not work.reading.state.paused
        under_way = [view.trigger.id for view in work.reading.state.open.values()]
        if changed:
            await _append(work, Pause(n=random.getrandbits(63), paused=True))
        return _switched(work, changed=changed, aborted=tuple(under_way) if changed else ())


async def resume(where: Connection | Cluster, namespace: str) -> Switched:
    """Allow snapshots again."""
    async with opened(where, namespace) as work:
        changed = work.reading.state.paused
        if changed:
            await _append(work, Pause(n=random.getrandbits(63), paused=False))
        return _switched(work, changed=changed)


async def retire(where: Connection | Cluster, namespace: str, app: str) -> Switched:
    """Retire an app for good: snapshots no longer wait for its inputs. If it joins again, it is back.

    Raises:
        BadInputError: the app is unknown, or still runs.
    """
    async with opened(where, namespace) as work:
        state = work.reading.state
        known = {view.hello.app for view in state.processes.values()}
        if app not in known:
            raise BadInputError(
                f"no app {app!r} has ever joined {namespace}",
                hint=f"known apps: {', '.join(sorted(known))}" if known else "no app has joined yet",
            )
        if living := [view.name for view in state.living() if view.hello.app == app]:
            raise BadInputError(
                f"app {app} is still running: {', '.join(living)}",
                hint="stop it first; a killed process is removed by the next snapshot that waits for it",
            )
        changed = app not in state.retired_apps()
        if changed:
            await _append(work, Retire(n=random.getrandbits(63), app=app))
        return _switched(work, changed=changed)


async def abort(where: Connection | Cluster, namespace: str, name: str, *, who: str = "") -> Summary:
    """End a running snapshot. One that was aborted already stays so; the first record in the ledger counts.

    Args:
        name: its id, its epoch, or `latest`, the last one triggered.
        who: the caller, for people.

    Raises:
        UnknownSnapshotError: there is no such snapshot.
        TriggerRefusedError: it is captured, or has failed for another reason: there is nothing left to abort.
    """
    async with opened(where, namespace) as work:
        view = find_snapshot(work.reading.state, name)
        if view.open:
            reason = f"aborted by {who}" if who else "aborted on request"
            await _append(
                work,
                Abort(n=random.getrandbits(63), epoch=view.epoch, code="aborted", reason=reason, culprit=who),
            )
        found = summary(work.reading, view)
        if found.failure_code != "aborted":
            raise TriggerRefusedError(
                f"snapshot {found.id} cannot be aborted: it is {found.status}",
                hint=("only a running one can; ", Verb("show", (found.id,)), " shows its result"),
            )
        return found


async def _append(work: Opened, record: LedgerRecord) -> None:
    await work.catch_up(to=await work.ledger.append(record) + 1)


def _switched(work: Opened, *, changed: bool, aborted: tuple[str, ...] = ()) -> Switched:
    state = work.reading.state
    return Switched(
        namespace=work.namespace,
        paused=state.paused,
        retired=tuple(sorted(state.retired_apps())),
        changed=changed,
        aborted=aborted,
    )
