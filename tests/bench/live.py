"""The running system of the demo, two services of two workers each: how many requests one snapshot costs everybody.

The broker itself counts them: its log has one line for each that it has answered. Turns with snapshots and without take
turns, so that what the system does anyway is subtracted.
"""

import os
import re
import time
from collections import Counter
from collections.abc import Iterable
from typing import Final
from unittest import mock

from tests.bench.figures import Figure, figure
from tests.e2e.parts import Live, live
from tests.observing import OBSERVER

#: Each of the pairs is a turn with snapshots and one without.
PAIRS: Final = int(os.environ.get("BENCH_PAIRS", "8"))
TAKEN, EVERY_S = 12, 0.5
#: A line of the broker's log: a request that was answered.
ANSWERED: Final = re.compile(r'"clientId":"([^"]*)".*?"requestApiKeyName":')
REQUEST_LOG: Final = "-Dorg.slf4j.simpleLogger.log.kafka.request.logger=debug"
#: Who sends, by the name of the client; the load that the demo makes is nobody.
ROLES: Final = {"snapkafka": "workers", "faust": "apps", OBSERVER: "asker"}


def bench_requests() -> list[Figure]:
    """Requests for one snapshot, as the broker counts them, of the workers and of whoever asks for it."""
    java = {"JDK_JAVA_OPTIONS": f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {REQUEST_LOG}"}
    with mock.patch.dict(os.environ, java), live("bench-requests", slow_every=0) as system:
        log = system.broker.log_file.open(errors="replace")
        _turn(system, snapshots=True)  # connections are made
        _read(log)
        costs = []
        for pair in range(PAIRS):
            spent = {}
            for snapshots in (True, False) if pair % 2 else (False, True):
                _turn(system, snapshots=snapshots)
                spent[snapshots] = _read(log)
            costs.append({role: (spent[True][role] - spent[False][role]) / TAKEN for role in ROLES.values()})
    return [
        # What the apps ask for follows their load.
        figure("snapshot_requests_all", [cost["workers"] + cost["asker"] for cost in costs], ""),
        *(figure(f"snapshot_requests_{role}", [cost[role] for cost in costs], "") for role in ROLES.values()),
    ]


def _turn(system: Live, *, snapshots: bool) -> None:
    """Let the system run for a while; all its snapshots are captured when it is over."""
    began = time.monotonic()
    for number in range(TAKEN):
        if snapshots:
            system.take(f"{began}-{number}")
        time.sleep(max(0.0, began + (number + 1) * EVERY_S - time.monotonic()))


def _read(log: Iterable[str]) -> Counter[str]:
    """Count the requests answered since the last call, by role."""
    found = (ANSWERED.search(line) for line in log)
    clients = (answered.group(1).partition("-0")[0] for answered in found if answered is not None)
    return Counter(ROLES[client] for client in clients if client in ROLES)
