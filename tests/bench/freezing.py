"""What `gc.freeze()` in the workers saves a snapshot, and an event beside it: turns with it and without, in turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from tests.bench.figures import Figure, figure, p99, percentile
from tests.bench.frozen_app import FREEZE, THAW
from tests.bench.live import FETCH_WAIT_MS, Transfer, wait_for_one_since, watch_credits
from tests.e2e.parts import Live, live

PAIRS, TURN_S, SNAPSHOTS = 8, 6.0, 12
#: A worker has frozen its objects by then.
SETTLES_S: Final = 1.0
MODULES: Final = dict.fromkeys(
    ("accounts-1", "accounts-2", "clearing-1", "clearing-2"), "tests.bench.frozen_app"
)


def bench_freeze() -> list[Figure]:
    """Captures and latencies with `gc.freeze()` in every worker, by those without."""
    captures: dict[bool, list[list[float]]] = {True: [], False: []}
    latencies: dict[bool, list[list[float]]] = {True: [], False: []}
    with live("bench-freeze", slow_every=0, env=_env, modules=MODULES) as system:
        transfers: list[Transfer] = []
        watching = asyncio.run_coroutine_threadsafe(
            watch_credits(system.bootstrap, transfers), system.observer.loop
        )
        wait_for_one_since(time.time(), transfers, system)
        turns = []
        for pair in range(PAIRS + 1):
            for frozen in (True, False) if pair % 2 else (False, True):
                start, end, taken = _turn(system, frozen=frozen)
                if pair:  # the first one warms up
                    turns.append((start, end, frozen))
                    captures[frozen].append(taken)
        wait_for_one_since(time.time() + 1, transfers, system)
        watching.cancel()
    for start, end, frozen in turns:
        latencies[frozen].append([it.latency_ms for it in transfers if start <= it.asked < end])
    return [
        figure("freeze_capture_p50_ratio", _ratios(captures, 0.5), "ratio"),
        figure("freeze_capture_max_ratio", _ratios(captures, 1.0), "ratio"),
        figure("freeze_latency_p50_ratio", _ratios(latencies, 0.5), "ratio"),
        figure("freeze_latency_p99_ratio", _ratios(latencies, 0.99), "ratio"),
        figure("freeze_latency_p99_ms_without", list(map(p99, latencies[False])), "ms"),
        figure("freeze_latency_p99_ms_with", list(map(p99, latencies[True])), "ms"),
    ]


def _env(app: str, number: int) -> Mapping[str, str]:
    return {"FROZEN_APP": app, "SNAPKAFKA_DEMO_FETCH_WAIT_MS": str(FETCH_WAIT_MS)}


def _turn(system: Live, *, frozen: bool) -> tuple[float, float, list[float]]:
    """Take snapshots for a while; return when that was, and how long each capture took, in milliseconds."""
    for worker in system.system.workers:
        worker.process.send_signal(FREEZE if frozen else THAW)
    time.sleep(SETTLES_S)
    start, epochs = time.time(), []
    for number in range(SNAPSHOTS):
        epochs.append(system.trigger(f"{start}-{number}"))
        time.sleep(max(0.0, start + (number + 1) * TURN_S / SNAPSHOTS - time.time()))
    end, taken, times = time.time(), [], system.observer.times
    for epoch in epochs:
        view = system.decided(epoch)
        assert view.captured_at is not None, view.failure
        taken.append(float(times[view.captured_at] - times[epoch - 1]))
    return start, end, taken


def _ratios(found: Mapping[bool, list[list[float]]], share: float) -> list[float]:
    """Return the ratio of each pair, with by without."""
    return [
        percentile(frozen, share) / percentile(thawed, share)
        for frozen, thawed in zip(found[True], found[False], strict=True)
    ]
