"""Inputs that are held back for an aligned snapshot (R16): nothing of them starts until the machine lets them go.

The client pauses a held partition. A record that it had fetched already is put back: its partition is sought to it. So
nothing is kept here, and a seek of the loop's own, a rebalance or a crash finds each partition as it would have been.
A partition that the loop has paused itself stays paused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from snapkafka.protocol.records import TopicPartition

if TYPE_CHECKING:
    from ..process import Process

Act = Callable[[list[TopicPartition]], object]


class HeldInputs:
    """The inputs of one loop that are held back.

    Attributes:
        times: how often everything was let go; a decision from before that has to be asked for again.
    """

    def __init__(self, host: Process) -> None:
        self._host, self._lock = host, host.lock
        self.times = 0
        self._since: dict[TopicPartition, float] = {}
        self._paused: set[TopicPartition] = set()  # here
        self._by_loop: set[TopicPartition] = set()  # paused by the loop itself

    def __bool__(self) -> bool:
        return bool(self._since)

    def holds(self, tp: TopicPartition) -> bool:
        """Return whether nothing of this input may start."""
        return tp in self._since

    def hold(self, tp: TopicPartition, times: int) -> None:
        """Hold an input back from a record on, unless everything was let go since the machine was asked about it."""
        with self._lock:
            if times == self.times:
                self._since.setdefault(tp, time.perf_counter())

    def hold_all(self) -> None:
        """Hold all inputs back."""
        for tp in self._host.machine.positions.inputs():
            self.hold(tp, self.times)

    def let_go(self) -> None:
        """Let everything go on."""
        with self._lock:
            self.times += 1
            for since in self._since.values():
                self._host.metrics.observe("alignment", time.perf_counter() - since)
            self._since.clear()

    def apply(self, *, pause: Act, resume: Act) -> None:
        """Let the client pause what is held back, and resume what is not any more."""
        if not self._since and not self._paused:
            return
        with self._lock:
            to_pause = sorted(self._since.keys() - self._paused)
            to_resume = sorted(self._paused - self._since.keys() - self._by_loop)
            self._paused = set(self._since)
        if to_pause:
            pause(to_pause)
        if to_resume:
            resume(to_resume)

    def forget(self) -> list[TopicPartition]:
        """Forget what is paused: the inputs are revoked. Return what was paused here."""
        with self._lock:
            paused, self._paused = sorted(self._paused), set()
            self._by_loop.clear()
        return paused

    def paused_by_loop(self, tps: Iterable[TopicPartition]) -> None:
        """Note that the loop pauses partitions."""
        with self._lock:
            self._by_loop.update(tps)

    def resumed_by_loop(self, tps: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Note that the loop resumes partitions; return those that are held back, and stay paused until let go."""
        with self._lock:
            resumed = set(tps)
            self._by_loop -= resumed
            return resumed & self._paused
