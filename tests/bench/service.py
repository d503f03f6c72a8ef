"""Benches of `snapkafka serve`: list and show at 200 requests a second on one core, beside a snapshot per second."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from snapkafka.demo import wait_until
from tests.bench.figures import Figure, figure, p99
from tests.e2e.parts import Live, live

RATE: Final = 200
#: Transfers a second in the system that is captured.
LOAD: Final = 10
#: A page of the list is full of snapshots from the beginning.
BEFORE: Final = 60
#: Turns with a snapshot per second and without, one after the other.
TURNS, TURN_S = 6, 20
BAR_MS: Final = 100.0
#: Kind, status and snapshots of the answers that are awaited.
WHOLE: Final = ("list 200 50", "show 200 1")
#: A client that begins requests later than this waits for a core itself.
LATE_MS_MAX: Final = 50.0


class Turn(NamedTuple):
    """Latencies in milliseconds, CPU time of the service for each request, and the share of requests answered."""

    latencies: list[float]
    cpu_ms: float
    answered: float


def bench_service() -> list[Figure]:
    """Latency of list and show over HTTP at 200 requests a second, a snapshot per second; the service has one core,
    and the system that is captured, its load and the client have the others."""
    cores = os.sched_getaffinity(0)
    try:
        return measured("service", {min(cores)}, cores - {min(cores)} or cores)
    finally:
        use_cores([os.getpid()], cores)


def bench_shared() -> list[Figure]:
    """The same on a core that the system uses, too."""
    cores = os.sched_getaffinity(0)
    return measured("service_shared", {min(cores)}, cores)


def measured(name: str, one: set[int], others: set[int]) -> list[Figure]:
    """Measure the service on one core; all else that is started here has the others."""
    with live("bench-service", rate=LOAD, slow_every=0) as system, serving(system, one) as (url, process):
        started = psutil.Process().children(recursive=True)
        use_cores([os.getpid(), *(child.pid for child in started if child != process)], others)
        for number in range(BEFORE):
            system.take(f"before-{number}")
        turns: dict[bool, list[Turn]] = {True: [], False: []}
        for number in range(TURNS):
            snapshots = number % 2 == 0
            turns[snapshots].append(turn(system, url, process, f"turn-{number}", snapshots=snapshots))
    busy = [latency for one in turns[True] for latency in one.latencies]
    quiet = [latency for one in turns[False] for latency in one.latencies]
    return [
        figure(f"{name}_ms_p99", busy, "ms", of=p99, bar=BAR_MS),
        figure(f"{name}_ms_p50", busy, "ms"),
        figure(f"{name}_turn_ms_p99", [p99(one.latencies) for one in turns[True]], "ms"),
        figure(f"{name}_answered", [one.answered for one in turns[True]], "share", bar=1.0, at_most=False),
        figure(f"{name}_idle_ms_p99", quiet, "ms", of=p99),
        figure(f"{name}_idle_ms_p50", quiet, "ms"),
        figure(f"{name}_cpu_ms", [one.cpu_ms for one in turns[True]], "ms"),
        figure(f"{name}_idle_cpu_ms", [one.cpu_ms for one in turns[False]], "ms"),
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
    assert found["answers"].keys() <= {*WHOLE, "TimeoutError"}, found["answers"]
    assert found["late_ms"] < LATE_MS_MAX, (
        f"the client began up to {found['late_ms']:.0f} ms late: it is measured, too"
    )
    assert len(epochs) >= TURN_S - 1 if snapshots else not epochs
    used = (after.user + after.system) - (before.user + before.system)
    latencies = [*found["latencies"]["list"], *found["latencies"]["show"]]
    return Turn(
        latencies, 1_000 * used / asked, sum(found["answers"].get(whole, 0) for whole in WHOLE) / asked
    )


def use_cores(pids: Iterable[int], cores: set[int]) -> None:
    """Let all threads of these processes run on these cores alone; what they start does, too."""
    for pid in pids:
        for thread in psutil.Process(pid).threads():
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.sched_setaffinity(thread.id, cores)


@contextmanager
def serving(system: Live, cores: set[int]) -> Iterator[tuple[str, psutil.Process]]:
    """A service process on these cores; its URL."""
    with tempfile.TemporaryDirectory() as folder, (log := Path(folder) / "log").open("w") as output:
        command = [sys.executable, "-m", "snapkafka", "serve", "--bootstrap", system.bootstrap]
        command += ["--namespace", system.namespace, "--port", "0", "--storage-root", folder]
        with subprocess.Popen(command, stdout=output, stderr=output) as running:
            try:
                process = psutil.Process(running.pid)
                use_cores([running.pid], cores)
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
