"""Stop the world: all processes stop sending, the channels run empty, the states are copied, all continue.

The oldest method, still used as "drain it, then back it up". A coordinator learns from each process how many messages
it has sent on each channel, and informs the receiver, which reports when it has received them all. When all have,
nothing is in flight and the states alone are the global state. Counting needs no order of messages, and works with
cycles; but for as long as the slowest channel takes, no process may begin anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import CALL_BYTES, Method, Snapshot

if TYPE_CHECKING:
    from studies.compare.process import Channel, Process
    from studies.compare.world import World

#: A channel's number and how many messages were sent on it.
COUNT_BYTES = 16


class StopTheWorld(Method):
    name = "stop-the-world"
    recovery = "all states"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._known: list[int] = [0] * len(world.processes)  # counts that each receiver knows
        self._expected: list[int] = [0] * len(world.processes)  # and their sum
        self._to_come: dict[int, int] = {}  # messages that a process which knows all counts still waits for
        self._drained = 0
        self._copied = 0
        self._recording = Snapshot()

    def hear(self, process: Process) -> None:
        process.hold_requests()
        counts = [(channel, len(channel.sent)) for channel in process.outgoing]
        size = CALL_BYTES + COUNT_BYTES * len(counts)
        self.world.call(size, self._stopped, counts)
        if not process.incoming:
            self._to_come[process.number] = 0
            self.world.call(CALL_BYTES, self._empty, process)

    def _stopped(self, counts: list[tuple[Channel, int]]) -> None:
        """Handle the counts of a stopped process, at the coordinator."""
        for expected in counts:
            self.world.call(CALL_BYTES, self._expect, expected)

    def _expect(self, expected: tuple[Channel, int]) -> None:
        """Handle the expected count of a channel, at the receiver."""
        channel, count = expected
        process = channel.receiver
        self._known[process.number] += 1
        self._expected[process.number] += count
        if self._known[process.number] == len(process.incoming):
            received = sum(len(incoming.received) for incoming in process.incoming)
            self._to_come[process.number] = self._expected[process.number] - received
            self._say_if_drained(process)

    def changed(self, process: Process, slot: int) -> None:
        if process.number in self._to_come:
            self._to_come[process.number] -= 1
            self._say_if_drained(process)

    def _say_if_drained(self, process: Process) -> None:
        if self._to_come[process.number] == 0:
            self.world.call(CALL_BYTES, self._empty, process)

    def _empty(self, process: Process) -> None:
        """Note, at the coordinator, that a process has received everything that was sent to it."""
        self._drained += 1
        if self._drained == len(self.world.processes):
            for each in self.world.processes:
                self.world.call(CALL_BYTES, self._copy, each)

    def _copy(self, process: Process) -> None:
        image = self._recording.states[process.number] = self.copy_state(process)
        self.meter.send("state", len(image))
        self.world.at(self.world.now + self.copying_s(len(image)), self._say_copied, process)

    def _say_copied(self, process: Process) -> None:
        self.world.call(CALL_BYTES, self._go_on, process)

    def _go_on(self, process: Process) -> None:
        """Let all processes continue when all have copied their states, at the coordinator."""
        self._copied += 1
        if self._copied == len(self.world.processes):
            self._recording.finished_s = self.world.now
            self.snapshot = self._recording
            self._to_come.clear()
            for each in self.world.processes:
                self.world.call(CALL_BYTES, self._release, each)

    def _release(self, process: Process) -> None:
        process.release_requests()
