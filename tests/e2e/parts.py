"""What the end-to-end tests share: a system under load, snapshots taken of it, and the Spark job on them."""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from snapkafka import ops
from snapkafka.demo import CHECKED, TOTAL, Load, open_accounts, running_system
from snapkafka.demo.load import RATE, SLOW_EVERY
from snapkafka.kafka import Connection
from snapkafka.protocol import SnapshotView, TopicPartition
from snapkafka.testing import EmbeddedKafka, RunningSystem, wait_until
from snapkafka.wire import headers as wire
from tests.observing import Observer, observing


def assemble(bootstrap: str, namespace: str, names: list[str], storage: Path, *, total: int = TOTAL) -> bool:
    """Assemble and verify snapshots of the demo, and count its money; whether all are good."""
    spec = ops.changed(
        CHECKED, namespace=namespace, snapshots=names, storage=str(storage), parameters=(f"total={total}",)
    )
    return all(found.good for found in asyncio.run(ops.assemble(Connection(bootstrap=bootstrap), spec)))


def settled(read: Callable[[], Any], system: RunningSystem) -> Any:
    """Read until it is the same for longer than workers take to commit (2.8 s); return what was read."""
    seen: list[tuple[Any, float]] = [(None, 0.0)]

    def quiet() -> bool:
        if (now := read()) != seen[-1][0]:
            seen.append((now, time.monotonic()))
        return time.monotonic() - seen[-1][1] > 4.0

    wait_until("production to commit nothing more", quiet, timeout_s=60, system=system)
    return seen[-1][0]


def command(system: Observer | RunningSystem, *arguments: str) -> Any:
    """Run the `snapkafka` command as a user would; its JSON."""
    where = ["--json", "--bootstrap", system.connection.bootstrap, "--namespace", system.namespace]
    done = subprocess.run(
        [sys.executable, "-m", "snapkafka", *arguments, *where], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


Env = Callable[[str, int], Mapping[str, str]]


@dataclass
class Live:
    """A running system, observed and under load."""

    bootstrap: str
    namespace: str
    system: RunningSystem
    observer: Observer
    load: Load
    broker: EmbeddedKafka

    def take(self, name: str, **options: Any) -> SnapshotView:
        """Trigger and wait; the snapshot must be captured."""
        view = self.observer.take(name, **options)
        assert view.failure is None, view.failure
        return view

    def rest(self) -> None:
        """End the load and stop the workers: who reads what is left has the machine for itself."""
        self.observer.stop_load()
        self.system.stop()

    def logs(self) -> str:
        return "\n".join(f"--- {worker.name}\n{worker.last_lines(30)}" for worker in self.system.workers)


@contextlib.contextmanager
def live(
    namespace: str,
    *,
    env: Env | None = None,
    rate: float = RATE,
    slow_every: int = SLOW_EVERY,
    properties: Mapping[str, str] | None = None,
) -> Iterator[Live]:
    """A broker of its own (with these `properties`), the four workers, the accounts opened, the load on.

    The topics of the demo have fixed names, so each system gets a broker of its own.
    """
    with (
        EmbeddedKafka(properties=properties) as broker,
        running_system(broker.bootstrap, namespace, env=env) as system,
        observing(broker.bootstrap, namespace) as observer,
    ):
        load = Load(broker.bootstrap, rate=rate, slow_every=slow_every)
        running = Live(broker.bootstrap, namespace, system, observer, load, broker)
        try:
            observer.wait_for_workers(system)
            observer.call(open_accounts(load, observer.admin, system))
            observer.start_load(load)
            wait_until("the load to be under way", lambda: load.asked > 3 * rate, timeout_s=60, system=system)
            yield running
        except BaseException:
            print(running.logs())
            raise


def white_after_the_marker(system: Live, captured: dict[str, Any]) -> tuple[str, int, int]:
    """Append, as a foreign producer, a record in the colour and the name of a sender after its marker; its place."""
    sender = next(it for it in captured["senders"] if it["marker"] >= 0 and it["white_end"] > 0)
    tp = TopicPartition(sender["topic"], sender["partition"])
    of = (system.observer.ledger.ledger_id, wire.tp_check(*tp), 0, sender["process"], sender["last_seq"] + 1)
    value = json.dumps({"amount": 0, "from": "nobody", "asked": 0}).encode()
    places: list[int] = []
    producer = Producer({"bootstrap.servers": system.bootstrap})
    producer.produce(
        *(tp.topic, value, b"acct-0000", tp.partition),
        on_delivery=lambda _, message: places.append(message.offset()),
        headers=[(wire.HEADER, wire.stamp(*of))],
    )
    assert producer.flush(30) == 0
    (offset,) = places
    assert offset > sender["marker"]
    return (tp.topic, tp.partition, offset)
