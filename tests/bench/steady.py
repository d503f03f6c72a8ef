"""What a snapshot costs as things grow: keys of a table, the number of snapshots so far."""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from snapkafka.kafka import compose_trigger
from snapkafka.testing import EmbeddedKafka, RunningSystem, create_topics, wait_until
from tests.bench.figures import Figure, figure, trend
from tests.observing import Observer, observing

#: Ratios are of medians over so many snapshots of either, in turn.
ROUNDS: Final = 12
EACH: Final = 10
MANY: Final = int(os.environ.get("BENCH_MANY", "1000000"))
FEW: Final = 1_000
#: Events per second.
RATE: Final = 40
#: A worker whose memory is looked at could do so many times what it gets, or messages that wait would be in the figure.
SPARE: Final = 4
#: For so long it works before the first snapshot: Faust's own memory grows for a minute or two, without us as well, and
#: once more when aiokafka's clients first ask again where the topics are, after five minutes.
WARM_S: Final = 330.0
#: Snapshots per second, where memory is looked at: a snapshot has a timer for its five seconds, so with as many as can
#: be taken what is used goes up and down with what the machine has to spare.
PACE: Final = 25
SNAPSHOTS: Final = int(os.environ.get("BENCH_SNAPSHOTS", "10000"))
#: Memory is looked at from here on: before, what is remembered of the latest five hundred fills, and so does what
#: CPython keeps of tuples that were freed: two thousand of each size, of which aiokafka's answers add one of four
#: places for each partition and snapshot (its `Schema.decode` makes a tuple of ten and cuts it).
FROM: Final = SNAPSHOTS // 10
#: Of a worker whose memory is looked at.
PARTITIONS: Final = 4
LOOK_EVERY: Final = max(1, SNAPSHOTS // 200)
#: Six hundred snapshots each: Faust's own work touches a page or two in as long, by chance, of either worker; and of
#: twelve looks one or two meet a buffer of a quarter of a megabyte, which the median leaves out.
SECTIONS: Final = 15
LIMIT_S: Final = 180.0


def bench_keys() -> list[Figure]:
    """How long a cut takes where a table has a million keys, by a thousand."""
    with (
        _place() as place,
        _worker(place, "few", keys=FEW) as few,
        _worker(place, "many", keys=MANY) as many,
    ):
        return [figure("cut_ratio_keys", _ratios(_taken(many, few)), "ratio", bar=1.3)]


def bench_memory() -> list[Figure]:
    """Bytes that a worker uses more per snapshot, from the thousandth to the ten-thousandth, than one of which none is
    taken and that works as much."""
    looks: list[tuple[float, float, float]] = []  # at which snapshot, the one, the one beside it
    with (
        _place() as place,
        _worker(place, "memory", rate=SPARE * RATE, partitions=PARTITIONS) as one,
        _worker(place, "beside", rate=SPARE * RATE, partitions=PARTITIONS) as other,
        _fed(one),
        _fed(other),
    ):
        time.sleep(WARM_S)
        began = time.monotonic()
        for number in range(SNAPSHOTS):
            time.sleep(max(0.0, began + number / PACE - time.monotonic()))
            one.take()
            if number >= FROM and number % LOOK_EVERY == 0:
                looks.append((number, one.used(), other.used()))
        took = time.monotonic() - began
        assert took < 1.1 * SNAPSHOTS / PACE, f"{SNAPSHOTS / took:.1f} snapshots per second, and not {PACE}"
        for worker in (one, other):
            worker.take()
            waiting = worker.unread()
            assert waiting <= RATE, f"{waiting:,} messages of {worker.name} waited at the end"
    value, low, high = trend([(number, used - beside) for number, used, beside in looks], SECTIONS)
    return [Figure(name="memory_slope", value=value, low=low, high=high, unit="B", bar=0.0, surely=False)]


def _memory_file(folder: Path) -> Path:
    """Where a worker writes how much memory it uses."""
    return folder / "memory.json"


class _Steady:
    """A worker with a ledger of its own, and snapshots of it, one after the other."""

    def __init__(self, name: str, system: RunningSystem, observer: Observer) -> None:
        self.name, self.system, self.observer = name, system, observer

    def take(self) -> float:
        """Take a snapshot, which must be captured; return how many us its cut took, by the worker's clock."""
        work = compose_trigger(self.observer.admin, self.observer.state)
        epoch = self.observer.call(self.observer.ledger.append(self.observer.call(work))) + 1
        snapshots = self.observer.state.snapshots
        wait_until(
            f"the snapshot of epoch {epoch} of {self.name} to be decided",
            lambda: epoch in snapshots and not snapshots[epoch].open,
            timeout_s=30,
            system=self.system,
            period_s=0.01,
        )
        view = snapshots[epoch]
        assert view.failure is None, view.failure
        assert view.captured_at is not None
        ((_, closed),) = view.closed.values()
        return float(closed.cut_us)

    def used(self) -> int:
        """Bytes that it uses now, by the books of both of its allocators."""
        return int(_memory_file(self.system.folder).read_text())

    def unread(self) -> int:
        """Messages of its input that wait behind the latest cut."""
        latest = max(epoch for epoch, view in self.observer.state.snapshots.items() if view.captured_at)
        return sum(cut.log_end - cut.position for cut in self.observer.state.captured(latest).inputs)


def _taken(grown: _Steady, small: _Steady) -> list[tuple[float, float]]:
    """Snapshots of the one and of the other, in turn."""
    shots = [(grown.take(), small.take()) for _ in range((ROUNDS + 1) * EACH)]
    return shots[EACH:]  # what runs often gets warm first


def _ratios(shots: Sequence[tuple[float, float]]) -> list[float]:
    """Medians of the one by those of the other, some snapshots at a time."""
    found = []
    for at in range(0, len(shots), EACH):
        some = shots[at : at + EACH]
        grown, small = ([pair[n] for pair in some] for n in range(2))
        found.append(statistics.median(grown) / statistics.median(small))
    return found


@contextlib.contextmanager
def _place() -> Iterator[tuple[str, Path]]:
    """A broker, and a folder for logs."""
    with EmbeddedKafka() as broker, tempfile.TemporaryDirectory() as folder:
        yield broker.bootstrap, Path(folder)


@contextlib.contextmanager
def _worker(
    place: tuple[str, Path],
    name: str,
    *,
    keys: int = 0,
    rate: int = RATE,
    partitions: int = 1,
) -> Iterator[_Steady]:
    """A worker whose table has so many keys; it can do `rate` a second."""
    bootstrap, folder = place
    create_topics(bootstrap, f"{name}-in", f"{name}-out", partitions=partitions)
    compacted = {"cleanup.policy": "compact"}
    create_topics(bootstrap, f"{name}-counts-changelog", partitions=partitions, config=compacted)
    _fill(bootstrap, f"{name}-counts-changelog", keys)
    own = folder / name
    own.mkdir()
    system = RunningSystem(bootstrap=bootstrap, namespace=f"bench-{name}", folder=own)
    with observing(bootstrap, f"bench-{name}") as observer:
        pause = 1 / rate
        env = {
            "BUSY_APP_ID": name,
            "BUSY_KIND": "wait",
            "BUSY_WAIT": f"{pause} {pause}",
            "BUSY_MEMORY": str(_memory_file(own)),
            # What a thread keeps of what it frees counts as used; it fills for hours.
            "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
            "BUSY_PARTITIONS": str(partitions),
        }
        system.start_worker(name, env, module="tests.bench.busy_app")
        try:
            wait_until(
                f"the worker of {name} to have its input",
                lambda: any(view.inputs for view in observer.state.living()),
                timeout_s=LIMIT_S,
                system=system,
            )
            yield _Steady(name, system, observer)
        finally:
            for worker in list(system.workers):
                system.kill(worker)


def _fill(bootstrap: str, changelog: str, keys: int) -> None:
    """Write so many records, each with a key of its own."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "log_level": 0})
    for n in range(keys):
        producer.produce(changelog, b"1", b'"key-%d"' % n, 0)
        if n % 10_000 == 0:
            producer.poll(0)
            while len(producer) > 80_000:
                producer.poll(0.1)
    assert producer.flush(60) == 0, "the broker did not take all records"


@contextlib.contextmanager
def _fed(worker: _Steady) -> Iterator[None]:
    """It gets `RATE` messages a second."""
    feed = _feed(worker.observer.connection.bootstrap, f"{worker.name}-in")
    feeding = asyncio.run_coroutine_threadsafe(feed, worker.observer.loop)
    try:
        yield
        assert not feeding.done(), feeding.exception()
    finally:
        feeding.cancel()


async def _feed(bootstrap: str, topic: str) -> None:
    """`RATE` messages a second, until it is cancelled."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        n = 0
        while True:
            await producer.send(topic, key=b"key-%d" % (n % FEW), value=b'{"n": %d}' % n)
            n += 1
            await asyncio.sleep(1 / RATE)
