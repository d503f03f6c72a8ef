"""What one snapshot of the demo system costs everybody: requests, and CPU time.

The broker itself counts the requests: its log has one line for each that it has answered. Turns with snapshots and
without take turns, so that what the system does anyway is subtracted.
"""

from __future__ import annotations

import os
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final
from unittest import mock

from tests.bench.figures import Figure, figure
from tests.e2e.parts import Live, live
from tests.observing import OBSERVER

#: Each of the pairs is a turn with snapshots and one without.
PAIRS: Final = int(os.environ.get("BENCH_PAIRS", "8"))
TAKEN, EVERY_S = 12, 0.5
#: A line of the broker's log: a request that was answered.
ANSWERED: Final = re.compile(r'"clientId":"([^"]*)".*?"requestApiKeyName":"([^"]*)"')
REQUEST_LOG: Final = "-Dorg.slf4j.simpleLogger.log.kafka.request.logger=debug"
#: Who sends, by the name of the client; the load that the demo makes is nobody.
ROLES: Final = {"snapkafka": "workers", "faust": "apps", OBSERVER: "asker"}
NS_PER_MS: Final = 1e6
TICKS_PER_MS: Final = os.sysconf("SC_CLK_TCK") / 1_000

#: What was counted up to a moment, by name.
Counts = Mapping[str, float]


def bench_requests() -> list[Figure]:
    """Requests for one snapshot, as the broker counts them, of the workers and of whoever asks for it."""
    java = {"JDK_JAVA_OPTIONS": f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {REQUEST_LOG}"}
    with mock.patch.dict(os.environ, java), live("bench-requests", slow_every=0) as system:
        log = RequestLog(system.broker.log_file)
        costs = _turns(system, log.counts)
    return _figures("snapshot_requests", costs, "", ("all", *ROLES.values(), *_apis(costs)))


def bench_snapshot_cpu() -> list[Figure]:
    """CPU time for one snapshot, of a worker's main thread and of the broker; and how long they wait for a core."""
    with live("bench-cpu", slow_every=0) as system:
        pids = [worker.pid for worker in system.system.workers]
        broker = system.broker.pid
        assert broker is not None
        costs = _turns(system, lambda: _cpu(pids, broker))
    return _figures("snapshot", costs, "ms", ("worker_cpu_ms", "worker_wait_ms", "broker_cpu_ms"))


def _turns(system: Live, counts: Callable[[], Counts]) -> list[Counts]:
    """Return for each pair of turns what a snapshot has cost, by name."""
    _turn(system, snapshots=True)  # connections are made
    costs: list[Counts] = []
    for pair in range(PAIRS):
        spent: dict[bool, Counts] = {}
        for snapshots in (True, False) if pair % 2 else (False, True):
            before = counts()
            _turn(system, snapshots=snapshots)
            spent[snapshots] = {name: count - before.get(name, 0.0) for name, count in counts().items()}
        names = {*spent[True], *spent[False]}
        costs.append(
            {name: (spent[True].get(name, 0.0) - spent[False].get(name, 0.0)) / TAKEN for name in names}
        )
    return costs


def _turn(system: Live, *, snapshots: bool) -> None:
    """Let the system run for a while; all its snapshots are captured when it is over."""
    began = time.monotonic()
    for number in range(TAKEN):
        if snapshots:
            system.take(f"{began}-{number}")
        time.sleep(max(0.0, began + (number + 1) * EVERY_S - time.monotonic()))


class RequestLog:
    """The broker's log of requests, as far as it was read."""

    def __init__(self, path: Path) -> None:
        self._file = path.open(errors="replace")
        self._counts: Counter[str] = Counter()

    def counts(self) -> Counts:
        """Count the requests answered so far, by role, and by role and API."""
        for line in self._file:
            if (found := ANSWERED.search(line)) is None:
                continue
            client, api = found.groups()
            if (role := ROLES.get(client.partition("-0")[0])) is not None:
                self._counts.update((role, f"{role}_{api.lower()}"))
                self._counts["all"] += role != "apps"  # what those do follows their load
        return {name: float(count) for name, count in self._counts.items()}


def _apis(costs: list[Counts]) -> list[str]:
    """Return the APIs that a snapshot asks for, by role."""
    names = {name for cost in costs for name in cost if name.startswith(("workers_", "asker_"))}
    return sorted(name for name in names if statistics.median(cost.get(name, 0.0) for cost in costs) >= 0.5)


def _cpu(pids: list[int], broker: int) -> Counts:
    """Return the CPU time of the workers' main threads (on average) and of the broker, in milliseconds."""
    found = [schedstat(Path(f"/proc/{pid}/task/{pid}/schedstat")) for pid in pids]
    ticks = Path(f"/proc/{broker}/stat").read_text().rpartition(")")[2].split()[11:13]
    return {
        "worker_cpu_ms": sum(ran for ran, _ in found) / len(pids),
        "worker_wait_ms": sum(waited for _, waited in found) / len(pids),
        "broker_cpu_ms": sum(map(int, ticks)) / TICKS_PER_MS,
    }


def schedstat(path: Path) -> tuple[float, float]:
    """Return for how long a thread ran, and waited for a core, in milliseconds."""
    ran, waited, _ = path.read_text().split()
    return int(ran) / NS_PER_MS, int(waited) / NS_PER_MS


def _figures(prefix: str, costs: list[Counts], unit: str, names: Iterable[str]) -> list[Figure]:
    return [figure(f"{prefix}_{name}", [cost.get(name, 0.0) for cost in costs], unit) for name in names]
