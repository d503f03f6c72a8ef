"""The timer of snapshots, and the metrics of a worker."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from snapkafka.drivers import Metrics, rendered
from snapkafka.drivers.faust import timer
from snapkafka.drivers.faust.timer import moment_after, moment_id
from snapkafka.protocol import INPUT_MOVED, Abort, Failure, Hello, LedgerState, SnapshotView, Trigger


def test_all_workers_mean_the_same_moments() -> None:
    assert [moment_after(now, 60.0) for now in (119.9, 120.0, 120.1, 179.9)] == [120, 180, 180, 180]
    assert moment_id(180, 60.0) == "every-60s-19700101T000300"
    assert moment_id(180, 60.0) != moment_id(180, 90.0), "each period counts for itself"
    assert len({moment_id(moment_after(n / 2, 1.5), 1.5) for n in range(0, 30, 3)}) == 10


@pytest.mark.parametrize(("code", "attempts"), [(INPUT_MOVED, 4), ("by-hand", 1)])
async def test_a_snapshot_that_fails_by_something_that_passes_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, code: str, attempts: int
) -> None:
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
    assert tried == [*range(1, attempts + 1)]


def view(epoch: int, failure: str = "") -> SnapshotView:
    return SnapshotView(
        epoch=epoch,
        trigger=Trigger(n=epoch, id="s"),
        required=frozenset(),
        left=frozenset(),
        expected=set(),
        apps={},
        failure=Failure(code=failure, reason="") if failure else None,
    )


def read(text: bytes) -> dict[tuple[str, str], float]:
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_what_was_counted_can_be_read() -> None:
    metrics = Metrics()
    metrics.count("cuts", number=3)
    metrics.count("ignored", "foreign-header", 5)
    for epoch, failure in ((10, ""), (20, "ttl"), (30, ""), (40, "")):
        metrics.triggered(view(epoch), 1_000)
        metrics.decided(view(epoch, failure), 1_200)
    metrics.decided(view(50), 9_000)  # it was triggered before this worker joined
    metrics.observe("cut", 0.00025)  # not above the bound
    metrics.counts["requests"]["Fetch"] += 6
    text, content_type = rendered(metrics, participating=True, ledger_lag=7)
    found = read(text)
    assert content_type.startswith("text/plain")
    assert found["snapkafka_snapshots_total", "captured"] == 3
    assert found["snapkafka_snapshots_total", "ttl"] == 1
    assert found["snapkafka_snapshots_total", "process-lost"] == 0, "an increase is seen from 0 on"
    assert found["snapkafka_ignored_total", "foreign-header"] == 5
    assert found["snapkafka_requests_total", "Fetch"] == 6
    assert found["snapkafka_requests_total", "Produce"] == 0, "an increase is seen from 0 on"
    assert found["snapkafka_cuts_total", ""] == 3
    assert found["snapkafka_participating", ""] == 1
    assert found["snapkafka_ledger_lag", ""] == 7
    assert found["snapkafka_capture_seconds_count", ""] == 3
    assert round(found["snapkafka_capture_seconds_sum", ""], 6) == 0.6
    assert found["snapkafka_capture_seconds_bucket", "0.25"] == 3
    assert found["snapkafka_capture_seconds_bucket", "0.1"] == 0
    assert found["snapkafka_cut_seconds_bucket", "0.00025"] == 1
    unknown, _ = rendered(Metrics(), participating=False, ledger_lag=None)
    assert ("snapkafka_ledger_lag", "") not in read(unknown)
    assert read(unknown)["snapkafka_participating", ""] == 0
    metrics.triggered(view(60), 1_000)
    metrics.forget_open()
    metrics.decided(view(60), 9_000)  # of a new ledger: nobody here saw its trigger
    assert metrics.counts["snapshots"]["captured"] == 3
