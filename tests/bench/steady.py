"""What a worker remembers of snapshots: the memory that it uses, by how many were taken."""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aiokafka import AIOKafkaProducer

from snapkafka.kafka import compose_trigger
from snapkafka.testing import EmbeddedKafka, RunningSystem, create_topics, wait_until
from tests.bench.figures import Figure, interval
from tests.observing import Observer, observing

#: Events per second; a worker could do four times as many, or messages that wait would be in the figure.
RATE: Final = 40
#: For so long it works before the first snapshot: Faust's own memory grows for a minute or two, without us as well, and
#: once more when aiokafka's clients first ask again where the topics are, after five minutes.
WARM_S: Final = 330.0
#: Snapshots per second: a snapshot has a timer for its five seconds, so with as many as can be taken what is used goes
#: up and down with what the machine has to spare.
PACE: Final = 25
SNAPSHOTS: Final = int(os.environ.get("BENCH_SNAPSHOTS", "10000"))
#: Memory is looked at from here on: before, what is remembered of the latest five hundred fills, and so does what
#: CPython keeps of tuples that were freed.
FROM: Final = SNAPSHOTS // 10
PARTITIONS: Final = 4
LOOK_EVERY: Final = max(1, SNAPSHOTS // 200)
LIMIT_S: Final = 180.0


def bench_memory() -> list[Figure]:
    """Bytes that a worker uses more per snapshot, from the thousandth to the ten-thousandth, than one of which none is
    taken and that works as much."""
    more: list[int] = []  # at each look
    with (
        EmbeddedKafka() as broker,
        tempfile.TemporaryDirectory() as folder,
        _worker(broker.bootstrap, Path(folder), "memory") as one,
        _worker(broker.bootstrap, Path(folder), "beside") as other,
    ):
        time.sleep(WARM_S)
        began = time.monotonic()
        for number in range(SNAPSHOTS):
            time.sleep(max(0.0, began + number / PACE - time.monotonic()))
            one.take()
            if number >= FROM and number % LOOK_EVERY == 0:
                more.append(one.used() - other.used())
        took = time.monotonic() - began
        assert took < 1.1 * SNAPSHOTS / PACE, f"{SNAPSHOTS / took:.1f} snapshots per second, and not {PACE}"
        waiting = one.unread()
        assert waiting <= RATE, f"{waiting:,} messages waited at the end"
    # Slopes between looks half of the run apart: their median leaves out those that meet a large buffer.
    half = len(more) // 2
    slopes = [(late - early) / (half * LOOK_EVERY) for early, late in zip(more, more[half:], strict=False)]
    low, high = interval(slopes, statistics.median)
    value = statistics.median(slopes)
    return [Figure(name="memory_slope", value=value, low=low, high=high, unit="B", bar=0.0, surely=False)]


class _Steady:
    """A worker with a ledger of its own, and snapshots of it, one after the other."""

    def __init__(self, memory: Path, system: RunningSystem, observer: Observer) -> None:
        self._memory, self._system, self._observer = memory, system, observer

    def take(self) -> None:
        """Take a snapshot, which must be captured."""
        observer, snapshots = self._observer, self._observer.state.snapshots
        trigger = observer.call(compose_trigger(observer.admin, observer.state))
        epoch = observer.call(observer.ledger.append(trigger)) + 1
        wait_until(
            f"the snapshot of epoch {epoch} to be decided",
            lambda: epoch in snapshots and not snapshots[epoch].open,
            timeout_s=30,
            system=self._system,
            period_s=0.01,
        )
        assert snapshots[epoch].failure is None, snapshots[epoch].failure

    def used(self) -> int:
        """Bytes that it uses now, by the books of both of its allocators."""
        return int(self._memory.read_text())

    def unread(self) -> int:
        """Messages of its input that wait behind the latest cut."""
        state = self._observer.state
        latest = max(epoch for epoch, view in state.snapshots.items() if view.captured_at)
        return sum(cut.log_end - cut.position for cut in state.captured(latest).inputs)


@contextlib.contextmanager
def _worker(bootstrap: str, folder: Path, name: str) -> Iterator[_Steady]:
    """A worker that gets `RATE` messages a second."""
    create_topics(bootstrap, f"{name}-in", f"{name}-out", partitions=PARTITIONS)
    compacted = {"cleanup.policy": "compact"}
    create_topics(bootstrap, f"{name}-counts-changelog", partitions=PARTITIONS, config=compacted)
    own = folder / name
    own.mkdir()
    memory, system = own / "memory", RunningSystem(bootstrap=bootstrap, namespace=name, folder=own)
    with observing(bootstrap, name) as observer:
        env = {
            "BUSY_APP_ID": name,
            "BUSY_PAUSE": str(1 / (4 * RATE)),
            "BUSY_MEMORY": str(memory),
            # What a thread keeps of what it frees counts as used; it fills for hours.
            "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
            "BUSY_PARTITIONS": str(PARTITIONS),
        }
        system.start_worker(name, env, module="tests.bench.busy_app")
        try:
            wait_until(
                "the worker to have its input",
                lambda: any(view.inputs for view in observer.state.living()),
                timeout_s=LIMIT_S,
                system=system,
            )
            feeding = asyncio.run_coroutine_threadsafe(_feed(bootstrap, f"{name}-in"), observer.loop)
            try:
                yield _Steady(memory, system, observer)
                assert not feeding.done(), feeding.exception()
            finally:
                feeding.cancel()
        finally:
            for worker in list(system.workers):
                system.kill(worker)


async def _feed(bootstrap: str, topic: str) -> None:
    """`RATE` messages a second, until it is cancelled."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        n = 0
        while True:
            await producer.send(topic, key=b"key-%d" % (n % 1_000), value=b'{"n": %d}' % n)
            n += 1
            await asyncio.sleep(1 / RATE)
