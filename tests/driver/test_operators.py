"""What operators have in a service: a timer, pages under /snapkafka/, metrics. Two real workers on a real broker."""

from __future__ import annotations

import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from snapkafka.demo import Observer, System, observing, wait_until
from snapkafka.testing import Broker, create_topics
from tests.driver.live import produce, take

pytestmark = pytest.mark.timeout(300)

HOUR_MS = 3_600_000


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def two_workers(
    kafka: Broker, namespace: str, folder: Path, **env: str
) -> Iterator[tuple[System, Observer, list[str]]]:
    """The small app, twice, with web servers; their addresses."""
    app = f"small-{namespace}"
    create_topics(kafka.bootstrap, f"{app}-in", f"{app}-out", partitions=2)
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=folder)
    ports = [free_port(), free_port()]
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            for port in ports:
                start_worker(system, app, port, env)
            observer.wait_for_workers(system)
            observer.call(produce(kafka.bootstrap, f"{app}-in", 100))
            pages = [f"http://127.0.0.1:{port}/snapkafka" for port in ports]
            wait_until("the web servers", lambda: all(map(answers, pages)), timeout_s=60, system=system)
            yield system, observer, pages
    finally:
        for worker in system.workers:
            print(worker.last_lines(40))
        system.stop()


def start_worker(system: System, app: str, port: int, env: Mapping[str, str] = MappingProxyType({})) -> None:
    settings = {
        "SMALL_APP_ID": app,
        "SMALL_APP_INSTALL": "early",
        "SMALL_APP_LAG": "36h",
        "SMALL_APP_WEB_PORT": str(port),
    }
    system.start_worker(app, {**settings, **env}, module="tests.driver.small_app", options=())


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
    with two_workers(kafka, namespace, tmp_path) as (system, observer, pages):
        take(observer, "one")
        wait_until(
            "both workers to know that it is captured",
            lambda: all(get(f"{page}/")["snapshots"][:1] == rows(observer, "one") != [] for page in pages),
            timeout_s=30,
            system=system,
        )
        take(observer, "two")
        for page in pages:
            wait_until(
                "both to be counted",
                lambda page=page: metric(page, "snapkafka_snapshots_total", "captured") == 2,  # type: ignore[misc]
                timeout_s=20,
                system=system,
            )
            assert metric(page, "snapkafka_participating") == 1
            assert metric(page, "snapkafka_cut_seconds_count") == 2
            assert metric(page, "snapkafka_closing_seconds_count") == 2
            assert 0 < metric(page, "snapkafka_capture_seconds_sum") < 20
            assert metric(page, "snapkafka_ledger_lag") == 0
        changelog = f"small-{namespace}-counts-changelog"
        settings, _ = observer.call(observer.admin.topic_settings(changelog))
        assert (settings["min.compaction.lag.ms"], settings["cleanup.policy"]) == (
            str(36 * HOUR_MS),
            "compact",
        )

        port = free_port()
        newcomer = f"http://127.0.0.1:{port}/snapkafka"
        start_worker(system, f"small-{namespace}", port)
        wait_until("the newcomer's web server", lambda: answers(newcomer), timeout_s=60, system=system)
        assert metric(newcomer, "snapkafka_snapshots_total", "captured") == 0, (
            "what was before it, others count"
        )
        assert metric(newcomer, "snapkafka_snapshots_total", "ttl") == 0
        assert 'outcome="ttl"' in urllib.request.urlopen(f"{newcomer}/metrics/", timeout=10).read().decode()


def rows(observer: Observer, name: str) -> list[dict[str, Any]]:
    """What a page has to say of the snapshots of this name, once they are captured."""
    return [
        {"id": name, "attempt": 1, "epoch": epoch, "status": "CAPTURED", "verdict": "", "failure": ""}
        for epoch, view in observer.state.snapshots.items()
        if view.trigger.id == name and view.captured_at is not None
    ]


@pytest.mark.nightly
def test_the_timers_of_all_workers_take_one_snapshot_at_a_time(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """One for each moment, whoever asks."""
    with two_workers(kafka, namespace, tmp_path, SMALL_APP_EVERY="1") as (system, observer, _):
        wait_until(
            "eight snapshots by the timer",
            lambda: sum(view.captured_at is not None for view in observer.state.snapshots.values()) >= 8,
            timeout_s=90,
            system=system,
        )
        triggers = [view.trigger for view in observer.state.snapshots.values()]
        moments = {trigger.id for trigger in triggers}
        assert all(re.fullmatch(r"every-1s-\d{8}T\d{6}", moment) for moment in moments), (
            "all workers say the same"
        )
        assert len(moments) == len(triggers), (
            "the first trigger of a moment is the snapshot, and each is a second"
        )
