"""An app run twice on the same input, with snapkafka and without, and a snapshot about every second of the one with it.

`running` starts both, `Pair.load` sends them records while snapshots are taken, `Pair.finish` waits until both are
through and reads everything that they wrote. What is compared, and what must hold of every snapshot, is in `judging`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from snapkafka import ops
from snapkafka.kafka import Connection
from snapkafka.protocol import Captured
from snapkafka.testing import RunningSystem, create_topics, free_ports
from snapkafka.wire import headers as wire
from tests.observing import Observer, Place, observing

PARTITIONS: Final = 2
#: A worker starts in 3-8 s alone, a dozen at once on two busy cores in far more.
READY_S: Final = 120.0
THROUGH_S: Final = 90.0
#: Without long patience: some apps do not end by themselves, with snapkafka or without.
STOP_S: Final = 1.0
#: A load is as long as so many snapshots without one; under load each takes two or three times as long.
SNAPSHOTS: Final = 10


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it lies in the log."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    stamp: bytes | None  # the bytes of `_sk`, if there
    timestamp_ms: int = 0

    def header(self, name: str) -> str | None:
        return next((value.decode() for key, value in self.headers if key == name), None)


@dataclass
class Side:
    """One of the two runs."""

    id: str
    system: RunningSystem
    records: dict[str, list[Record]] = field(default_factory=dict)  # by topic, without the id in front
    log: str = ""
    port: int = 0  # of its web server


#: What is sent to an input: the key, the value, the timestamp in ms (None: now), per record.
Sources = Mapping[str, Sequence[tuple[str, bytes, int | None]]]


@dataclass
class Pair:
    """Both runs, what was asked of them, and what came of it."""

    bootstrap: str
    namespace: str
    input: str
    ours: Side
    plain: Side
    observer: Observer
    sent: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # by input, partition and offset
    epochs: list[int] = field(default_factory=list)
    isolation: str = "read_uncommitted"  # how its topics are read

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.ours, self.plain

    # -- under load -------------------------------------------------------------------------------------------

    def send(self, sources: Sources, *, seconds: float) -> None:
        """Send each input its records, spread over the time; late ones catch up, so that the load is as long on any
        machine."""

        async def send() -> None:
            started = asyncio.get_running_loop().time()
            async with AIOKafkaProducer(bootstrap_servers=self.bootstrap, linger_ms=5) as producer:
                await asyncio.gather(*(send_to(producer, name, started) for name in sources))

        async def send_to(producer: Any, name: str, started: float) -> None:
            loop, acked, records = asyncio.get_running_loop(), [], sources[name]
            for n, (key, value, at) in enumerate(records):
                await asyncio.sleep(max(0.0, started + seconds * n / len(records) - loop.time()))
                more = {"timestamp_ms": at, "headers": [("n", str(n).encode()), ("of", b"a stranger")]}
                acked.append(await producer.send(f"{self.input}-{name}", value, key.encode(), **more))
            places = await asyncio.gather(*acked)
            self.sent.setdefault(name, []).extend((place.partition, place.offset) for place in places)

        asyncio.run(send())

    def load(self, sources: Sources, *, seconds: float, stretch: bool = True) -> None:
        """Send each input its records, spread over the time, with a snapshot about every second meanwhile.

        Args:
            stretch: take longer where a snapshot does, as on a busy machine: there have to be some under load.
        """
        if stretch:
            before = time.monotonic()
            self.snapshot()
            seconds = max(seconds, SNAPSHOTS * (time.monotonic() - before))
        done = threading.Event()

        def take() -> None:
            while not done.is_set():
                before = time.monotonic()
                self.snapshot()
                done.wait(max(0.0, 1 - (time.monotonic() - before)))

        with ThreadPoolExecutor(1) as pool:
            snapshots = pool.submit(take)
            try:
                self.send(sources, seconds=seconds)
            finally:
                done.set()
            snapshots.result()

    def snapshot(self, *, retries: int = 0) -> Captured:
        """Ask for one and wait; it must be captured, at the first attempt or after so many others."""
        where, name = Connection(bootstrap=self.bootstrap), f"n{len(self.epochs)}"
        how: dict[str, Any] = {"snapshot_id": name, "ttl_ms": 20_000, "wait": True, "retries": retries}
        self.epochs.append(asyncio.run(ops.trigger(where, self.namespace, **how)).epoch)
        self.ours.system.check_alive()
        self.observer.decided(self.epochs[-1], 20)
        return self.observer.state.captured(self.epochs[-1])

    # -- afterwards -------------------------------------------------------------------------------------------

    def wait_for(self, expected: Mapping[str, int], isolation: str = "") -> None:
        """Until both runs have written so many records to these topics, markers left aside."""

        def missing() -> list[str]:
            lacking = []
            for side in self.sides:
                found = count_records(self.bootstrap, side.id, [*expected], isolation or self.isolation)
                lacking += [
                    f"{side.id}-{it}: {n} of {expected[it]}" for it, n in found.items() if n < expected[it]
                ]
            return lacking

        deadline = time.monotonic() + THROUGH_S
        while lacking := missing():
            for side in self.sides:
                side.system.check_alive()
            assert time.monotonic() < deadline, f"not written in {THROUGH_S:.0f} s: {lacking}\n{self.logs()}"
            time.sleep(0.3)  # between two looks at the log

    def finish(self) -> None:
        """Take a last snapshot, stop the workers, and read what lies in the log."""
        self.snapshot()
        self.end()

    def end(self) -> None:
        """Stop the workers, and read what lies in the log."""
        for side in self.sides:
            side.log = "\n".join(worker.log.read_text(errors="replace") for worker in side.system.workers)
            side.system.stop(STOP_S)
            side.records = read_topics(self.bootstrap, f"{side.id}-", self.isolation)

    def logs(self) -> str:
        workers = [worker for side in self.sides for worker in side.system.workers]
        return "\n".join(f"--- {worker.name}\n{worker.last_lines(60)}" for worker in workers)


@contextlib.contextmanager
def running(
    place: Place,
    module: str,
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    changelogs: Sequence[str] = (),
    small_changelogs: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    workers: int = 1,
    web: bool = False,
    joins: bool = True,
    isolation: str = "read_uncommitted",
) -> Iterator[Pair]:
    """Both runs of `module`, started; topics made first, as Faust does not read one that comes later.

    Args:
        inputs, outputs, changelogs: names of topics and tables, without what stands in front of them.
        small_changelogs: those of one partition.
        workers: of each run.
        web: with Faust's web server.
        joins: ours takes part, and is waited for.
        isolation: how what they write is read; "read_committed" of apps that run exactly-once.
    """
    bootstrap, namespace, folder = place
    prefix = f"{namespace}-{module.rpartition('.')[2]}"
    sides = [Side(f"{prefix}-{it}", RunningSystem(*place), port=free_ports(1)[0]) for it in ("ours", "plain")]
    ids, compact = [side.id for side in sides], {"cleanup.policy": "compact"}
    for topics, partitions, config in (
        ([f"{prefix}-in-{topic}" for topic in inputs], PARTITIONS, {}),
        ([f"{name}-{topic}" for topic in outputs for name in ids], PARTITIONS, {}),
        ([f"{name}-{table}-changelog" for table in changelogs for name in ids], PARTITIONS, compact),
        ([f"{name}-{table}-changelog" for table in small_changelogs for name in ids], 1, compact),
    ):
        if topics:
            create_topics(bootstrap, *topics, partitions=partitions, config=config)
    ready = folder / "ready"
    ready.mkdir(exist_ok=True)

    for side in sides:
        settings = {
            "FEATURES_ID": side.id,
            "FEATURES_INPUT": f"{prefix}-in",
            "FEATURES_READY": str(ready),
            "PYTHONHASHSEED": "0",
            "SNAPKAFKA": "off" if side.id.endswith("-plain") else "",
            **(env or {}),
        }
        options = ("--web-port", str(side.port)) if web else ("--without-web",)
        for _ in range(workers):
            side.system.start_worker(side.id, settings, module=module, options=options)
    ours, plain = sides
    try:
        with observing(bootstrap, namespace) as observer:
            pair = Pair(bootstrap, namespace, f"{prefix}-in", ours, plain, observer, isolation=isolation)
            try:
                if joins:
                    observer.wait_for_workers(ours.system)
                    # None is left for Faust to make: it does so while its app starts, and the first write may come
                    # before it knows how many partitions there are (`PartitionsMismatch`).
                    hellos = [view.hello for view in observer.state.living()]
                    tables = {table.name for hello in hellos for table in hello.tables}
                    assert tables <= {*changelogs, *small_changelogs}, "to be named in `changelogs`"
                    count = sum(len(view.inputs) for view in observer.state.living())
                    for side in sides:
                        await_inputs(side, ready, count)
                yield pair
            except BaseException:
                print(pair.logs())
                raise
    finally:
        for side in sides:
            side.system.stop(STOP_S)


#: Both runs of the app that counts, with an agent that is slow.
both_counting: Final = partial(
    running,
    module="tests.features.apps.counting",
    inputs=("counted", "slow"),
    outputs=("counted-out", "slow-out"),
    changelogs=["counted"],
)


def await_inputs(side: Side, ready: Path, count: int) -> None:
    """Until its workers run them all, and each worker its part: Faust may pass over what comes while they get there
    (docs/reference/features.md)."""

    def are_running() -> bool:
        files = [ready / f"{side.id}.{worker.pid}" for worker in side.system.workers]
        counts = [int(file.read_text()) if file.exists() else -1 for file in files]
        return min(counts) >= 0 and sum(counts) == count

    side.system.wait_until(f"{side.id} to run {count} inputs", are_running, timeout_s=60)


# -- reading ------------------------------------------------------------------------------------------------------


def produce(
    bootstrap: str,
    topic: str,
    records: Sequence[tuple[str | None, bytes | None, int | None]],
    *,
    partition: int | None = None,
    headers: Sequence[tuple[str, bytes]] = (),
) -> list[tuple[int, int]]:
    """Send all at once; the partition and offset of each."""

    async def send() -> list[tuple[int, int]]:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            more = {"partition": partition, "headers": headers}
            acked = [
                await producer.send(topic, value, key and key.encode(), timestamp_ms=at, **more)
                for key, value, at in records
            ]
            return [(place.partition, place.offset) for place in await asyncio.gather(*acked)]

    return asyncio.run(send())


def read_topics(bootstrap: str, prefix: str, isolation: str = "read_uncommitted") -> dict[str, list[Record]]:
    """Everything in the topics whose name begins so, by the rest of their names; in the order of partitions.

    With "read_committed" only what is committed by now.
    """
    found = read_partitions(bootstrap, _partitions(bootstrap, prefix, None), isolation)
    return defaultdict(list, {name.removeprefix(prefix): records for name, records in found.items()})


def count_records(
    bootstrap: str, side: str, names: Sequence[str], isolation: str = "read_uncommitted"
) -> dict[str, int]:
    """How many records that are no markers lie in these topics."""
    found = read_partitions(bootstrap, _partitions(bootstrap, f"{side}-", set(names)), isolation)
    return {name: sum(not is_marker(record) for record in found[f"{side}-{name}"]) for name in names}


def is_marker(record: Record) -> bool:
    return record.stamp is not None and len(record.stamp) == wire.MARKER_BYTES


def read_partitions(
    bootstrap: str, tps: Sequence[KafkaPartition], isolation: str = "read_uncommitted"
) -> dict[str, list[Record]]:
    """Everything in these partitions, by topic; in the order of partitions."""
    return asyncio.run(_read(bootstrap, tps, isolation))


def folded(records: Sequence[Record]) -> dict[str, object]:
    """The rows of a changelog by key: those of windows by key and start, sets as sets."""
    found: dict[str, object] = {}
    for record in sorted(records, key=lambda it: (it.partition, it.offset)):
        if is_marker(record) or record.key is None:
            continue
        key, value = json.loads(record.key), json.loads(record.value or b"null")
        if isinstance(key, list) and isinstance(key[1], list):  # of a window
            key = f"{key[0]} from {key[1][0]}"
        if isinstance(key, list):  # of a set
            members = found.setdefault(key[1], set())
            assert isinstance(members, set)
            added, lost = {1: ([value], []), 2: ([], [value])}.get(key[0]) or value
            members |= set(added)
            members -= set(lost)
        elif value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


async def _read(bootstrap: str, tps: Sequence[KafkaPartition], isolation: str) -> dict[str, list[Record]]:
    how = {"group_id": None, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation, **how)
    found: dict[str, list[Record]] = defaultdict(list)
    async with consumer:
        ends = {tp: end for tp, end in (await consumer.end_offsets(tps)).items() if end > 0} if tps else {}
        if not ends:
            return found
        consumer.assign(list(ends))
        await consumer.seek_to_beginning()
        while [tp for tp, end in ends.items() if await consumer.position(tp) < _readable(consumer, tp, end)]:
            for tp, batch in (await consumer.getmany(timeout_ms=200)).items():
                found[tp.topic] += [_record(item) for item in batch]
    for records in found.values():
        records.sort(key=lambda record: (record.partition, record.offset))
    return found


def _readable(consumer: Any, tp: KafkaPartition, end: int) -> int:
    """Where a reader of committed records has to stop: a transaction may still be open."""
    stable = consumer.last_stable_offset(tp)  # None before the first answer, -1 for who reads everything
    return end if stable is None or stable < 0 else min(end, stable)


def _partitions(bootstrap: str, prefix: str, only: set[str] | None) -> list[KafkaPartition]:
    topics = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=20).topics
    return [
        KafkaPartition(name, partition)
        for name, topic in topics.items()
        if name.startswith(prefix) and (only is None or name[len(prefix) :] in only)
        for partition in topic.partitions
    ]


def _record(item: Any) -> Record:
    place, theirs = (item.topic, item.partition, item.offset), tuple(wire.without_header(item.headers))
    return Record(*place, item.key, item.value, theirs, wire.find(item.headers), item.timestamp)
