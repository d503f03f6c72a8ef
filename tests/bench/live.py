"""Benches of the running system: two services, two workers each, 4 partitions, no slow agents."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from aiokafka import AIOKafkaConsumer

from snapkafka.demo import CREDITS
from snapkafka.testing import wait_until
from tests.bench.figures import Figure, figure, p99
from tests.e2e.parts import Live, live

#: Of fewer than a hundred the p99 is the slowest.
SNAPSHOTS: Final = 300
#: Of each pair half of the turns are with snapshots, half without, one after the other.
PAIRS, TURNS, TURN_S = 10, 10, 3
#: Faust lets a broker hold a fetch for 1.5 s, which hides everything else (docs/evidence/performance.md).
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


def bench_system_latency() -> list[Figure]:
    """End-to-end latency from outside, asked for to credited, in short turns with a snapshot per second and without."""
    with live("bench-latency", slow_every=0, env=_fetching_often) as system:
        transfers: list[Transfer] = []
        watching = asyncio.run_coroutine_threadsafe(
            watch_credits(system.bootstrap, transfers), system.observer.loop
        )
        wait_for_one_since(time.time(), transfers, system)
        pairs = [
            [_turn(system, snapshots=(n + pair) % 2 == 0) for n in range(TURNS)] for pair in range(PAIRS)
        ]
        wait_for_one_since(time.time() + 1, transfers, system)  # by then those of the last turn are there
        watching.cancel()
    ratios, without, with_snapshots = [], [], []
    for turns in pairs:
        measured = {}
        for snapshots in (True, False):
            latencies = [
                transfer.latency_ms
                for turn in turns
                if turn.snapshots == snapshots
                for transfer in transfers
                if turn.start <= transfer.asked < turn.end
            ]
            assert len(latencies) > 500, f"only {len(latencies)} transfers were credited"
            measured[snapshots] = p99(latencies)
        ratios.append(measured[True] / measured[False])
        without.append(measured[False])
        with_snapshots.append(measured[True])
    return [
        figure("system_latency_p99_ratio", ratios, "ratio"),
        figure("system_latency_p99_ms_without", without, "ms"),
        figure("system_latency_p99_ms_with", with_snapshots, "ms"),
    ]


def _fetching_often(app: str, number: int) -> Mapping[str, str]:
    return {"SNAPKAFKA_DEMO_FETCH_WAIT_MS": str(FETCH_WAIT_MS)}


class Transfer(NamedTuple):
    """When it was asked for (seconds since 1970), and how long until it was credited."""

    asked: float
    latency_ms: float


class Turn(NamedTuple):
    """Transfers asked for from `start` until `end` (seconds since 1970) met a snapshot every second, or none."""

    start: float
    end: float
    snapshots: bool


def _turn(system: Live, *, snapshots: bool) -> Turn:
    """All its snapshots are captured when it is over."""
    start, epochs = time.time(), []
    for number in range(TURN_S):
        if snapshots:
            epochs.append(system.trigger(f"{start}-{number}"))
        time.sleep(max(0.0, start + number + 1 - time.time()))
    end = time.time()
    for epoch in epochs:
        assert (view := system.decided(epoch)).failure is None, view.failure
    return Turn(start, end, snapshots)


def wait_for_one_since(asked: float, transfers: list[Transfer], system: Live) -> None:
    wait_until(
        "a later transfer to be credited",
        lambda: bool(transfers) and transfers[-1].asked >= asked,
        timeout_s=30,
        system=system.system,
    )


async def watch_credits(bootstrap: str, found: list[Transfer]) -> None:
    """What is credited from now on, until it is cancelled."""
    consumer = AIOKafkaConsumer(CREDITS, bootstrap_servers=bootstrap, auto_offset_reset="latest")
    await consumer.start()
    try:
        while True:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                for record in records:
                    if record.value is not None:  # a marker has none
                        asked = json.loads(record.value)["asked"]
                        found.append(Transfer(asked, (record.timestamp / 1000 - asked) * 1000))
    finally:
        await consumer.stop()
