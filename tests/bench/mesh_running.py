"""A mesh of twenty real workers on one machine: what a snapshot of 380 channels costs, and that it is VERIFIED."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest import mock

from confluent_kafka import Producer

from snapkafka import ops
from snapkafka.demo import Observer, System, observing, wait_until
from snapkafka.kafka import compose_trigger
from snapkafka.protocol import SnapshotView
from snapkafka.testing import EmbeddedKafka, create_topics
from tests.bench.figures import Figure, figure, p99
from tests.bench.requests import REQUEST_LOG, RequestLog, schedstat

APPS: Final = 20
CHANNELS: Final = APPS * (APPS - 1)
NAMESPACE: Final = "mesh20"
#: So many at a time start; each worker takes seconds of a core.
AT_ONCE: Final = 4
TOKENS, KEEP_S = 40, 0.5
SNAPSHOTS, EVERY_S, PAIRS = 10, 1.0, 5
LIMIT_S: Final = 300.0


def bench_mesh20() -> list[Figure]:
    """What a snapshot of twenty workers costs that write to each other; it is verified by the embedded engine."""
    java = {"JDK_JAVA_OPTIONS": f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {REQUEST_LOG}"}
    with mock.patch.dict(os.environ, java), _running() as mesh:
        views = [view for _ in range(2) for view in mesh.snapshots()]  # connections are made, channels used
        captures, costs = [], []
        for _ in range(PAIRS):
            before = mesh.used()
            time.sleep(SNAPSHOTS * EVERY_S)
            idle, began = mesh.used() - before, mesh.used()
            views = mesh.snapshots()
            costs.append((mesh.used() - began - idle) / SNAPSHOTS)
            captures += [mesh.capture_ms(view) for view in views]
        found = mesh.verified(views[-1])
    return [
        figure("mesh20_channels", [found.channels], "", bar=CHANNELS, at_most=False),
        figure("mesh20_capture_ms_p50", captures, "ms"),
        figure("mesh20_capture_ms_p99", captures, "ms", of=p99),
        figure("mesh20_requests", [cost.requests for cost in costs], ""),
        figure("mesh20_ledger_kb", [cost.ledger_bytes / 1_000 for cost in costs], "kB"),
        figure("mesh20_worker_cpu_ms", [cost.cpu_ms / APPS for cost in costs], "ms"),
        figure("mesh20_assemble_s", [found.seconds], "s"),
    ]


@dataclass(frozen=True, slots=True)
class _Used:
    """Used so far: CPU of all workers' main threads, requests of workers and asker, bytes of the ledger on disk."""

    cpu_ms: float
    requests: float
    ledger_bytes: float

    def __sub__(self, other: _Used) -> _Used:
        return _Used(
            self.cpu_ms - other.cpu_ms,
            self.requests - other.requests,
            self.ledger_bytes - other.ledger_bytes,
        )

    def __truediv__(self, by: int) -> _Used:
        return _Used(self.cpu_ms / by, self.requests / by, self.ledger_bytes / by)


@dataclass(frozen=True, slots=True)
class _Verified:
    channels: int
    seconds: float


class _Mesh:
    """The running workers."""

    def __init__(self, system: System, observer: Observer, log: RequestLog) -> None:
        self._system, self._observer, self._log = system, observer, log

    def snapshots(self) -> list[SnapshotView]:
        """Take one after the other; each must be captured."""
        return [self._take() for _ in range(SNAPSHOTS)]

    def _take(self) -> SnapshotView:
        began = time.monotonic()
        observer = self._observer
        epoch = observer.call(_trigger(observer)) + 1
        snapshots = observer.state.snapshots
        wait_until(
            f"the snapshot of epoch {epoch} to be decided",
            lambda: epoch in snapshots and not snapshots[epoch].open,
            timeout_s=LIMIT_S,
            system=self._system,
            period_s=0.01,
        )
        assert snapshots[epoch].failure is None, snapshots[epoch].failure
        time.sleep(max(0.0, began + EVERY_S - time.monotonic()))
        return snapshots[epoch]

    def capture_ms(self, view: SnapshotView) -> float:
        """Return the time from the trigger to the record that completes it, by the broker's clock."""
        times = self._observer.times
        assert view.captured_at is not None
        return float(times[view.captured_at] - times[view.epoch - 1])

    def used(self) -> _Used:
        threads = [Path(f"/proc/{it.pid}/task/{it.pid}/schedstat") for it in self._system.workers]
        sizes = self._observer.call(self._observer.admin.log_bytes(self._observer.ledger.topic))
        return _Used(
            cpu_ms=sum(schedstat(thread)[0] for thread in threads),
            requests=self._log.counts().get("all", 0.0),
            ledger_bytes=sum(sizes.values()),
        )

    def verified(self, view: SnapshotView) -> _Verified:
        """Assemble a snapshot by the embedded engine."""
        with tempfile.TemporaryDirectory() as folder:
            spec = ops.JobSpec(
                namespace=NAMESPACE, snapshots=(str(view.epoch),), storage=folder, engine="embedded"
            )
            began = time.monotonic()
            (done,) = asyncio.run(ops.assemble(self._observer.connection, spec))
            seconds = time.monotonic() - began
        assert done.verdict == "VERIFIED", done
        (v4,) = (check for check in done.checks if check.name == "V4")
        return _Verified(v4.channels or 0, seconds)


async def _trigger(observer: Observer) -> int:
    return await observer.ledger.append(await compose_trigger(observer.admin, observer.state))


@contextmanager
def _running() -> Iterator[_Mesh]:
    with EmbeddedKafka() as broker, tempfile.TemporaryDirectory() as folder:
        create_topics(broker.bootstrap, *(f"mesh-{number}" for number in range(APPS)), partitions=1)
        create_topics(
            broker.bootstrap,
            *(f"mesh-{number}-seen-changelog" for number in range(APPS)),
            partitions=1,
            config={"cleanup.policy": "compact"},
        )
        system = System(bootstrap=broker.bootstrap, namespace=NAMESPACE, folder=Path(folder))
        with observing(broker.bootstrap, NAMESPACE) as observer:
            try:
                _start(system, observer)
                _feed(broker.bootstrap)
                yield _Mesh(system, observer, RequestLog(broker.log_file))
            finally:
                for worker in list(system.workers):
                    system.kill(worker)


def _start(system: System, observer: Observer) -> None:
    for number in range(APPS):
        env = {"MESH_NUMBER": str(number), "MESH_APPS": str(APPS), "MESH_KEEP_S": str(KEEP_S)}
        system.start_worker(f"mesh-{number}", env, module="tests.bench.mesh_app")
        wait_until(
            f"all but {AT_ONCE} of {number + 1} workers to have their inputs",
            lambda least=number + 1 - (AT_ONCE if number + 1 < APPS else 0): (  # type: ignore[misc]
                sum(bool(view.inputs) for view in observer.state.living()) >= least
            ),
            timeout_s=LIMIT_S,
            system=system,
        )


def _feed(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for token in range(TOKENS):
        producer.produce(f"mesh-{token % APPS}", json.dumps({"token": token}).encode(), b"token-%d" % token)
    assert producer.flush(30) == 0, "the broker did not take the tokens"
