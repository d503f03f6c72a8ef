"""What a snapshot costs the running system of the demo, by what it cost with an older commit; and in requests.

Two systems stand side by side, each with a broker of its own and four workers: one by this commit, one by
`BENCH_OLDER`, whose package is unpacked for it. Their turns alternate: one has transfers, the other one rests. In a
turn the timer of its workers takes a snapshot in each other second. What it costs is the CPU time of that second, less
that of the next one: a machine that others use, too, is faster and slower from one second to the next.

An older commit may need libraries that this one does without: `BENCH_OLDER_PATH` is a folder that has them.
"""

import asyncio
import contextlib
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from unittest import mock

import psutil
from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as KafkaPartition

from snapkafka.demo import Load, open_accounts, running_system
from snapkafka.demo.settings import CREDITS, PARTITIONS
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.testing import EmbeddedKafka, RunningSystem
from tests.bench.figures import Figure, figure, p99
from tests.observing import observing

_Found = Mapping[str, Sequence[float]]
_Of = Callable[[Sequence[float]], float]
OLDER: Final = os.environ.get("BENCH_OLDER", "4233fa53")
LIBRARIES: Final = os.environ.get("BENCH_OLDER_PATH", "")
#: Each of the rounds is a turn of each system, with so many snapshots.
ROUNDS: Final = int(os.environ.get("BENCH_ROUNDS", "8"))
PAIRS: Final = 15
HERE: Final = str(Path().absolute())
PERIODIC: Final = f"{HERE}/tests/bench/periodic"  # see `sitecustomize` there
#: Transfers per second; so many snapshots are asked for by the command.
RATE, ASKED = 25, 8
#: So much of the machine has to be idle, or all waits for the processor.
IDLE_LEAST: Final = 1 / 3
EVERY_S: Final = 2.0
NAMESPACE: Final = "bench-older"
#: A line of the broker's log: a request of a worker or a command that was answered. The load has other names.
ANSWERED: Final = re.compile(r'"clientId":"(?:snapkafka|faust).*?"requestApiKeyName":')
REQUEST_LOG: Final = "-Dorg.slf4j.simpleLogger.log.kafka.request.logger=debug"
#: Read the ledger as the commit does that has written it: milliseconds of each capture, microseconds of each cut.
READER: Final = """
import json, sys
from snapkafka.protocol import LedgerState
from snapkafka.wire.codec import decode
state, times, cuts = LedgerState(), {}, []
for line in sys.stdin:
    offset, at, text = line.split()
    record = decode(bytes.fromhex(text))
    times[int(offset)] = int(at)
    state.apply(int(offset), record)
    cuts += [record.cut_us] if hasattr(record, "cut_us") else []
views = [view for view in state.snapshots.values() if view.captured_at is not None and view.trigger.id[:6] == "every-"]
print(json.dumps([[times[view.captured_at] - times[view.epoch - 1] for view in views], cuts]))
"""


class Spent(NamedTuple):
    """Milliseconds of CPU so far: the mean of the workers' main threads, of all their threads, and of the broker."""

    main: float
    worker: float
    broker: float


