"""The timer of snapshots, and the metrics of a worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from snapkafka.config import Config
from snapkafka.drivers import Metrics, rendered
from snapkafka.drivers.faust import timer
from snapkafka.protocol import Hello, LedgerState, SnapshotView
from snapkafka.protocol.records import INPUT_MOVED, Abort, Trigger


@pytest.mark.parametrize(("code", "tries"), [(INPUT_MOVED, 4), ("by-hand", 1)])
async def test_a_failed_snapshot_is_retried(monkeypatch: pytest.MonkeyPatch, code: str, tries: int) -> None:
    ledger, tried = LedgerState(), []

    class Host:
        machine = type("Machine", (), {"ledger": ledger})

        async def trigger(self, name: str, *, attempt: int, ttl_ms: int) -> None:
            tried.append(attempt)
            ledger.apply(ledger.end, Trigger(n=10 + attempt, id=name, attempt=attempt, ttl_ms=ttl_ms))
            ledger.apply(ledger.end, Abort(n=20 + attempt, epoch=ledger.end, code=code, reason="it failed"))

    ledger.apply(0, Hello(n=1, app="shop"))
    monkeypatch.setattr(timer, "PAUSE_S", 0.0)
    host: Any = Host()
    await timer._take(host, "s", 5_000)
    assert tried == [*range(1, tries + 1)]


@pytest.mark.parametrize(("markers", "at"), [("always", range(9)), ("sampled", (3, 8)), ("never", ())])
async def test_the_timer_samples_markers(
    monkeypatch: pytest.MonkeyPatch, markers: Any, at: Collection[int]
) -> None:
    """By the number of the moment, so that all workers do the same. A moment passes while a snapshot is open. The last
    one of three that have joined asks last, a third of the period later."""
    now, taken = [1_000_000.0], list[bool]()
    joined = [SimpleNamespace(process=process) for process in (3, 1, 2)]
    ledger = SimpleNamespace(by_id={}, open=[], participants=lambda: joined)

    async def sleep(seconds: float) -> None:
        now[0] += seconds
        ledger.open = [1] if now[0] // 3.0 % 2 else []
        if len(taken) == 9:
            raise asyncio.CancelledError

    async def take(*_: Any, markers: bool) -> None:
        assert now[0] % 3 == 1.0
        taken.append(markers)

    monkeypatch.setattr(time, "time", lambda: now[0])
    monkeypatch.setattr(timer, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(timer, "_take", take)
    machine = SimpleNamespace(process=3, ledger=ledger)
    host: Any = SimpleNamespace(config=Config(namespace="n", markers=markers), machine=machine)
    with pytest.raises(asyncio.CancelledError):
        await timer.run_timer(host, 3.0)
    assert taken == [n in at for n in range(9)]


def view(epoch: int) -> SnapshotView:
    none: frozenset[int] = frozenset()
    trigger = Trigger(n=epoch, id="s")
    return SnapshotView(epoch=epoch, trigger=trigger, required=none, left=none, expected=set(), apps={})


def test_what_was_counted_can_be_read() -> None:
    """Also what is 0: an increase is seen from there on. Of workers: tests/driver/test_operators.py."""
    metrics = Metrics()
    metrics.count("ignored", "foreign-header", 5)
    metrics.observe("cut", 0.00025)  # not above the bound
    for epoch, forgets in ((10, False), (20, True)):
        metrics.triggered_ms[epoch] = 1_000
        if forgets:  # the ledger is a new one: nobody here saw its trigger
            metrics.triggered_ms.clear()
        metrics.decided(view(epoch), 1_200)
    metrics.decided(view(30), 9_000)  # it was triggered before this worker joined
    text, content_type = rendered(metrics, participating=True, ledger_lag=7)
    assert content_type.startswith("text/plain")
    assert set(text.decode().splitlines()) >= {
        'snapkafka_snapshots_total{outcome="captured"} 1.0',
        'snapkafka_snapshots_total{outcome="process-lost"} 0.0',
        'snapkafka_ignored_total{reason="foreign-header"} 5.0',
        'snapkafka_requests_total{api="Produce"} 0.0',
        "snapkafka_participating 1.0",
        "snapkafka_ledger_lag 7.0",
        'snapkafka_capture_seconds_bucket{le="0.1"} 0.0',
        'snapkafka_capture_seconds_bucket{le="0.25"} 1.0',
        "snapkafka_capture_seconds_sum 0.2",
        'snapkafka_cut_seconds_bucket{le="0.0001"} 0.0',
        'snapkafka_cut_seconds_bucket{le="0.00025"} 1.0',
    }
    unknown, _ = rendered(Metrics(), participating=False, ledger_lag=None)
    assert b"\nsnapkafka_participating 0.0" in unknown and b"\nsnapkafka_ledger_lag" not in unknown
