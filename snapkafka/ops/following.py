"""The wait for a snapshot: the ledger is read until the snapshot is decided, or aborted at its time to live (R12)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from snapkafka.errors import SnapshotFailedError
from snapkafka.kafka.ledger.reading import Opened, find_snapshot, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.protocol.ledger_state import SnapshotView
from snapkafka.protocol.records import Abort, Dead

from .listing import Summary, WaitRow, details, summary

#: How often progress is reported though nothing happened, so that a person sees time pass.
TICK_S: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureProgress:
    """The progress of a running snapshot: `done` of `needed` (inputs cut and senders closed), and what it waits for."""

    id: str
    waited_ms: int
    done: int
    needed: int
    waits: tuple[WaitRow, ...]


async def await_captured(
    where: Connection | Cluster,
    namespace: str,
    name: str,
    *,
    progress: Callable[[CaptureProgress], None] | None = None,
) -> Summary:
    """Wait until a snapshot is captured; abort it when its time to live is over (R12).

    Args:
        name: its id, its epoch, or `latest`, the last one triggered.
        progress: called from time to time.

    Raises:
        UnknownSnapshotError: the ledger has no such snapshot.
        SnapshotFailedError: the snapshot failed, now or earlier.
    """
    async with opened(where, namespace) as work:
        view = find_snapshot(work.reading.state, name)
        await follow(work, view, progress)
        if view.failure is not None:
            raise SnapshotFailedError(f"snapshot {view.trigger.id} failed: {view.failure.reason}")
        return summary(work.reading, view)


async def follow(
    work: Opened, view: SnapshotView, progress: Callable[[CaptureProgress], None] | None
) -> None:
    """Wait until the snapshot is captured or has failed; fail it when its time to live is over.

    Any process that notices this aborts it, and declares the senders dead that have given no sign, so that the next
    snapshot does not wait for them; they take a new identity when they read that.
    """
    loop = asyncio.get_running_loop()
    # Its whole time from now on, though some may be over: the ledger's clock and this one may differ by more than that.
    deadline = loop.time() + view.trigger.ttl_ms / 1000
    started, aborted = loop.time(), False
    changed = asyncio.Event()
    reader = asyncio.ensure_future(_read(work, changed))
    try:
        while view.open:
            if progress is not None:
                progress(_progress(work, view, round((loop.time() - started) * 1000)))
            left = deadline - loop.time()
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
    async for entry in work.ledger.read(work.reading.state.end):
        work.reading.apply(entry)
        changed.set()


async def _give_up(work: Opened, view: SnapshotView) -> None:
    waits = work.reading.state.waiting(view.epoch)
    first = str(waits[0]) if waits else "nothing that the ledger shows"
    await work.ledger.append(
        Abort(
            n=random.getrandbits(63),
            epoch=view.epoch,
            code="ttl",
            reason=f"not captured within {view.trigger.ttl_ms} ms: waited for {first}",
            culprit=first,
        )
    )
    for wait in waits:
        if wait.what == "report":
            await work.ledger.append(Dead(n=random.getrandbits(63), dead=wait.process))


def _progress(work: Opened, view: SnapshotView, waited_ms: int) -> CaptureProgress:
    state = work.reading.state
    waits = state.waiting(view.epoch)
    needed = len(view.required) + len(view.expected)
    rows = details(work.reading, view, work.reading.times_ms[view.epoch - 1] + waited_ms).waits
    return CaptureProgress(
        id=view.trigger.id, waited_ms=waited_ms, done=needed - len(waits), needed=needed, waits=rows
    )