def bench_older() -> list[Figure]:
    """CPU time and latency of snapshots by those of an older commit, in turns on one machine."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        unpacking = f"git archive {OLDER} snapkafka schemas | tar -x -C {folder}"
        subprocess.run(["bash", "-c", f"set -o pipefail; {unpacking}"], check=True)
        arms = [stack.enter_context(_Arm.running(*path)) for path in ((folder, LIBRARIES, HERE), (HERE,))]
        for number in range(-1, ROUNDS):  # the first one is for warmth
            for arm in arms[:: 1 if number % 2 else -1]:
                arm.turn()
                if number < 0:
                    arm.found.clear()
        for number in range(ASKED):
            for arm in arms[:: 1 if number % 2 else -1]:
                arm.ask()
        older, newer = (arm.found | arm.read_ledger() for arm in arms)
    return [
        *(_ratio(name, newer, older) for name in (*Spent._fields, "asker", "capture", "cut")),
        *(_ratio(name, newer, older, of=p99) for name in ("capture", "cut")),
        figure("way_p99_ratio", newer["way"], "ratio", bar=1.3),
        figure("way_p99_ratio_older", older["way"], "ratio"),
    ]


def bench_requests() -> list[Figure]:
    """Requests of everybody for one snapshot, as the broker counts them: by the timer, and asked for."""
    java = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {REQUEST_LOG}"
    kinds: tuple[str, ...] = ("none", "timer", "asked")
    costs: dict[str, list[float]] = defaultdict(list)
    with mock.patch.dict(os.environ, {"JDK_JAVA_OPTIONS": java}), _Arm.running(HERE) as arm:
        for number in range(ROUNDS + 1):
            counts = {kind: arm.count_requests(kind) for kind in kinds}
            if number:  # in the first one connections are made
                costs["timer"].append((counts["timer"] - counts["none"]) * EVERY_S / ASKED)
                costs["asked"].append((counts["asked"] - counts["timer"]) / ASKED)
            kinds = kinds[::-1]
    return [figure(f"requests_{kind}", found, "") for kind, found in costs.items()]


def _ratio(name: str, newer: _Found, older: _Found, of: _Of = statistics.median) -> Figure:
    """The ratio of two statistics, with an interval: of both, drawn anew."""

    def ratio(drawn: Sequence[tuple[float, float]]) -> float:
        return of([new for new, _ in drawn]) / of([old for _, old in drawn])

    pairs = [*zip(newer[name], older[name], strict=False)]
    print(f"    {name}: {of(newer[name]):.2f} by {of(older[name]):.2f}", file=sys.stderr)
    return figure(f"older_{name}{'_p99' if of is p99 else ''}", pairs, "ratio", of=ratio)


class _Arm:
    """A system, and what was measured of it. `path`: where its package is imported from."""

    def __init__(self, path: str, broker: EmbeddedKafka, system: RunningSystem) -> None:
        self._env = {**os.environ, "PYTHONPATH": path}
        self._broker, self._system = broker, system
        self._log = broker.log_file.open(errors="replace")
        self._places = dict.fromkeys(range(PARTITIONS), 0)  # how far its answers are read
        self.found: dict[str, list[float]] = defaultdict(list)

    @classmethod
    @contextlib.contextmanager
    def running(cls, *folders: str) -> Iterator["_Arm"]:
        """Start a broker and four workers; the accounts are open, and snapshots are paused."""
        path = os.pathsep.join(filter(None, folders))

        async def opened() -> None:
            admin = KafkaTopicAdmin(Connection(bootstrap=broker.bootstrap))
            try:
                await open_accounts(Load(broker.bootstrap), admin, system)
            finally:
                await admin.close()

        env = {"PYTHONPATH": os.pathsep.join((PERIODIC, path))}
        with (
            EmbeddedKafka() as broker,
            running_system(broker.bootstrap, NAMESPACE, env=lambda *_: env) as system,
        ):
            arm = cls(path, broker, system)
            asyncio.run(opened())
            arm._run("pause")
            yield arm

    def turn(self) -> None:
        """Take snapshots in a steady load, and note what seconds with one and without have cost."""
        self._run("resume")
        asyncio.run(self._loaded())
        self._run("pause")
        ways = defaultdict(list)
        for record in self._read(CREDITS, self._places):
            self._places[record.partition()] = record.offset() + 1
            if value := record.value():  # a marker has none
                asked = json.loads(value)["asked"]
                ways[asked % EVERY_S < 1.0].append(record.timestamp()[1] - asked * 1_000)
        self.found["way"].append(p99(ways[True]) / p99(ways[False]))

    async def _loaded(self) -> None:
        async with Load(self._broker.bootstrap, rate=RATE, slow_every=0).running():
            start = (time.time() // EVERY_S + 2) * EVERY_S - 0.02  # before the moment of the timer
            seen = []
            psutil.cpu_times_percent()
            for number in range(2 * PAIRS + 1):
                await asyncio.sleep(start + number - time.time())
                seen.append(self._spent())
            idle = psutil.cpu_times_percent().idle / 100
        assert idle >= IDLE_LEAST, f"only {idle:.0%} of the machine were idle: all waits for the processor"
        for before, middle, after in zip(seen[::2], seen[1::2], seen[2::2], strict=False):
            for name, first, second, third in zip(Spent._fields, before, middle, after, strict=True):
                self.found[name].append((second - first) - (third - second))

    def _spent(self) -> Spent:
        workers = [worker.pid or 0 for worker in self._system.workers]
        return Spent(
            statistics.fmean(_cpu_ms(f"{pid}/task/{pid}") for pid in workers),
            statistics.fmean(_cpu_ms(f"{pid}/task/*") for pid in workers),
            _cpu_ms(f"{self._broker.pid}/task/*"),
        )

    def count_requests(self, kind: str) -> int:
        """Count the requests of a while with snapshots by the timer, by it and who follows the ledger, or none."""
        self._run("pause" if kind == "none" else "resume")
        with contextlib.ExitStack() as stack:
            if kind == "asked":
                observer = stack.enter_context(observing(self._broker.bootstrap, NAMESPACE))
                observer.wait_for_workers(self._system)
            self._log.read()
            for _ in range(ASKED):
                time.sleep(1.0 - (time.time() - 0.6) % 1.0)  # the timer's are over
                if kind == "asked":
                    observer.take(f"asked-{time.time()}")
            return len(ANSWERED.findall(self._log.read()))

    def ask(self) -> None:
        """Ask for a snapshot by the command, beside the timer's."""
        self._run("resume")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self._run("trigger", "--wait")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self._run("pause")
        self.found["asker"].append(
            1_000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
        )

    def read_ledger(self) -> dict[str, list[float]]:
        """Return how long captures and cuts took."""
        lines = (
            f"{record.offset()} {record.timestamp()[1]} {record.value().hex()}\n"
            for record in self._read(f"_snapkafka.{NAMESPACE}", {0: 0})
        )
        captures, cuts = json.loads(self._python("-c", READER, given="".join(lines)))
        assert len(captures) >= 0.8 * ROUNDS * PAIRS, f"{len(captures)} snapshots"
        return {"capture": captures, "cut": cuts}

    def _run(self, *arguments: str) -> None:
        where = ["--bootstrap", self._broker.bootstrap, "--namespace", NAMESPACE]
        self._python("-m", "snapkafka", *arguments, *where)

    def _python(self, *arguments: str, given: str = "") -> str:
        command, place = [sys.executable, *arguments], self._system.folder
        ran = subprocess.run(
            command, input=given, env=self._env, cwd=place, stdout=subprocess.PIPE, text=True, check=True
        )
        return ran.stdout

    def _read(self, topic: str, places: Mapping[int, int]) -> Iterator[Message]:
        """Read the partitions of a topic from these offsets to their ends."""
        consumer = Consumer(
            {"bootstrap.servers": self._broker.bootstrap, "group.id": "none", "enable.auto.commit": False}
        )
        for partition, offset in places.items():
            _, end = consumer.get_watermark_offsets(KafkaPartition(topic, partition))
            consumer.assign([KafkaPartition(topic, partition, offset)])
            at = offset
            while at < end:
                for record in consumer.consume(1_000, 1.0):
                    at = record.offset() + 1
                    yield record
        consumer.close()


def _cpu_ms(tasks: str) -> float:
    return sum(int(path.read_text().split()[0]) for path in Path("/proc").glob(f"{tasks}/schedstat")) / 1e6
