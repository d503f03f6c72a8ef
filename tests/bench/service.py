"""Bench of `snapkafka serve`: list and show at 200 requests a second on one core, while a snapshot per second runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from snapkafka.demo.system import wait_until
from tests.bench.figures import Figure, figure, p99
from tests.e2e.parts import Live, live

RATE: Final = 200
#: A page of the list is full of snapshots from the beginning.
BEFORE: Final = 60
#: Turns with a snapshot per second and without, one after the other.
TURNS, TURN_S = 6, 20
BAR_MS: Final = 100.0


class Turn(NamedTuple):
    """Latencies in milliseconds, CPU time of the service for each request, and the share of requests answered."""

    latencies: list[float]
    cpu_ms: float
    answered: float


def bench_service() -> list[Figure]:
    """Latency of list and show over HTTP at 200 requests a second, the service on one core, a snapshot per second."""
    with live("bench-service", slow_every=0) as system, serving(system) as (url, process):
        for number in range(BEFORE):
            system.take(f"before-{number}")
        turns: dict[bool, list[Turn]] = {True: [], False: []}
        for number in range(TURNS):
            snapshots = number % 2 == 0
            turns[snapshots].append(turn(system, url, process, f"turn-{number}", snapshots=snapshots))
    busy = [latency for one in turns[True] for latency in one.latencies]
    quiet = [latency for one in turns[False] for latency in one.latencies]
    return [
        figure("service_ms_p99", busy, "ms", of=p99, bar=BAR_MS),
        figure("service_ms_p50", busy, "ms"),
        figure("service_turn_ms_p99", [p99(one.latencies) for one in turns[True]], "ms"),
        figure("service_answered", [one.answered for one in turns[True]], "share", bar=1.0, at_most=False),
        figure("service_idle_ms_p99", quiet, "ms", of=p99),
        figure("service_idle_ms_p50", quiet, "ms"),
        figure("service_cpu_ms", [one.cpu_ms for one in turns[True]], "ms"),
        figure("service_idle_cpu_ms", [one.cpu_ms for one in turns[False]], "ms"),
    ]


def turn(system: Live, url: str, process: psutil.Process, name: str, *, snapshots: bool) -> Turn:
    """Ask for `TURN_S` seconds; all snapshots are captured when it is over."""
    ids = [f"before-{number}" for number in range(0, BEFORE, 7)]
    command = [sys.executable, "-m", "tests.bench.asking", url, str(RATE), str(TURN_S), *ids]
    epochs: list[int] = []
    before, start = process.cpu_times(), time.time()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        try:
            while asking.poll() is None and time.time() < start + TURN_S + 1:
                if snapshots:
                    epochs.append(system.trigger(f"{name}-{len(epochs)}"))
                time.sleep(max(0.0, start + max(1, len(epochs)) - time.time()) if snapshots else 0.2)
            output, _ = asking.communicate(timeout=60)
        finally:
            asking.kill()
    after = process.cpu_times()
    for epoch in epochs:
        assert (view := system.decided(epoch)).failure is None, view.failure
    found = json.loads(output)
    asked = RATE * TURN_S
    assert found["statuses"].keys() <= {"200", "TimeoutError"}, found["statuses"]
    assert found["asked_per_s"] > 0.97 * RATE, found["asked_per_s"]  # whoever asks has kept up
    assert len(epochs) >= TURN_S - 1 if snapshots else not epochs
    used = (after.user + after.system) - (before.user + before.system)
    latencies = [*found["latencies"]["list"], *found["latencies"]["show"]]
    return Turn(latencies, 1_000 * used / asked, found["statuses"].get("200", 0) / asked)


@contextmanager
def serving(system: Live) -> Iterator[tuple[str, psutil.Process]]:
    """A service process that has one core; its URL."""
    core = min(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder, (log := Path(folder) / "log").open("w") as output:
        command = [sys.executable, "-m", "snapkafka", "serve", "--bootstrap", system.bootstrap]
        command += ["--namespace", system.namespace, "--port", "0", "--storage-root", folder]
        with subprocess.Popen(command, stdout=output, stderr=output) as running:
            try:
                process = psutil.Process(running.pid)
                process.cpu_affinity([core])  # long before it starts a thread: these have the same
                url = ""

                def ready() -> bool:
                    nonlocal url
                    assert running.poll() is None, log.read_text()
                    found = re.search(r"on (http://\S+)/", log.read_text())
                    url = found[1] if found else ""
                    try:
                        return bool(url) and _is_ready(url)
                    except OSError:
                        return False

                wait_until("the service to be ready", ready, timeout_s=60, system=system.system)
                yield url, process
            finally:
                running.kill()


def _is_ready(url: str) -> bool:
    with urllib.request.urlopen(f"{url}/readyz", timeout=10) as answer:
        return bool(answer.status == 200)
