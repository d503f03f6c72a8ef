"""Services of the scenarios as processes, their ticks, and what their snapshots hold."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from snapkafka.clients import participant
from snapkafka.drivers import Producer
from snapkafka.errors import SnapshotFailedError
from snapkafka.testing import RunningSystem, Taken, Worker, create_topics
from snapkafka.until import blocking_until
from tests.conformance.money import PARTITIONS, Names, Role
from tests.observing import Observer, Place, observing

KEYS = [f"k{number}" for number in range(12)]


@dataclass
class Running:
    """The processes of one run."""

    names: Names
    observer: Observer
    system: RunningSystem
    ticked: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)
    ticking: threading.Thread | None = None

    def start(self, kind: str, role: Role, **more: str) -> Worker:
        """Start a service of that library: "confluent", or, as it has several ways, "confluent threads"."""
        library, _, how = kind.partition(" ")
        log = self.system.folder / f"{len([*self.system.folder.glob('*.txt')])}-{kind}-{role}.txt"
        environ = {
            "CONFORMANCE_RUN": self.names.run,
            "CONFORMANCE_ONE_WAY": "1" if self.names.one_way else "",
            "CONFORMANCE_DATA": str(log.with_suffix("")),
            "CONFORMANCE_ROLE": role,
            "CONFORMANCE_HOW": how,
            "SNAPKAFKA_NAMESPACE": self.system.namespace,
            "SNAPKAFKA_BOOTSTRAP": self.system.bootstrap,
        }
        worker = Worker(role, log, [f"tests.conformance.{library}_app", role], environ | more)
        self.system.workers.append(worker)
        return worker

    def await_ready(self) -> None:
        """Wait until all have joined, the source of ticks among them, and every input has one owner."""
        self.observer.wait_for_workers(self.system, others=1)

    def captured(self, *, align: bool = False) -> Taken:
        """The first snapshot that is captured: one that waits for a killed process, or for a transaction that is
        aborted, fails by name, and the next does not."""

        def take() -> Taken | None:
            with contextlib.suppress(SnapshotFailedError):
                return self.system.snapshot(ttl_ms=40_000 if align else 8_000, align=align)
            return None

        taken: Taken = blocking_until(take, 120, "a snapshot to be captured")
        return taken

    def await_ticks(self, count: int) -> None:
        """Wait until so many more have come in."""
        least = self.ticked + count
        blocking_until(lambda: self.ticked > least, 60, f"{count} more ticks")

    def await_committed(self, role: Role, end: int) -> None:
        """Wait until a service is through with its input up to there, in one partition."""
        committed, app = self.observer.admin.committed, self.names.app(role)

        def through() -> bool:
            return end in [at for at, _ in self.observer.call(committed(app)).values()]

        blocking_until(through, 60, f"{role} to commit {end}")

    def leave(self, worker: Worker) -> None:
        """Stop a process in order, which has begun: a Python that is still starting ends by its own status."""
        self.system.interrupt(worker)
        assert worker.status == 0

    def stop_ticks(self) -> None:
        """End the ticks; the source leaves."""
        self.stopped.set()
        if self.ticking is not None:
            self.ticking.join()


@contextlib.contextmanager
def running(
    place: Place, *services: str, one_way: bool = False, ticks: bool = True, **keeper: str
) -> Iterator[Running]:
    """The topics, and ticks from a source that takes part: a loop with a producer only.

    Args:
        services: the kinds of spender and keeper, which are started; none: the caller does that.
        ticks: whether there is that source.
        keeper: more of its environment.
    """
    names = Names(place.namespace, one_way)
    create_topics(place.bootstrap, names.ticks, names.coins, names.change, partitions=PARTITIONS)
    with observing(place.bootstrap, place.namespace) as observer:
        found = Running(names, observer, RunningSystem(*place))
        if ticks:
            found.ticking = threading.Thread(target=_tick, args=(found, place.bootstrap))
            found.ticking.start()
        try:
            if services:
                found.start(services[0], "spender")
                found.start(services[1], "keeper", **keeper)
                found.await_ready()
            yield found
        finally:
            found.stop_ticks()
            for worker in found.system.workers:
                print(f"--- {worker.name}\n{worker.last_lines(20)}")
            found.system.stop()


def _tick(run: Running, bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    with participant(namespace=run.system.namespace, group=run.names.app("source"), producer=producer):
        pause_s, ticks = (1.0, 30) if run.names.one_way else (0.01, 1)  # then some are in flight
        while not run.stopped.wait(pause_s):
            for _ in range(ticks):
                key, value = KEYS[run.ticked % len(KEYS)], str(coins_of(run.ticked))
                producer.produce(run.names.ticks, key=key, value=value)
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
