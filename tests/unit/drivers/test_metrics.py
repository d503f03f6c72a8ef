"""What Prometheus reads."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from snapkafka.drivers import Metrics, rendered
from snapkafka.protocol import Failure, SnapshotView, Trigger


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


def test_a_new_ledger_begins_anew() -> None:
    metrics = Metrics()
    metrics.triggered(view(10), 1_000)
    metrics.forget_open()
    metrics.decided(view(10), 9_000)  # the tenth of the new ledger: nobody here saw its trigger
    assert not metrics.counts["snapshots"]
