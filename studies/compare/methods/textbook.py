"""The textbook: K. M. Chandy and L. Lamport, Distributed Snapshots, ACM TOCS 3(1), 1985.

Marker sending rule: a process records its state and sends a marker on every outgoing channel before it sends anything
else there. Marker receiving rule: a process that has not recorded its state does so, and records the channel of the
marker as empty; otherwise the state of that channel is the messages on it since then, up to the marker. So the
receiver keeps a copy of every message in between: the rate of the channel times the delay of its marker.

Any process may begin, also several at once: here all learn of the snapshot at nearly the same time, or by a marker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import MARKER_BYTES, Method, Snapshot

if TYPE_CHECKING:
    from studies.compare.process import Channel, Control, Message, Process
    from studies.compare.world import World


class Textbook(Method):
    name = "textbook Chandy-Lamport"
    recovery = "all states and all recorded messages, put back into their channels"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.buffers: dict[int, bytearray] = {}  # messages by channel: the real bytes
        self._open: list[bool] = [False] * len(world.channels)  # is the channel being recorded?
        self._markers_to_come: dict[int, int] = {}  # of the processes that have cut
        self._recording = Snapshot()
        self._busy = len(world.processes)

    def hear(self, process: Process) -> None:
        if process.number not in self._markers_to_come:
            self._cut(process)

    def control(self, process: Process, item: Control) -> None:
        if process.number not in self._markers_to_come:
            self._cut(process)
        self._open[item.channel.number] = False
        self._markers_to_come[process.number] -= 1
        if self._markers_to_come[process.number] == 0:
            self._channels_done(process)

    def receiving(self, process: Process, message: Message) -> None:
        if self._open[message.channel.number]:
            self.buffers[message.channel.number] += message.payload
            self.meter.hold(process.number, "messages", len(message.payload))

    def _cut(self, process: Process) -> None:
        self._markers_to_come[process.number] = len(process.incoming)
        self.record_state(process)
        for channel in process.incoming:
            if self.records(channel):
                self._open[channel.number] = True
                self.buffers[channel.number] = bytearray()
        for channel in process.outgoing:
            self.world.carry_control(channel, None, MARKER_BYTES)
        if not process.incoming:
            self._channels_done(process)

    def records(self, channel: Channel) -> bool:
        """Return whether to record a channel: every one. (A test leaves one out, to see that it is noticed.)"""
        return True

    def record_state(self, process: Process) -> None:
        """Copy the state, which takes a moment."""
        self.state_done(process, self.copy_state(process))

    def state_done(self, process: Process, image: bytes) -> None:
        """Note that the state is being written to storage."""
        self.meter.send("state", len(image))
        self._recording.states[process.number] = image
        self._end()

    def _channels_done(self, process: Process) -> None:
        self._busy -= 1
        for channel in process.incoming:
            self.meter.send("messages", len(self.buffers.get(channel.number, b"")))
        self._end()

    def _end(self) -> None:
        if self._busy == 0 and len(self._recording.states) == len(self.world.processes):
            self._recording.channels = {number: bytes(data) for number, data in self.buffers.items()}
            self._recording.finished_s = self.world.now
            self.snapshot = self._recording
