"""Services of the scenarios as processes, their ticks, and what their snapshots hold."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from snapkafka.clients import participant
from snapkafka.drivers import Producer
from snapkafka.testing import Broker, RunningSystem, Taken, create_topics, settled
from snapkafka.until import blocking_until
from tests.conformance.money import PARTITIONS, Names, Role
from tests.observing import Observer, observing

ROOT = Path(__file__).parents[2]
KEYS = [f"k{number}" for number in range(12)]
READY_S = 90.0


@dataclass
class Running:
    """The processes of one run."""

    names: Names
    observer: Observer
    system: RunningSystem
    environ: dict[str, str]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)
    ticked: int = 0
    started: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)
    ticking: threading.Thread | None = None

    def start(self, kind: str, role: Role, **more: str) -> subprocess.Popen[bytes]:
        """Start a service of that library: "confluent", or, as it has several ways, "confluent threads"."""
        library, _, how = kind.partition(" ")
        number, self.started = self.started, self.started + 1
        log = self.system.folder / f"{number}-{kind}-{role}.txt"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", f"tests.conformance.{library}_app", role],
                env=os.environ
                | self.environ
                | more
                | {
                    "CONFORMANCE_DATA": str(self.system.folder / str(number)),
                    "CONFORMANCE_ROLE": role,
                    "CONFORMANCE_HOW": how,
                },
                stdout=out,
                stderr=out,
                cwd=ROOT,
            )
        self.processes.append(process)
        self.logs.append(log)
        return process

    def living(self) -> int:
        return sum(process.poll() is None for process in self.processes)

    def await_ready(self, extra: int = 1) -> None:
        """Wait until all have joined, and every input has one owner. `extra`: the source of ticks."""

        def ready() -> bool:
            self.check_alive()
            return settled(self.observer.state, self.living() + extra)

        blocking_until(ready, READY_S, "the services to have their inputs")

    def check_alive(self) -> None:
        for process, log in zip(self.processes, self.logs, strict=True):
            assert process.poll() in (None, -9), log.read_text()[-3000:]

    def snapshot(self, ttl_ms: int = 20_000, *, align: bool = False) -> Taken:
        self.check_alive()
        return self.system.snapshot(ttl_ms=ttl_ms, align=align)

    def await_ticks(self, count: int) -> None:
        """Wait until so many more have come in."""
        least = self.ticked + count
        blocking_until(lambda: self.ticked > least, 60, f"{count} more ticks")

    def leave(self, process: subprocess.Popen[bytes]) -> None:
        """Stop a process in order."""
        process.terminate()
        assert process.wait(60) in (0, -signal.SIGTERM)  # the latter before it has begun
        number = self.processes.index(process)
        del self.processes[number], self.logs[number]

    def stop_ticks(self) -> None:
        """End the ticks; the source leaves."""
        self.stopped.set()
        if self.ticking is not None:
            self.ticking.join()

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process, log in zip(self.processes, self.logs, strict=True):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            if process.poll() is None:
                process.kill()
                process.wait()
            print(f"--- {log.name}\n{log.read_text()[-2000:]}")


@contextlib.contextmanager
def running(kafka: Broker, namespace: str, folder: Path, *, one_way: bool = False) -> Iterator[Running]:
    """The topics, and ticks from a source that takes part: a loop with a producer only."""
    names = Names(namespace, one_way)
    create_topics(kafka.bootstrap, names.ticks, names.coins, names.change, partitions=PARTITIONS)
    environ = {
        "CONFORMANCE_RUN": namespace,
        "SNAPKAFKA_NAMESPACE": namespace,
        "SNAPKAFKA_BOOTSTRAP": kafka.bootstrap,
        "PYTHONPATH": str(ROOT),
    } | ({"CONFORMANCE_ONE_WAY": "1"} if one_way else {})
    with observing(kafka.bootstrap, namespace) as observer:
        found = Running(names, observer, RunningSystem(kafka.bootstrap, namespace, folder), environ)
        found.ticking = threading.Thread(target=_tick, args=(found, kafka.bootstrap))
        found.ticking.start()
        try:
            yield found
        finally:
            found.stop_ticks()
            found.stop()


def _tick(run: Running, bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    with participant(namespace=run.system.namespace, group=run.names.app("source"), producer=producer):
        pause_s, ticks = (1.0, 30) if run.names.one_way else (0.01, 1)  # then some are in flight
        while not run.stopped.wait(pause_s):
            for _ in range(ticks):
                producer.produce(
                    run.names.ticks, key=KEYS[run.ticked % len(KEYS)], value=str(coins_of(run.ticked))
                )
                run.ticked += 1
            producer.poll(0)


def coins_of(tick: int) -> int:
    """How many coins a tick is worth."""
    return tick % 3 + 1


MONEY = """
SELECT 'state' AS what, table_name AS name, key AS key, CAST(value AS BIGINT) AS coins FROM state
UNION ALL SELECT 'in flight', topic, key, CAST(value AS BIGINT) FROM messages
WHERE topic IN ('{coins}', '{change}')
"""


def money_of(run: Running, taken: Taken) -> list[tuple[str, str, str, int]]:
    """The rows of a snapshot that hold money: what, name, key, coins."""
    sql = MONEY.format(coins=run.names.coins, change=run.names.change)
    return [(row["what"], row["name"], row["key"], row["coins"]) for row in taken.query(sql)]
