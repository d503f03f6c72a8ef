"""Forwarding to an observer: colours on messages instead of markers, and one node that collects.

T. H. Lai and T. H. Yang, On Distributed Snapshots, IPL 25(3), 1987: each message carries the colour of its sender, and
a process turns red before it takes in a red one; so messages may overtake each other. F. Mattern, Efficient Algorithms
for Distributed Snapshots, JPDC 18(4), 1993: a red process that takes in a white message sends a copy to the observer,
and the numbers of white messages sent minus those received, summed over all cuts, show how many are still to come.

No process keeps anything; instead every message in flight goes over the network once more, to one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import CALL_BYTES, Method, Snapshot

if TYPE_CHECKING:
    from studies.compare.process import Message, Process
    from studies.compare.world import World

#: A forwarded message says which channel it comes from.
CHANNEL_BYTES = 8
RED = 1


class Observer(Method):
    name = "forwarding to an observer"
    recovery = "all states and all forwarded messages, put back into their channels"
    tag_bytes = 1

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._red: list[bool] = [False] * len(world.processes)
        self._node = len(world.processes)  # the observer's
        self._deficit = 0  # white messages that the observer knows of and has not seen
        self._buffers: dict[int, bytearray] = {channel.number: bytearray() for channel in world.channels}
        self._recording = Snapshot()

    def hear(self, process: Process) -> None:
        self._turn(process)

    def sending(self, process: Process, message: Message) -> None:
        message.tag = RED if self._red[process.number] else 0

    def receiving(self, process: Process, message: Message) -> None:
        if message.tag == RED:
            self._turn(process)
        elif self._red[process.number]:
            self.meter.send("messages", CHANNEL_BYTES + len(message.payload))
            self.world.call(0, self._forwarded, message)

    def _turn(self, process: Process) -> None:
        if self._red[process.number]:
            return
        self._red[process.number] = True
        image = self.copy_state(process)
        sent = sum(len(channel.sent) for channel in process.outgoing)
        received = sum(len(channel.received) for channel in process.incoming)
        self.meter.send("state", len(image))
        self.world.call(CALL_BYTES, self._state_arrived, (process.number, image, sent - received))

    # -- at the observer --------------------------------------------------------------------------------------

    def _state_arrived(self, cut: tuple[int, bytes, int]) -> None:
        number, image, balance = cut
        self._recording.states[number] = image
        self.meter.hold(self._node, "state", len(image))
        self._deficit += balance
        self._end()

    def _forwarded(self, message: Message) -> None:
        self._buffers[message.channel.number] += message.payload
        self.meter.hold(self._node, "messages", len(message.payload))
        self._deficit -= 1
        self._end()

    def _end(self) -> None:
        if self._deficit == 0 and len(self._recording.states) == len(self.world.processes):
            self._recording.channels = {number: bytes(data) for number, data in self._buffers.items()}
            self._recording.finished_s = self.world.now
            self.snapshot = self._recording
