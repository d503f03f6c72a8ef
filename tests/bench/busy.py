"""What snapkafka costs a worker that has all it can do: events per second, and how long one takes, with it and without.

Workers stand side by side, each with a backlog and one partition of each topic, so that one core is the bound: without
snapkafka, with it, and with a snapshot every second. One at a time may run, for a short turn (SIGSTOP and SIGCONT), and
is measured from outside, by how fast its output grows: what the machine does to one, it does to all.

For the time of an event so many messages are always under way: for each that comes out another one goes in. What is
measured is what who sends would see: from where it hands a message to its producer until it has the answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean as mean
from typing import Any, Final, NamedTuple, Self, TypeVar

import psutil
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from snapkafka.protocol import SnapshotView, TopicPartition
from snapkafka.testing import EmbeddedKafka, RunningSystem, create_topics
from snapkafka.wire import headers as wire
from tests.bench.figures import Figure, figure, p99
from tests.observing import observing

#: So many times each worker has so many turns of so many seconds. Short ones: a machine that others use, too, is faster
#: and slower from one second to the next. Many: Faust takes some thousand records in and then works them off, so in one
#: turn a worker may do more than in the next.
PAIRS, TURNS, TURN_S = 10, 80, 0.2
ANSWER_PAIRS, ANSWER_TURNS, ANSWER_TURN_S = 20, 6, 2.0
#: So many messages are under way: a worker whose queues are shorter waits for the broker now and then.
UNDER_WAY: Final = int(os.environ.get("BENCH_UNDER_WAY", "1000"))
EVENTS: Final = 1_500_000
#: So many events are worked off before anything is measured.
WARM: Final = 5_000
KEYS: Final = 1_000
LIMIT_S: Final = 180.0

A = TypeVar("A", bound="Arm")


class Done(NamedTuple):
    """By one worker, in so many seconds of its turns: events, and CPU seconds."""

    seconds: float
    events: float
    cpu_s: float

    def __sub__(self, before: Done) -> Done:
        return Done(*(now - then for now, then in zip(self, before, strict=True)))

    @property
    def per_second(self) -> float:
        return self.events / self.seconds

    @property
    def cores(self) -> float:
        return self.cpu_s / self.seconds


def bench_throughput() -> list[Figure]:
    """Events per second of a busy worker with snapkafka and without, and with a snapshot every second."""
    of_idle, of_snapshots, cores = [], [], []
    with three(Arm) as (without, idle, snapshots):
        for _ in range(PAIRS):
            turns = in_turn((without, idle, snapshots), TURNS, TURN_S)
            done = {arm: Done(*map(sum, zip(*of_one, strict=True))) for arm, of_one in turns.items()}
            of_idle.append(done[idle].per_second / done[without].per_second)
            of_snapshots.append(done[snapshots].per_second / done[without].per_second)
            cores += [of_one.cores for of_one in done.values()]
        snapshots.require_captured(TURN_S * TURNS * PAIRS * 0.8)
        header_bytes = idle.header_bytes()
    return [
        figure("throughput_ratio_idle", of_idle, "ratio", of=mean, bar=0.98, at_most=False),
        figure("throughput_ratio_every_second", of_snapshots, "ratio", of=mean, bar=0.97, at_most=False),
        figure("throughput_worker_core", cores, "cores", bar=0.95, at_most=False),
        figure("header_bytes_mean", header_bytes, "bytes", of=mean, bar=27),
    ]


def bench_latency() -> list[Figure]:
    """How long an event of a busy worker takes with a snapshot every second, by without snapkafka."""
    ratios, cores = [], []
    with three(Answering) as (without, idle, snapshots):
        for _ in range(ANSWER_PAIRS):
            turns = in_turn((without, idle, snapshots), ANSWER_TURNS, ANSWER_TURN_S)
            took = {arm: arm.taken() for arm in turns}
            ratios.append(took[snapshots] / took[without])
            cores += [done.cores for of_one in turns.values() for done in of_one]
        snapshots.require_captured(ANSWER_TURN_S * ANSWER_TURNS * ANSWER_PAIRS * 0.8)
    return [
        figure("latency_p99_ratio", ratios, "ratio", bar=1.05),
        figure("latency_worker_core", cores, "cores", bar=0.95, at_most=False),
    ]


@contextlib.contextmanager
def three(kind: type[A]) -> Iterator[tuple[A, A, A]]:
    """Three workers: without snapkafka, with it, and with a snapshot every second."""
    with EmbeddedKafka() as broker, tempfile.TemporaryDirectory() as folder:
        place = broker.bootstrap, Path(folder)
        with (
            kind(*place, "without", install=False) as without,
            kind(*place, "idle") as idle,
            kind(*place, "snapshots", every_s=1.0) as snapshots,
        ):
            yield without, idle, snapshots


def in_turn(arms: tuple[A, ...], turns: int, seconds: float) -> dict[A, list[Done]]:
    """Let each of them run so often; another one begins each time."""
    done: dict[A, list[Done]] = {arm: [] for arm in arms}
    for number in range(turns):
        first = number % len(arms)
        for arm in arms[first:] + arms[:first]:
            done[arm].append(arm.turn(seconds))
    return done


class Arm:
    """A worker that works off its backlog in its turns, and stands still in between.

    Args:
        folder: for logs.
        install: with snapkafka.
        every_s: with a snapshot every so many seconds of its turns; None: with none.
    """

    def __init__(
        self, bootstrap: str, folder: Path, name: str, *, install: bool = True, every_s: float | None = None
    ) -> None:
        self.name = name
        self._bootstrap = bootstrap
        self._install, self._every_s = install, every_s
        self._ran_s = 0.0  # in its turns so far
        self._due_s = 0.0  # when its next snapshot is due
        self._before: Done  # when it was stopped last
        self._app = f"busy-{name}"
        self._out = TopicPartition(f"{self._app}-out", 0)
        self._system = RunningSystem(bootstrap=bootstrap, namespace=self._app, folder=folder)
        self._stack = ExitStack()
        self._worker: psutil.Process

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def _start(self, stack: ExitStack) -> None:
        create_topics(self._bootstrap, f"{self._app}-in", self._out.topic, partitions=1)
        compacted = {"cleanup.policy": "compact"}
        create_topics(self._bootstrap, f"{self._app}-counts-changelog", partitions=1, config=compacted)
        self._feed(stack, f"{self._app}-in")
        self._observer = stack.enter_context(observing(self._bootstrap, self._app))
        stack.callback(self._kill)
        env = {"BUSY_APP_ID": self._app, "SNAPKAFKA": "on" if self._install else "off"}
        # With less to log, as by default, Faust has aiokafka log every record, for its spinner: a sixth of its work.
        self._system.start_worker(
            self._app, env, options=("--without-web", "-l", "info"), module="tests.bench.busy_app"
        )
        self._worker = psutil.Process(self._system.workers[0].pid)
        warm = f"{WARM} events of the worker {self.name}"
        self._system.wait_until(warm, lambda: self.done() >= WARM, timeout_s=LIMIT_S)
        self._worker.send_signal(signal.SIGSTOP)
        self._before = self._so_far()

    def _feed(self, stack: ExitStack, topic: str) -> None:
        """It has something to do; what has to end goes onto the stack."""
        room = {"queue.buffering.max.messages": EVENTS, "queue.buffering.max.kbytes": 2**21 - 1}
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 20} | room)
        for n in range(EVENTS):
            producer.produce(topic, **message(n))
        assert producer.flush(LIMIT_S) == 0, "the backlog was not written"

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _kill(self) -> None:
        for worker in list(self._system.workers):
            self._system.kill(worker)

    def done(self) -> int:
        """How many events it has worked off."""
        return self._observer.call(self._observer.admin.log_ends([self._out]))[self._out]

    def turn(self, seconds: float) -> Done:
        """Let it run. What it has under way when it is stopped counts for its next turn."""
        ran_s, began = self._ran_s, time.monotonic()
        self._worker.send_signal(signal.SIGCONT)
        try:
            while (left := began + seconds - time.monotonic()) > 0:
                if self._every_s is not None and self._ran_s >= self._due_s:
                    self._observer.ask("")
                    self._due_s += self._every_s
                time.sleep(min(left, self._every_s or left))
                self._ran_s = ran_s + time.monotonic() - began
        finally:
            self._worker.send_signal(signal.SIGSTOP)
            self._ran_s = ran_s + time.monotonic() - began
        before, self._before = self._before, self._so_far()
        assert self._before.events < EVENTS, f"the worker {self.name} had nothing to do"
        return self._before - before

    def _so_far(self) -> Done:
        """What it has done in its life."""
        used = self._worker.cpu_times()
        return Done(self._ran_s, self.done(), used.user + used.system)

    def require_captured(self, number: float) -> list[SnapshotView]:
        """Return its snapshots; of fewer than that the figure says little."""
        views = self._observer.state.snapshots.values()
        captured = [view for view in views if view.captured_at is not None]
        assert len(captured) >= number, f"only {len(captured)} snapshots"
        return captured

    def header_bytes(self) -> list[int]:
        """Sizes of our header on some of what it has sent."""
        places = ({self._out: at} for at in range(0, WARM, WARM // 100))
        found = (self._observer.call(self._observer.admin.record_headers(place)) for place in places)
        return [len(wire.find(headers) or b"") for of in found for headers in of.values()]


class Answering(Arm):
    """A worker that has always so many messages under way."""

    def _feed(self, stack: ExitStack, topic: str) -> None:
        self._sender = Sender(self._bootstrap, topic, self._out.topic)
        self._sender.start()
        stack.callback(self._sender.stop)

    def turn(self, seconds: float) -> Done:
        """What is sent in this turn, and answered in it, counts: before, the worker stood still."""
        self._sender.counts_from = self._sender.sent
        try:
            return super().turn(seconds)
        finally:
            self._sender.counts_from = float("inf")

    def taken(self) -> float:
        """p99, in milliseconds, of all turns since this was asked last."""
        took, self._sender.took_ms = self._sender.took_ms, []
        assert len(took) > 1_000, f"only {len(took)} answers of the worker {self.name}"
        return p99(took)


class Sender(threading.Thread):
    """Sends a message for each that was answered. `counts_from`: the number of the first one whose time counts."""

    def __init__(self, bootstrap: str, topic: str, answers: str) -> None:
        super().__init__(daemon=True)
        self.took_ms: list[float] = []
        self.sent, self.counts_from = 0, float("inf")
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        settings = {"bootstrap.servers": bootstrap, "group.id": "none", "fetch.wait.max.ms": 10}
        self._consumer = Consumer(settings)
        self._consumer.assign([KafkaPartition(answers, 0, 0)])
        self._sent_at: dict[int, float] = {}
        self._over = threading.Event()

    def run(self) -> None:
        for _ in range(UNDER_WAY):
            self._send()
        while not self._over.is_set():
            for record in self._consumer.consume(500, 0.02):
                value = record.value()
                if value is not None and record.error() is None:  # a marker has none
                    self._answered(json.loads(value)["n"])
            self._producer.poll(0)
        self._consumer.close()

    def _send(self) -> None:
        number, self.sent = self.sent, self.sent + 1
        self._sent_at[number] = time.monotonic()
        self._producer.produce(self._topic, **message(number))

    def _answered(self, number: int) -> None:
        at = self._sent_at.pop(number, None)
        if at is not None:  # a replay is no answer
            if number >= self.counts_from:
                self.took_ms.append((time.monotonic() - at) * 1000)
            self._send()

    def stop(self) -> None:
        self._over.set()
        self.join(30)


def message(number: int) -> dict[str, Any]:
    return {"key": b"key-%d" % (number % KEYS), "value": b'{"n": %d}' % number}
