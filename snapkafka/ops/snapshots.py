"""Snapshots as they are taken: `trigger`, the wait for one, `pause`, `resume`, `retire` and `abort`.

All of them append records to the ledger that every service obeys, without a restart (R10, R15).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from snapkafka.errors import BadInputError, SnapshotFailedError, TriggerRefusedError
from snapkafka.kafka.ledger.reading import Opened, find_snapshot, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.preflight import compose_trigger, require_id
from snapkafka.ports import Cluster
from snapkafka.protocol.ledger_state import LedgerState, SnapshotView
from snapkafka.protocol.membership import GRACE
from snapkafka.protocol.records import (
    PAUSE_MOST_S,
    PAUSE_S,
    RETRIES,
    RETRYABLE,
    Abort,
    Dead,
    LedgerRecord,
    Pause,
    Retire,
    Trigger,
)
from snapkafka.until import pause_after

from .info import SnapshotInfo, WaitRow, details, summary


async def trigger(
    where: Connection | Cluster,
    namespace: str,
    *,
    snapshot_id: str = "",
    retries: int | None = None,
    align_timeout_ms: int = 0,
    wait: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> SnapshotInfo:
    """Request a snapshot. The same id again returns the same snapshot, whatever the other arguments.

    Args:
        snapshot_id: empty: an id is generated.
        retries: how often to start the next attempt if the snapshot fails by something that passes (`RETRYABLE`), with
            growing pauses; None: three times with `wait`, else never. One that had failed before is tried again at
            once, whatever the reason; without `wait` that is all.
        align_timeout_ms: align for so long at most; if that fails, the next attempt is an ordinary snapshot.
        wait: whether to wait until it is captured.
        progress: called from time to time while waiting.
        options: other fields of `verbs.Trigger`.

    Raises:
        BadInputError, UnknownSnapshotError, TriggerRefusedError: it cannot start.
        SnapshotFailedError: the snapshot failed, now or earlier.
        StorageError: the URI of the storage contains a secret.
    """
    require_id(snapshot_id)
    named = max(0, retries or 0)
    if named and not (snapshot_id or wait):
        raise BadInputError(
            "needs a snapshot that is named or waited for",
            hint="add --wait, or the --id of a snapshot that failed",
            field="retries",
        )
    if align_timeout_ms and not wait:
        raise BadInputError("needs --wait: an attempt follows that is not aligned", field="align-timeout")
    ordinary = dict(options)
    if align_timeout_ms:
        options |= {"align": True, "ttl_ms": align_timeout_ms}
    async with opened(where, namespace) as work:
        state, times_ms = work.reading.state, work.reading.times_ms
        options["storage"] = options.get("storage") or _storage(state)
        compose = partial(
            compose_trigger, work.admin, state, catch_up=work.catch_up, times_ms=times_ms, **options
        )
        epoch = state.latest_of.get(snapshot_id) if snapshot_id else None
        if epoch is None:
            view = await _triggered(work, await compose(snapshot_id=snapshot_id))
        else:
            view = state.snapshots[epoch]
        if epoch is not None and view.failure is not None and named:
            named -= 1
            following = view.trigger.attempt + 1
            view = await _triggered(work, await compose(snapshot_id=snapshot_id, attempt=following))
        if wait:
            await follow(work, view, progress)
            left = RETRIES if retries is None else named
            if align_timeout_ms and view.failure is not None:
                left, compose = max(1, left), partial(compose, **{"align": False, "ttl_ms": 5_000} | ordinary)
            while left and view.failure is not None and view.failure.code in RETRYABLE:
                left -= 1
                view = await _again(work, view, compose, progress, last=not left)
                await follow(work, view, progress)
        hint = f"`snapkafka show {view.trigger.id}` has the details; --retries 1 starts its next attempt"
        return _captured(work, view, hint)


def _storage(state: LedgerState) -> str:
    """Return the storage of the newest snapshot that has one; empty: none has."""
    for view in reversed(state.snapshots.values()):
        manifest = view.verdict.manifest if view.verdict is not None else ""
        if found := view.trigger.storage or manifest.rpartition("/")[0]:
            return found
    return ""


async def _again(
    work: Opened, failed: SnapshotView, compose: Callable[..., Any], progress: Progress | None, *, last: bool
) -> SnapshotView:
    """Start the next attempt, after a pause. If it cannot start because no process is running, that counts as an
    attempt."""
    following = failed.trigger.attempt + 1
    pause_s = pause_after(failed.trigger.attempt, random.random(), first=PAUSE_S, most=PAUSE_MOST_S)
    if progress is not None:
        wait = WaitRow(text=f"attempt {following}, in {pause_s:.1f} s", process=-1, app="", waited_ms=0)
        progress(replace(_progress(work, failed, 0), waits=(wait,)))
    await asyncio.sleep(pause_s)
    await work.catch_up()
    try:
        record = await compose(snapshot_id=failed.trigger.id, attempt=following)
    except TriggerRefusedError:
        if last:
            raise
        return failed
    return await _triggered(work, record)


def _captured(work: Opened, view: SnapshotView, hint: str = "") -> SnapshotInfo:
    if view.failure is not None:
        raise SnapshotFailedError(f"snapshot {view.trigger.id} failed: {view.failure.reason}", hint=hint)
    return summary(work.reading, view)


async def _triggered(work: Opened, record: Trigger) -> SnapshotView:
    """Append a trigger; return the snapshot of the first trigger of its (id, attempt): ours, or one that came
    between."""
    await _append(work, record)
    state = work.reading.state
    return state.snapshots[state.by_id[record.id, record.attempt]]


#: How often progress is reported though nothing happened, so that a person sees time pass.
TICK_S: Final = 0.25
#: The records of a capture come within milliseconds: they are taken in at once after so long a rest.
REST_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureProgress:
    """The progress of a running snapshot: `done` of `needed` (inputs cut and reports), and what it waits for."""

    id: str
    waited_ms: int
    done: int
    needed: int
    waits: tuple[WaitRow, ...]


Progress = Callable[[CaptureProgress], None]


async def await_captured(
    where: Connection | Cluster,
    namespace: str,
    name: str,
    *,
    progress: Progress | None = None,
) -> SnapshotInfo:
    """Wait until a snapshot is captured; abort it when its time to live is over (R12).

    Args:
        name: its id, its epoch, or `latest`, the last one triggered.

    Raises:
        UnknownSnapshotError: the ledger has no such snapshot.
        SnapshotFailedError: the snapshot failed, now or earlier.
    """
    async with opened(where, namespace) as work:
        view = find_snapshot(work.reading.state, name)
        await follow(work, view, progress)
        return _captured(work, view)


async def follow(work: Opened, view: SnapshotView, progress: Progress | None) -> None:
    """Wait until the snapshot is captured or has failed; fail it when its time to live is over.

    Any process that notices this aborts it, and declares those dead that have not reported a while after that, so that
    the next snapshot does not wait for them; they take a new identity when they read that.
    """
    clock = asyncio.get_running_loop().time
    # Its whole time from now on, though some may be over: the ledger's clock and this one may differ by more than that.
    started, aborted = clock(), False
    deadline = started + view.trigger.ttl_ms * (1 + 1 / GRACE) / 1000
    changed = asyncio.Event()
    reader = asyncio.ensure_future(_read(work, changed))
    try:
        while view.open:
            if progress is not None:
                progress(_progress(work, view, round((clock() - started) * 1000)))
            left = deadline - clock()
            if left <= 0 and not aborted:
                aborted = True
                await _give_up(work, view)
            changed.clear()
            wait = asyncio.ensure_future(changed.wait())
            tick = TICK_S if aborted else min(TICK_S, max(left, 0.001))
            await asyncio.wait([wait, reader], timeout=tick, return_when=asyncio.FIRST_COMPLETED)
            wait.cancel()
            if reader.done():
                reader.result()
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


async def _read(work: Opened, changed: asyncio.Event) -> None:
    async for entry in work.ledger.read(work.reading.state.end, rest=partial(asyncio.sleep, REST_S)):
        work.reading.apply(entry)
        changed.set()


async def _give_up(work: Opened, view: SnapshotView) -> None:
    waits = work.reading.state.waiting(view.epoch)
    first = next((row.text for row in details(work.reading, view, 0).waits), "nothing the ledger shows")
    reason = f"not captured within {view.trigger.ttl_ms} ms: waited for {first}"
    abort = Abort(n=random.getrandbits(63), epoch=view.epoch, code="ttl", reason=reason, culprit=first)
    await work.ledger.append(abort)
    for wait in waits:
        await work.ledger.append(Dead(n=random.getrandbits(63), dead=wait.process))


def _progress(work: Opened, view: SnapshotView, waited_ms: int) -> CaptureProgress:
    waits = work.reading.state.waiting(view.epoch)
    needed = len(view.required) + len(view.expected)
    rows = details(work.reading, view, work.reading.times_ms[view.epoch - 1] + waited_ms).waits
    return CaptureProgress(
        id=view.trigger.id, waited_ms=waited_ms, done=needed - len(waits), needed=needed, waits=rows
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """The state of a namespace. `changed`: whether this call changed it. `aborted`: snapshots that were in progress.
    `paused`: None where an app was retired."""

    namespace: str
    paused: bool | None
    retired: tuple[str, ...]
    changed: bool
    aborted: tuple[str, ...] = ()


async def pause(where: Connection | Cluster, namespace: str, *, paused: bool = True) -> Switched:
    """Allow no snapshots until further notice, and abort those in progress. Nothing else stops or restarts."""
    async with opened(where, namespace) as work:
        changed = work.reading.state.paused != paused
        under_way = tuple(view.trigger.id for view in work.reading.state.open.values())
        if changed:
            await _append(work, Pause(n=random.getrandbits(63), paused=paused))
        return _switched(work, changed=changed, aborted=under_way if changed and paused else ())


async def resume(where: Connection | Cluster, namespace: str) -> Switched:
    """Allow snapshots again."""
    return await pause(where, namespace, paused=False)


async def retire(where: Connection | Cluster, namespace: str, app: str) -> Switched:
    """Retire an app for good: snapshots no longer wait for its inputs. If it joins again, it is back."""
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
        return replace(_switched(work, changed=changed), paused=None)


async def abort(where: Connection | Cluster, namespace: str, name: str, *, who: str = "") -> SnapshotInfo:
    """End a running snapshot. One that was aborted already stays so; the first record in the ledger counts.

    Args:
        name: its id, its epoch, or `latest`, the last one triggered.

    Raises:
        UnknownSnapshotError: there is no such snapshot.
        TriggerRefusedError: it is captured, or has failed for another reason: there is nothing left to abort.
    """
    async with opened(where, namespace) as work:
        view = find_snapshot(work.reading.state, name)
        if view.open:
            reason = f"aborted by {who}" if who else "aborted on request"
            n = random.getrandbits(63)
            await _append(work, Abort(n=n, epoch=view.epoch, code="aborted", reason=reason, culprit=who))
        found = summary(work.reading, view)
        if found.failure is None or found.failure.code != "aborted":
            raise TriggerRefusedError(
                f"snapshot {found.id} cannot be aborted: it is {found.status}",
                hint=f"only a running one can; `snapkafka show {found.id}` shows its result",
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
