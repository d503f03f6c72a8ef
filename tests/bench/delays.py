"""How long an event takes, end to end, where the worker has all it can do: with a snapshot every second and without.

The workers and turns of `busy`, but so many messages are always under way: for each that comes out another one goes in.
What is measured is what who sends would see: from where it hands a message to its producer until it has the answer.
"""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import ExitStack
from typing import Any, Final

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from tests.bench.busy import KEYS, Arm, Done, three
from tests.bench.figures import Figure, figure, p99

PAIRS, TURNS, TURN_S = 20, 6, 2.0
#: So many messages are under way: a worker whose queues are shorter waits for the broker now and then.
UNDER_WAY: Final = int(os.environ.get("BENCH_UNDER_WAY", "1000"))


def bench_latency() -> list[Figure]:
    """How long an event of a busy worker takes with a snapshot every second, by without snapkafka."""
    ratios, cores = [], []
    with three(_Answering) as (without, idle, snapshots):
        arms = without, idle, snapshots
        for _ in range(PAIRS):
            turns: list[Done] = []
            for number in range(TURNS):
                first = number % len(arms)
                turns += [arm.turn(TURN_S) for arm in arms[first:] + arms[:first]]
            took = {arm: arm.taken() for arm in arms}
            ratios.append(took[snapshots] / took[without])
            cores += [done.cpu_s / done.seconds for done in turns]
        snapshots.require_captured(TURN_S * TURNS * PAIRS * 0.8)
    return [
        figure("latency_p99_ratio", ratios, "ratio", bar=1.05),
        figure("latency_worker_core", cores, "cores", bar=0.95, at_most=False),
    ]


class _Answering(Arm):
    """A worker that has always so many messages under way."""

    def _feed(self, stack: ExitStack, topic: str) -> None:
        self._sender = _Sender(self._bootstrap, topic, self._out.topic)
        self._sender.start()
        stack.callback(self._sender.stop)

    def turn(self, seconds: float = TURN_S) -> Done:
        """What is sent in this turn, and answered in it, counts: before, the worker stood still."""
        with self._sender.counting():
            return super().turn(seconds)

    def taken(self) -> float:
        """p99, in milliseconds, of all turns since this was asked last."""
        took, self._sender.took_ms = self._sender.took_ms, []
        assert len(took) > 1_000, f"only {len(took)} answers of the worker {self.name}"
        return p99(took)


class _Sender(threading.Thread):
    """Sends a message for each that was answered."""

    def __init__(self, bootstrap: str, topic: str, answers: str) -> None:
        super().__init__(daemon=True)
        self.took_ms: list[float] = []
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "none", "fetch.wait.max.ms": 10}
        )
        self._consumer.assign([KafkaPartition(answers, 0, 0)])
        self._sent: dict[int, float] = {}
        self._next = 0
        self._from: float = float("inf")  # number of the first message that counts
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
        number, self._next = self._next, self._next + 1
        self._sent[number] = time.monotonic()
        self._producer.produce(self._topic, key=b"key-%d" % (number % KEYS), value=b'{"n": %d}' % number)

    def _answered(self, number: int) -> None:
        sent = self._sent.pop(number, None)
        if sent is not None:  # a replay is no answer
            if number >= self._from:
                self.took_ms.append((time.monotonic() - sent) * 1000)
            self._send()

    def counting(self) -> Any:
        """Messages that are sent from here on count, as far as they are answered until this is over."""
        stack = ExitStack()
        self._from = self._next
        stack.callback(setattr, self, "_from", float("inf"))
        return stack

    def stop(self) -> None:
        self._over.set()
        self.join(30)
