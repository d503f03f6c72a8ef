"""What operators have in a service: pages under /snapkafka/, and metrics. Real workers on a real broker."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from snapkafka.testing import Broker, free_ports
from tests.driver.live import SMALL_APP, Live, live
from tests.observing import Observer

pytestmark = pytest.mark.timeout(300)

HOUR_MS = 3_600_000


def start_with_pages(run: Live) -> str:
    """Start one more worker; the address of its pages."""
    (port,) = free_ports(1)
    settings = {"FEATURES_LAG": "36h", "SMALL_APP_WEB_PORT": str(port)}
    run.system.start_worker(run.app, run.names | settings, module=SMALL_APP, options=())
    return f"http://127.0.0.1:{port}/snapkafka"


def answers(page: str) -> bool:
    try:
        return get(f"{page}/")["participating"] is True
    except (OSError, KeyError):
        return False


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.loads(answer.read())


def metric(page: str, name: str, label: str = "") -> float:
    with urllib.request.urlopen(f"{page}/metrics/", timeout=10) as answer:
        text = answer.read().decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and label in ("", *sample.labels.values()):
                return sample.value
    return 0.0


def test_a_service_reports_snapshots_by_http(kafka: Broker, namespace: str, tmp_path: Path) -> None:
    with live(kafka, namespace, tmp_path, tables=()) as run:
        observer, pages = run.observer, [start_with_pages(run) for _ in range(3)]
        run.await_workers()
        run.produce(100)
        run.until("the web servers", lambda: all(map(answers, pages)))
        captured_one = observer.state.captured(run.take("one").epoch)
        receivers = {source.receiver for source in captured_one.inputs}
        assert len(receivers) == 2 < len(captured_one.processes), "a worker without partitions takes part"
        run.until(
            "all workers to know that it is captured",
            lambda: all(get(f"{page}/")["snapshots"][:1] == rows(observer, "one") != [] for page in pages),
        )
        run.take("two")
        captured = "snapkafka_snapshots_total", "captured"
        run.until("each to be counted", lambda: all(metric(page, *captured) == 2 for page in pages))
        for page in pages:
            assert metric(page, "snapkafka_participating") == 1
            assert metric(page, "snapkafka_cut_seconds_count") == 2
            assert metric(page, "snapkafka_closing_seconds_count") == 2
            assert 0 < metric(page, "snapkafka_capture_seconds_sum") < 20
            assert metric(page, "snapkafka_ledger_lag") == 0
        settings, _ = observer.call(observer.admin.topic_settings(run.topic("counts-changelog")))
        lag = settings["min.compaction.lag.ms"], settings["cleanup.policy"]
        assert lag == (str(36 * HOUR_MS), "compact")

        newcomer = start_with_pages(run)
        run.until("the newcomer's web server", lambda: answers(newcomer))
        assert metric(newcomer, *captured) == 0, "what was before it, others count"
        assert metric(newcomer, "snapkafka_snapshots_total", "ttl") == 0
        assert 'outcome="ttl"' in urllib.request.urlopen(f"{newcomer}/metrics/", timeout=10).read().decode()


def rows(observer: Observer, name: str) -> list[dict[str, Any]]:
    """What a page has to say of the snapshots of this name, once they are captured."""
    return [
        {"id": name, "attempt": 1, "epoch": epoch, "status": "CAPTURED", "verdict": "", "failure": ""}
        for epoch, view in observer.state.snapshots.items()
        if view.trigger.id == name and view.captured_at is not None
    ]
