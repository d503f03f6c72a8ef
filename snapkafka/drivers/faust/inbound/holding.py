"""Inputs that are held back for an aligned snapshot (R16): nothing of them starts until the machine lets them go.

Faust looks a partition's callback up for each record, so a partition is held by another callback in its place; who is
not held pays nothing. That one keeps the records. Faust's own mark for a full buffer stops the fetching, so a partition
keeps no more than Faust had fetched already. Records that wait in the queue of an agent are taken out of it, and put
back. What is kept is not acknowledged: after a crash or a rebalance it is read again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from snapkafka.protocol.events import InputsReleased
from snapkafka.protocol.records import HeldInput

if TYPE_CHECKING:
    from ..host import Host

Callback = Callable[[Any], Awaitable[Any]]


class HeldPartition:
    """A partition that is held back: its own callback, and its records in their order."""

    def __init__(self, callback: Callback, buffer_full: Callable[[], None]) -> None:
        self.callback = callback
        self.records: deque[Any] = deque()
        self.since = time.perf_counter()
        self.going = False  # the records are being taken in
        self._buffer_full = buffer_full

    async def keep(self, message: Any) -> None:
        """Stand in for the callback: keep a record. Room in an agent's queue may have started the fetching again."""
        self.records.append(message)
        if not self.going:
            self._buffer_full()


class HeldInputs:
    """The inputs of one worker that are held back.

    Args:
        conductor: Faust's `app.topics`.
    """

    def __init__(self, host: Host, conductor: Any) -> None:
        self._host, self._conductor = host, conductor
        self._partitions: dict[Any, HeldPartition] = {}
        self._queues: dict[Any, list[Any]] = {}  # of agents -> what waited in them

    def hold(self, tp: Any, message: Any) -> None:
        """Hold a record back, and all that follows it in its partition."""
        held = self._hold(tp)
        if held.going:
            held.going = False  # the snapshot after that one
            held.records.appendleft(message)
        else:
            held.records.append(message)

    def hold_all(self) -> None:
        """Hold all inputs back, also what waits for its agent."""
        inputs = {*self._host.machine.positions.inputs()}
        for tp in [tp for tp in self._conductor._tp_to_callback if tp in inputs]:
            self._hold(tp)
            for channel in self._conductor._tp_index.get(tp, ()):
                waiting = channel.queue._queue
                if channel.queue not in self._queues and waiting:
                    self._queues[channel.queue] = list(waiting)
                    waiting.clear()

    def let_go(self, epoch: int) -> None:
        """Let everything go on in its order."""
        if not self._partitions:
            return
        now = time.perf_counter()
        inputs = tuple(
            HeldInput(topic=tp.topic, partition=tp.partition, held_us=round((now - held.since) * 1_000_000))
            for tp, held in sorted(self._partitions.items())
            if not held.going
        )
        for held_input in inputs:
            self._host.metrics.held_s.add(held_input.held_us / 1_000_000)
        self._put_back()
        for tp, held in self._partitions.items():
            if not held.going:
                held.going = True
                self._host.spawn(self._go_on(tp, held))
        self._host.feed(InputsReleased(epoch=epoch, inputs=inputs))

    def forget(self) -> None:
        """Forget what is held: the inputs are revoked, and it will be read again."""
        self._queues.clear()
        for tp, held in self._partitions.items():
            held.records.clear()
            self._restore(tp, held)
        self._partitions.clear()

    def _hold(self, tp: Any) -> HeldPartition:
        callbacks = self._conductor._tp_to_callback
        held = self._partitions.get(tp)
        if held is None:
            consumer = self._host.app.consumer
            held = HeldPartition(callbacks[tp], lambda: consumer.on_buffer_full(tp))
            self._partitions[tp] = held
            callbacks[tp] = held.keep
            consumer.on_buffer_full(tp)
        elif held.going:
            held.since = time.perf_counter()
        return held

    def _put_back(self) -> None:
        queues, self._queues = self._queues, {}
        for queue, waited in queues.items():
            for event in waited:
                queue.force_put_nowait(event)
                queue._unfinished_tasks -= 1  # it counted when it was put there first

    async def _go_on(self, tp: Any, held: HeldPartition) -> None:
        """Take in what was kept, record by record; what arrives meanwhile stays behind it."""
        while held.going and held.records:
            await held.callback(held.records.popleft())
        if held.going and self._partitions.get(tp) is held:
            del self._partitions[tp]
            self._restore(tp, held)

    def _restore(self, tp: Any, held: HeldPartition) -> None:
        callbacks = self._conductor._tp_to_callback
        if callbacks.get(tp) == held.keep:
            callbacks[tp] = held.callback
        self._host.app.consumer.on_buffer_drop(tp)
