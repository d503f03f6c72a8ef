"""`trigger`: request a snapshot, and wait for it if asked to."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Unpack

from snapkafka.backoff import pause_after
from snapkafka.errors import BadInputError, Option, SnapshotFailedError, TriggerRefusedError, Verb
from snapkafka.kafka.ledger.reading import Opened, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.preflight import TriggerOptions, compose_trigger, require_id
from snapkafka.ports import Cluster
from snapkafka.protocol.ledger_state import SnapshotView
from snapkafka.protocol.records import Trigger

from .following import CaptureProgress, follow
from .listing import Summary, summary

#: Pauses between the attempts of a snapshot: the first, and the longest.
PAUSE_S: Final = 1.0
PAUSE_MOST_S: Final = 60.0


async def trigger(
    where: Connection | Cluster,
    namespace: str,
    *,
    snapshot_id: str = "",
    retries: int = 0,
    wait: bool = False,
    progress: Callable[[CaptureProgress], None] | None = None,
    **options: Unpack[TriggerOptions],
) -> Summary:
    """Request a snapshot. The same id again returns the same snapshot, whatever the other arguments.

    Args:
        snapshot_id: empty: an id is generated.
        retries: how often to start the next attempt if the snapshot fails, with growing pauses. One that had failed
            before is tried again at once; without `wait` that is all.
        wait: whether to wait until it is captured.
        progress: called from time to time while waiting.
        options: see `kafka.preflight.compose_trigger`.

    Raises:
        BadInputError, UnknownSnapshotError, TriggerRefusedError: it cannot start.
        SnapshotFailedError: the snapshot failed, now or earlier.
        StorageError: the URI of the storage contains a secret.
    """
    require_id(
        snapshot_id
    )  # also where an earlier release has taken such a snapshot: what it names is another one
    if retries < 0:
        raise BadInputError(f"must be 0 or more, got {retries}", hint="0 tries it once", field="retries")
    if retries and not (snapshot_id or wait):
        raise BadInputError(
            "needs a snapshot that is named or waited for",
            hint=("add ", Option("wait"), ", or the ", Option("id"), " of a snapshot that failed"),
            field="retries",
        )
    async with opened(where, namespace) as work:
        compose = partial(compose_trigger, work.admin, work.reading.state, catch_up=work.catch_up, **options)
        view = _latest(work, snapshot_id)
        if view is None:
            view = await _append(work, await compose(snapshot_id=snapshot_id))
        elif view.failure is not None and retries:
            retries -= 1
            view = await _append(
                work, await compose(snapshot_id=snapshot_id, attempt=view.trigger.attempt + 1)
            )
        if wait:
            await follow(work, view, progress)
            while view.failure is not None and retries:
                retries -= 1
                view = await _again(work, view, compose, last=not retries)
                await follow(work, view, progress)
        if view.failure is not None:
            raise SnapshotFailedError(
                f"snapshot {view.trigger.id} failed: {view.failure.reason}",
                hint=(
                    Verb("show", (view.trigger.id,)),
                    " has the details; ",
                    Option("retries", "1"),
                    " starts its next attempt",
                ),
            )
        return summary(work.reading, view)


async def _again(
    work: Opened, failed: SnapshotView, compose: Callable[..., Awaitable[Trigger]], *, last: bool
) -> SnapshotView:
    """Start the next attempt, after a pause. If it cannot start because no process is running, that counts as an
    attempt."""
    await asyncio.sleep(
        pause_after(failed.trigger.attempt, random.random(), first=PAUSE_S, most=PAUSE_MOST_S)
    )
    await work.catch_up()
    try:
        record = await compose(snapshot_id=failed.trigger.id, attempt=failed.trigger.attempt + 1)
    except TriggerRefusedError:
        if last:
            raise
        return failed
    return await _append(work, record)


def _latest(work: Opened, snapshot_id: str) -> SnapshotView | None:
    """Return the last attempt of the snapshot with this id."""
    state = work.reading.state
    epoch = state.latest_of.get(snapshot_id) if snapshot_id else None
    return None if epoch is None else state.snapshots[epoch]


async def _append(work: Opened, record: Trigger) -> SnapshotView:
    """Append a trigger; return the snapshot of the first trigger of its (id, attempt): ours, or one that came
    between."""
    offset = await work.ledger.append(record)
    await work.catch_up(to=offset + 1)
    state = work.reading.state
    return state.snapshots[state.by_id[record.id, record.attempt]]
