"""What operators have in a service: pages under /snapkafka/, and metrics. Real workers on a real broker."""

from __future__ import annotations

import json
import urllib.request

import pytest

from snapkafka.testing import free_ports
from tests.driver.live import RELAYING, Live
from tests.observing import Place

pytestmark = pytest.mark.timeout(300)

HOUR_MS = 3_600_000


def start_with_pages(run: Live) -> str:
    """Start one more worker; the address of its pages."""
    (port,) = free_ports(1)
    settings, options = run.names | {"FEATURES_LAG": "36h"}, ("--web-port", str(port))
    run.system.start_worker(run.app, settings, module=RELAYING, options=options)
    return f"http://127.0.0.1:{port}/snapkafka"


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def answers(page: str) -> bool:
    try:
        return '"participating":true' in get(f"{page}/").replace(" ", "")
    except OSError:
        return False


def metric(page: str, name: str) -> float:
    """A value by the name of its sample, with the label; -1: there is none."""
    values = [line.rpartition(" ") for line in get(f"{page}/metrics/").splitlines()]
    return next((float(value) for sample, _, value in values if sample == name), -1.0)


def test_a_service_reports_snapshots_by_http(place: Place) -> None:
    with Live.running(place, tables=()) as run:
        observer, pages = run.observer, [start_with_pages(run) for _ in range(3)]
        run.await_workers()
        run.produce(100)
        run.until("the web servers", lambda: all(map(answers, pages)))
        captured_one = observer.state.captured(run.take("one").epoch)
        ended = {"status": "CAPTURED", "verdict": "", "failure": ""}
        one = [{"id": "one", "attempt": 1, "epoch": captured_one.epoch, **ended}]
        receivers = {source.receiver for source in captured_one.inputs}
        assert len(receivers) == 2 < len(captured_one.processes), "a worker without partitions takes part"
        run.until(
            "all workers to know that it is captured",
            lambda: all(json.loads(get(f"{page}/"))["snapshots"][:1] == one for page in pages),
        )
        run.take("two")
        captured = 'snapkafka_snapshots_total{outcome="captured"}'
        run.until("each to be counted", lambda: all(metric(page, captured) == 2 for page in pages))
        for page in pages:
            assert metric(page, "snapkafka_participating") == 1
            assert metric(page, "snapkafka_cut_seconds_count") == 2
            assert metric(page, "snapkafka_closing_seconds_count") == 2
            assert 0 < metric(page, "snapkafka_capture_seconds_sum") < 20
            assert metric(page, "snapkafka_ledger_lag") == 0
        settings, _ = observer.call(observer.admin.topic_settings(run.topic("gone-changelog")))
        lag = settings["min.compaction.lag.ms"], settings["cleanup.policy"]
        assert lag == (str(36 * HOUR_MS), "compact")

        newcomer = start_with_pages(run)
        run.until("the newcomer's web server", lambda: answers(newcomer))
        assert metric(newcomer, captured) == 0, "what was before it, others count"
        assert metric(newcomer, 'snapkafka_snapshots_total{outcome="ttl"}') == 0
