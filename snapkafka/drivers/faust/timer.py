"""`install(app, every=60.0)`: periodic snapshots, each requested by whichever worker is first.

Every worker has the timer. Each moment has a name, which is the snapshot's id, and the first trigger of an id is the
snapshot (R1): so there is one snapshot per moment, however many workers ask. Who has joined later asks later, so mostly
only one worker asks.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any, Final

from snapkafka.errors import SnapkafkaError
from snapkafka.protocol.records import PAUSE_MOST_S, PAUSE_S, RETRIES, RETRYABLE
from snapkafka.until import Tries, pause_after

from ..process import Process

#: Of the period, and at most: by so much the last worker asks after the first, so that most see that one has asked.
SPREAD: Final = 0.5
SPREAD_MAX_S: Final = 5.0
#: One snapshot in so many sends markers. A marker wakes the consumer, the loop and an agent of every reader; headers
#: alone mark a cut as well.
MARKED: Final[dict[str, float]] = {"always": 1, "sampled": 10, "never": float("inf")}
#: So often a snapshot is looked at that is under way.
POLL_S: Final = 0.1


def moment_id(moment: float, every: float) -> str:
    """Return the id of the snapshot that is due at a moment, the same for all workers with the same period."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(moment))
    ms = round(moment % 1 * 1000)
    return f"every-{every:g}s-{stamp}" + (f".{ms:03}" if ms else "")


async def run_timer(host: Process, every: float) -> None:
    """Request a snapshot every so many seconds, until cancelled."""
    while True:
        number = time.time() // every + 1  # the same for all workers
        moment = number * every
        older = [it.process < (host.machine.process or 0) for it in host.machine.ledger.participants()]
        turn_s = min(SPREAD * every, SPREAD_MAX_S) * sum(older) / max(len(older), 1)
        await asyncio.sleep(max(0.0, moment - time.time()) + turn_s)
        name, ledger = moment_id(moment, every), host.machine.ledger
        # Another one has requested it, this worker takes no part, or a snapshot is running.
        if (name, 1) in ledger.by_id or host.machine.process is None or ledger.open:
            continue
        try:
            markers = number % MARKED[host.config.markers] == 0
            await _take(host, name, host.config.ttl_ms, markers=markers)
        except SnapkafkaError as error:
            host.log("no snapshot %s: %s (%s)", name, error, error.hint, snapshot=name)


async def _take(host: Process, name: str, ttl_ms: int, **options: Any) -> None:
    """Request a snapshot, and again if it fails by something that passes."""
    ledger = host.machine.ledger
    for attempt in range(1, RETRIES + 2):
        await host.trigger(name, attempt=attempt, ttl_ms=ttl_ms, **options)
        async for _ in Tries(2 * ttl_ms / 1_000, POLL_S):
            view = ledger.snapshots.get(ledger.by_id.get((name, attempt), 0))
            if view is not None and not view.open:
                break
        if view is None or view.failure is None or view.failure.code not in RETRYABLE:
            return
        await asyncio.sleep(pause_after(attempt, random.random(), first=PAUSE_S, most=PAUSE_MOST_S))
