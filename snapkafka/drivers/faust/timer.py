"""`install(app, every=60.0)`: periodic snapshots, each requested by whichever worker is first.

Every worker has the timer. Each moment has a name, which is the snapshot's id, and the first trigger of an id is the
snapshot (R1): so there is one snapshot per moment, however many workers ask. A random delay makes it likely that only
one worker asks.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from snapkafka.backoff import pause_after
from snapkafka.errors import SnapkafkaError

if TYPE_CHECKING:
    from snapkafka.protocol.ledger_state import LedgerState

    from .host import Host

logger = logging.getLogger("snapkafka")

#: Of the period, and at most: by so much a worker asks late, so that most see that another one has asked.
JITTER: Final = 0.1
JITTER_MAX_S: Final = 5.0
#: After more failures than are tolerated the timer slows down, to so many times its period at most.
SLOWEST: Final = 32


def moment_after(now: float, every: float) -> float:
    """Return the next moment at which a snapshot is due: a multiple of `every`, in seconds since 1970, the same for
    all workers."""
    return (now // every + 1) * every


def moment_id(moment: float, every: float) -> str:
    """Return the id of the snapshot that is due at a moment, the same for all workers with the same period."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(moment))
    ms = round(moment % 1 * 1000)
    return f"every-{every:g}s-{stamp}" + (f".{ms:03}" if ms else "")


def failures_in_a_row(ledger: LedgerState, every: float) -> int:
    """Count how many of the latest snapshots of this timer have failed in a row."""
    mine = [v for _, v in sorted(ledger.snapshots.items()) if v.trigger.id.startswith(f"every-{every:g}s-")]
    decided = [view for view in mine if not view.open]
    good = [n for n, view in enumerate(decided) if view.failure is None]
    return len(decided) - (good[-1] + 1 if good else 0)


def slower(failures: int, tolerable: int) -> int:
    """Return the number of periods to wait: one, and twice as many for each failure beyond what is tolerable."""
    return round(pause_after(max(1, failures - tolerable + 1), 1.0, first=1.0, most=SLOWEST))


async def run_timer(
    host: Host, *, quiet_s: Callable[[], float], every: float, min_pause: float, tolerable: int, ttl_ms: int
) -> None:
    """Request snapshots until cancelled. All times are in seconds, except `ttl_ms`."""
    passed = 0
    while True:
        moment = moment_after(time.time(), every)
        jitter = random.random() * min(JITTER * every, JITTER_MAX_S)
        await asyncio.sleep(max(0.0, moment - time.time()) + jitter)
        passed += 1
        ledger, name = host.machine.ledger, moment_id(moment, every)
        if passed < slower(failures_in_a_row(ledger, every), tolerable):
            continue
        passed = 0
        if why := _not_now(host, ledger.by_id.keys(), name, quiet_s, min_pause):
            logger.debug("no snapshot %s: %s", name, why, extra=host.about(snapshot=name))
            continue
        try:
            await host.trigger(name, ttl_ms=ttl_ms)
        except SnapkafkaError as error:
            logger.warning(
                "snapkafka: no snapshot %s: %s (%s)",
                name,
                error,
                error.advice,
                extra=host.about(snapshot=name),
            )


def _not_now(
    host: Host,
    taken: Collection[tuple[str, int]],
    name: str,
    quiet_s: Callable[[], float],
    min_pause: float,
) -> str | None:
    """Return the reason why this worker requests no snapshot now; None: it does."""
    if (name, 1) in taken:
        return "another worker has already triggered it"
    if host.machine.process is None:
        return "this worker does not take part"
    if host.machine.ledger.open:
        return "another snapshot is running"
    if quiet_s() < min_pause:
        return f"the last one ended less than {min_pause:g} s ago"
    return None
