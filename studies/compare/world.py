"""The simulated world: processes, channels, and one queue of events in the order of time.

Nothing here reads a clock, and nothing is random except what the workload's seed decided beforehand; so a run is the
same each time, and two methods meet the very same requests and delays.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from .meter import Meter
from .process import Channel, Control, Message, Process
from .workload import DELAY_S, MESSAGE_BYTES_MIN, Workload

if TYPE_CHECKING:
    from .methods.base import Method

_NEVER: Final = float("inf")


class World:
    """A run of one workload with one method."""

    def __init__(self, load: Workload, method: type[Method]) -> None:
        self.load = load
        self.now = 0.0
        self.service_s = load.service_s
        self.trigger_s = load.trigger_s
        self.filler = b"\xa5" * (load.message_bytes - MESSAGE_BYTES_MIN)
        self.latencies_s: dict[tuple[float, int], float] = {}  # by time of asking and channel
        self.sent_since_trigger = 0
        self.meter = Meter(load.nodes + 1)
        self.processes = [Process(self, number) for number in range(load.nodes)]
        self.channels = [
            Channel(number, self.processes[edge.sender], self.processes[edge.receiver], edge.delay_s)
            for number, edge in enumerate(load.edges)
        ]
        for channel in self.channels:
            channel.sender.outgoing.append(channel)
            channel.receiver.incoming.append(channel)
        for process in self.processes:
            process.lay_out(load.state_bytes)
        self._heap: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._events = 0
        self._messages = 0
        self._chance = random.Random(f"method {load.seed}")
        self.method = method(self)
        for process, hears_s in zip(self.processes, load.hears_s, strict=True):
            self.at(self.trigger_s + hears_s, self.method.hear, process)

    def run(self) -> None:
        """Run until nothing moves any more."""
        heap, requests, channels = self._heap, self.load.requests, self.channels
        coming = iter(requests)
        request = next(coming, None)
        while True:
            at_s = request.time_s if request is not None else _NEVER
            if heap and heap[0][0] <= at_s:
                self.now, _, action, argument = heappop(heap)
                action(argument)
            elif request is not None:
                self.now = at_s
                channels[request.edge].sender.ask(request)
                request = next(coming, None)
            else:
                return

    def at(self, time_s: float, action: Callable[[Any], None], argument: Any) -> None:
        """Call `action(argument)` at that time; calls for the same time happen in the order of the requests."""
        self._events += 1
        heappush(self._heap, (time_s, self._events, action, argument))

    def next_number(self) -> int:
        """Return the next number: messages are numbered in the order of their sending."""
        self._messages += 1
        return self._messages

    def carry(self, item: Message | Control, delay_s: float) -> None:
        """Put an item on its channel; it arrives after earlier ones, if channels are FIFO."""
        channel = item.channel
        due_s = self.now + delay_s
        if self.load.fifo:
            due_s = channel.tail_s = max(due_s, channel.tail_s)
        if self.now >= self.trigger_s and isinstance(item, Message):
            self.sent_since_trigger += 1
        self.at(due_s, self._arrive, item)

    def carry_control(self, channel: Channel, tag: object, size: int) -> Control:
        """Put a marker on a channel: `size` bytes, with the delay of the channel, after what was sent before."""
        item = Control(channel, tag)
        self.meter.send("control", size)
        jitter = 0.0 if self.load.fifo else 20.0 * self._chance.random() * DELAY_S
        self.carry(item, channel.delay_s + jitter)
        return item

    def call(self, size: int, action: Callable[[Any], None], argument: Any) -> None:
        """Send a message of the method outside the channels, to a coordinator or from it, without a channel's delay."""
        self.meter.send("control", size)
        self.at(self.now + DELAY_S, action, argument)

    def _arrive(self, item: Message | Control) -> None:
        channel = item.channel
        if channel.capacity and isinstance(item, Message):
            channel.waiting += 1
        self.method.arrived(item)
        channel.receiver.offer(item)

    @property
    def idle(self) -> bool:
        """Whether everything that was requested has happened."""
        return all(process.idle for process in self.processes)
