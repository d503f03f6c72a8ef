"""Barrier alignment: P. Carbone et al., Lightweight Asynchronous Snapshots for Distributed Dataflows, 2015 (ABS).

A coordinator puts a barrier into the external input. A process that has met the barrier on one input reads that one no
further until it has met it on all of them; then it records its state, passes the barrier on, and continues. All
messages sent before the barriers are in the states, so no channel is recorded. The price is waiting: messages on a
blocked channel are kept in its buffers, and when these are full the sender has to wait, and so do its own senders.

On a cycle each process waits for the barrier of its predecessor, which waits in turn: it never ends. The paper cuts
loops open and records the messages on their back edges, as the textbook does; Apache Flink takes no exactly-once
snapshot of an iterative job (FLINK-3257 and FLIP-16, which would have changed that, were abandoned; pull request 812
lets one force it and loses the records inside the loop).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from studies.compare.process import Message

from .base import MARKER_BYTES, Method, Snapshot

if TYPE_CHECKING:
    from studies.compare.process import Control, Process
    from studies.compare.world import World

#: Buffers of one channel: Flink's default, two network buffers of 32 KB for each.
BUFFER_BYTES: Final = 65_536
#: A scaled-down buffer still takes in a few messages.
CAPACITY_MIN: Final = 8


class Alignment(Method):
    name = "barrier alignment"
    recovery = "all states, and sources that can be read again from the barrier"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        capacity = max(CAPACITY_MIN, int(BUFFER_BYTES * world.load.scale / world.load.message_bytes))
        for channel in world.channels:
            channel.capacity = capacity
        self._heard: set[int] = set()
        self._came: dict[int, set[int]] = {process.number: set() for process in world.processes}
        self._recording = Snapshot()

    def hear(self, process: Process) -> None:
        """Queue the coordinator's barrier with the external requests: they wait like any input."""
        process.hold_requests()
        self._heard.add(process.number)
        self._align(process)

    def control(self, process: Process, item: Control) -> None:
        process.block(item.channel)
        self._came[process.number].add(item.channel.number)
        self._align(process)

    def kept(self, process: Process, item: Message | Control) -> None:
        assert isinstance(item, Message), "one barrier per channel"
        self.meter.hold(process.number, "messages", len(item.payload))

    def _align(self, process: Process) -> None:
        if process.number not in self._heard or len(self._came[process.number]) < len(process.incoming):
            return
        image = self._recording.states[process.number] = self.copy_state(process)
        self.meter.send("state", len(image))
        for channel in process.outgoing:
            self.world.carry_control(channel, None, MARKER_BYTES)
        self.meter.hold(process.number, "messages", -self.meter.held(process.number, "messages"))
        process.unblock()
        process.release_requests()
        if len(self._recording.states) == len(self.world.processes):
            self._recording.finished_s = self.world.now
            self.snapshot = self._recording

    def stuck(self) -> str:
        """Describe the chain of waiting processes, each waiting for the barrier of the next."""
        waiting = [p for p in self.world.processes if p.number not in self._recording.states]
        path = [waiting[0].number]
        while True:
            came = self._came[path[-1]]
            process = self.world.processes[path[-1]]
            before = next(c.sender.number for c in process.incoming if c.number not in came)
            if before in path:
                names = " waits for ".join(str(number) for number in [*path[path.index(before) :], before])
                return f"does not end: {names}"
            path.append(before)
