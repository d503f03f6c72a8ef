"""Benches of the running system: two services, two workers each, 4 partitions, no slow agents."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Final

from aiokafka import AIOKafkaConsumer

from snapkafka.demo.settings import CREDITS
from tests.bench.figures import Figure, figure, p99
from tests.e2e.parts import Live, live

SNAPSHOTS: Final = 50
PAIRS: Final = 10
WINDOW_S: Final = 10.0
#: Faust lets a broker hold a fetch for 1.5 s, which hides everything else (docs/performance.md).
FETCH_WAIT_MS: Final = 50


def bench_capture() -> list[Figure]:
    """How long a capture takes (ledger time, trigger to completion), and each cut (in the workers)."""
    with live("bench-capture", slow_every=0) as system:
        views = []
        for number in range(SNAPSHOTS):
            views.append(system.take(f"s{number}"))
            time.sleep(0.1)
        times = system.observer.times
        captures = [float(times[view.captured_at or 0] - times[view.epoch - 1]) for view in views]
        cuts = [float(closed.cut_us) for view in views for _, closed in view.closed.values()]
    return [
        figure("capture_ms_p99", captures, "ms", of=p99, bar=250),
        figure("capture_ms_p50", captures, "ms"),
        figure("capture_cut_us_p99", cuts, "us", of=p99),
        figure("capture_cut_us_p50", cuts, "us"),
    ]


def bench_latency() -> list[Figure]:
    """End-to-end latency from outside, asked for to credited, in turn with a snapshot per second and without."""
    with live("bench-latency", slow_every=0, env=_fetching_often) as system:
        ratios, without, with_snapshots = [], [], []
        for pair in range(PAIRS):
            first_with = pair % 2 == 0
            measured = {True: 0.0, False: 0.0}
            for snapshots in (first_with, not first_with):
                measured[snapshots] = p99(_window(system, f"{pair}-{snapshots}", snapshots=snapshots))
            ratios.append(measured[True] / measured[False])
            without.append(measured[False])
            with_snapshots.append(measured[True])
    return [
        figure("latency_p99_ratio", ratios, "ratio", bar=1.05),
        figure("latency_p99_ms_without", without, "ms"),
        figure("latency_p99_ms_with", with_snapshots, "ms"),
    ]


def _fetching_often(app: str, number: int) -> Mapping[str, str]:
    return {"SNAPKAFKA_DEMO_FETCH_WAIT_MS": str(FETCH_WAIT_MS)}


def _window(system: Live, name: str, *, snapshots: bool) -> list[float]:
    """Latencies in milliseconds of the transfers that were credited in one window."""
    measuring = asyncio.run_coroutine_threadsafe(_latencies(system.bootstrap), system.observer.loop)
    taken = 0
    deadline = time.monotonic() + WINDOW_S
    while time.monotonic() < deadline:
        if snapshots:
            system.trigger(f"{name}-{taken}")
            taken += 1
        time.sleep(1.0)
    found = measuring.result(WINDOW_S + 30)
    assert len(found) > 100, f"only {len(found)} transfers were credited"
    assert not snapshots or taken >= WINDOW_S * 0.8
    return found


async def _latencies(bootstrap: str) -> list[float]:
    consumer = AIOKafkaConsumer(CREDITS, bootstrap_servers=bootstrap, auto_offset_reset="latest")
    await consumer.start()
    found: list[float] = []
    deadline = time.monotonic() + WINDOW_S
    try:
        while time.monotonic() < deadline:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                for record in records:
                    if record.value is not None:  # a marker has none
                        found.append((record.timestamp / 1000 - json.loads(record.value)["asked"]) * 1000)
    finally:
        await consumer.stop()
    return found
