"""How long a service is away for a restore, by a plain recovery of the same state.

One worker has counted so many keys, and leaves. Either it starts again and reads its changelog; or the command first
restores a snapshot of it. Both end when it has worked off what was sent meanwhile. The turns alternate.
"""

import itertools
import os
import tempfile
import time
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from snapkafka.protocol import TopicPartition
from snapkafka.testing import EmbeddedKafka, RunningSystem, create_topics
from tests.bench.figures import Figure, figure
from tests.e2e.parts import command
from tests.observing import Observer, observing

KEYS: Final = (50_000, 200_000)
#: Each of the pairs is a plain recovery and a restore.
PAIRS: Final = int(os.environ.get("BENCH_PAIRS", "4"))
#: Sent while the worker is away.
MEANWHILE: Final = 100
LIMIT_S: Final = 600.0
APP: Final = "counting"


def bench_restore() -> list[Figure]:
    """Time until a worker has caught up after a restore by the command, the command's included, by a plain recovery."""
    return [
        figure(
            f"restore_ratio_{keys // 1000}k", _ratios(keys), "ratio", bar=1.2 if keys == KEYS[-1] else None
        )
        for keys in KEYS
    ]


def _ratios(keys: int) -> list[float]:
    with (
        EmbeddedKafka() as broker,
        tempfile.TemporaryDirectory() as folder,
        observing(broker.bootstrap, APP) as observer,
    ):
        system = RunningSystem(bootstrap=broker.bootstrap, namespace=APP, folder=Path(folder))
        create_topics(broker.bootstrap, f"{APP}-in", f"{APP}-out", partitions=1)
        compacted = {"cleanup.policy": "compact"}
        create_topics(broker.bootstrap, f"{APP}-counts-changelog", partitions=1, config=compacted)
        service = _Service(system, observer)
        try:
            service.send(keys)
            service.catches_up()
            system.snapshot().assembled  # noqa: B018
            ratios = []
            for turn in range(PAIRS):
                took = {
                    restored: service.away(restored=restored) for restored in (turn % 2 == 0, turn % 2 == 1)
                }
                print(f"{keys} keys: {took[False]:.1f} s, restored {took[True]:.1f} s", flush=True)
                ratios.append(took[True] / took[False])
            return ratios
        finally:
            service.leaves()


class _Service:
    """The service, of one worker."""

    def __init__(self, system: RunningSystem, observer: Observer) -> None:
        self._system, self._observer = system, observer
        self._numbers = itertools.count()
        self._out = TopicPartition(f"{APP}-out", 0)
        self._since = 0  # sent after the snapshot
        self._awaited = 0  # where its output ends once it has caught up

    def send(self, number: int) -> None:
        """Send it events of as many keys."""
        room = {"queue.buffering.max.messages": KEYS[-1]}
        producer = Producer({"bootstrap.servers": self._system.bootstrap} | room)
        for n in itertools.islice(self._numbers, number):
            producer.produce(f"{APP}-in", key=b"key-%d" % n, value=b'{"n": %d}' % n)
        assert not producer.flush(LIMIT_S), "the events were not written"
        self._awaited += number

    def catches_up(self) -> None:
        self._system.start_worker(
            APP,
            {"BUSY_APP_ID": APP},
            options=("--without-web", "-l", "info"),
            module="tests.bench.busy_app",
        )
        self._system.wait_until("it to catch up", self._has_caught_up, timeout_s=LIMIT_S)

    def leaves(self) -> None:
        for worker in list(self._system.workers):
            self._system.interrupt(worker)

    def away(self, *, restored: bool) -> float:
        """Let it be away once; seconds until it has caught up, from when somebody acts."""
        self.leaves()
        self.send(MEANWHILE)
        self._since += MEANWHILE
        began = time.monotonic()
        if restored:
            command(self._system, "restore", "test-1", "--yes", "--storage", str(self._system.storage))
            self._awaited += self._since - MEANWHILE  # all since the snapshot is processed once more
        self.catches_up()
        return time.monotonic() - began

    def _has_caught_up(self) -> bool:
        return self._observer.call(self._observer.admin.log_ends([self._out]))[self._out] >= self._awaited
