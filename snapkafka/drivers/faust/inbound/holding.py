"""Inputs that are held back for an aligned snapshot (R16): nothing of them starts until the machine lets them go.

Faust looks a partition's callback up for each record, so a partition is held by another callback in its place; who is
not held pays nothing. That one keeps the records. Faust's own mark for a full buffer stops the fetching, so a partition
keeps no more than Faust had fetched already. The queues of agents are closed: what waits in them, and what is still on
its way there, stays in its order. What is kept is not acknowledged: after a crash or a rebalance it is read again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from ...process import Process

Callback = Callable[[Any], Awaitable[Any]]


class ClosedQueue(deque[Any]):
    """The items of an agent's queue while it is closed: for its reader it is empty."""

    def __bool__(self) -> bool:
        return False


class HeldPartition:
    """A partition that is held back.

    Attributes:
        callback: its own.
        records: what is kept, in its order.
        going: the records are being taken in, by `task`; `current` is the last one that was.
    """

    def __init__(self, callback: Callback, buffer_full: Callable[[], None]) -> None:
        self.callback = callback
        self.records: deque[Any] = deque()
        self.current: Any = None
        self.since = time.perf_counter()
        self.going = False
        self.task: asyncio.Task[None] | None = None
        self._buffer_full = buffer_full

    async def keep(self, message: Any) -> None:
        """Stand in for the callback: keep a record. Room in an agent's queue may have started the fetching again."""
        self.records.append(message)
        if not self.going:
            self._buffer_full()


class HeldInputs:
    """The inputs of one worker that are held back."""

    def __init__(self, driver: Process) -> None:
        self._driver = driver
        self._partitions: dict[Any, HeldPartition] = {}
        self._queues: set[Any] = set()  # of agents, that are closed

    def hold(self, tp: Any, message: Any) -> None:
        """Hold a record back, and all that follows it in its partition."""
        held = self._hold(tp)
        if message is held.current:
            held.records.appendleft(message)  # it was just let go, and has to wait for another snapshot
        else:
            held.records.append(message)

    def hold_all(self) -> None:
        """Hold all inputs back, also what waits for its agent."""
        inputs, conductor = {*self._driver.machine.positions.inputs()}, self._driver.app.topics
        for tp in [tp for tp in conductor._tp_to_callback if tp in inputs]:
            self._hold(tp)
            for channel in conductor._tp_index.get(tp, ()):
                if channel.queue not in self._queues:
                    channel.queue._queue = ClosedQueue(channel.queue._queue)
                    self._queues.add(channel.queue)

    def let_go(self) -> None:
        """Let everything go on in its order."""
        if not self._partitions:
            return
        now = time.perf_counter()
        self._open_queues()
        for tp, held in self._partitions.items():
            if not held.going:
                self._driver.metrics.observe("alignment", now - held.since)
                held.going = True
                if held.task is None or held.task.done():  # otherwise it still waits with a record
                    held.task = self._driver.spawn(self._go_on(tp, held))

    def forget(self) -> None:
        """Forget what is held: the inputs are revoked, and it will be read again."""
        for queue in self._queues:
            queue._queue.clear()
        self._open_queues()
        for tp, held in self._partitions.items():
            if held.task is not None:
                held.task.cancel()  # as Faust does with its own callback
            held.records.clear()
            self._restore(tp, held)
        self._partitions.clear()

    def _hold(self, tp: Any) -> HeldPartition:
        callbacks = self._driver.app.topics._tp_to_callback
        held = self._partitions.get(tp)
        if held is None:
            consumer = self._driver.app.consumer
            held = HeldPartition(callbacks[tp], lambda: consumer.on_buffer_full(tp))
            self._partitions[tp] = held
            callbacks[tp] = held.keep
            consumer.on_buffer_full(tp)
        elif held.going:
            held.going, held.since = False, time.perf_counter()
        return held

    def _open_queues(self) -> None:
        queues, self._queues = self._queues, set()
        for queue in queues:
            queue._queue = deque(queue._queue)
            for _ in queue._queue:
                queue._wakeup_next(queue._getters)

    async def _go_on(self, tp: Any, held: HeldPartition) -> None:
        """Take in what was kept, record by record; what arrives meanwhile stays behind it. An error of Faust's crashes
        its consumer, as it would have without us."""
        try:
            while held.going and held.records:
                held.current = held.records.popleft()
                await held.callback(held.current)
        except Exception as error:
            await self._driver.app.consumer.crash(error)
            return
        if held.going and self._partitions.get(tp) is held:
            del self._partitions[tp]
            self._restore(tp, held)

    def _restore(self, tp: Any, held: HeldPartition) -> None:
        callbacks = self._driver.app.topics._tp_to_callback
        if callbacks.get(tp) == held.keep:
            callbacks[tp] = held.callback
        self._driver.app.consumer.on_buffer_drop(tp)
