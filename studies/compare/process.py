"""A process of the simulated world: one thread, a queue, a balance, and a state of real bytes.

Requests and messages are processed one after the other; each takes its service time, and has its effect when it is
started. Markers take none. Everything that a method may do to a process is here as well: hold its requests back, block
a channel, stall it, watch its writes. The duration of each is noted, whichever method did it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Final

from .workload import Request

if TYPE_CHECKING:
    from .world import World

PAGE_BYTES: Final = 4096
START_BALANCE: Final = 1_000_000_000

_SLOT: Final = Struct("<q")
_TRANSFER: Final = Struct("<qq")


class Message:
    """A transfer in flight. `tag` is the stamp of the method, `offset` its place in the log if there is one."""

    __slots__ = ("asked_s", "channel", "number", "offset", "payload", "tag")

    def __init__(self, channel: Channel, number: int, payload: bytes, asked_s: float) -> None:
        self.channel = channel
        self.number = number
        self.payload = payload
        self.asked_s = asked_s
        self.tag: object = 0
        self.offset = -1


class Control:
    """A control item of the method on a channel: a marker, a barrier. `tag` and `offset` as with messages."""

    __slots__ = ("channel", "offset", "tag")

    def __init__(self, channel: Channel, tag: object = None) -> None:
        self.channel = channel
        self.tag = tag
        self.offset = -1


class Channel:
    """A channel from one process to another. `sent`, `received`: numbers of all messages in that order, the true
    history."""

    __slots__ = (
        "blocked_since",
        "capacity",
        "delay_s",
        "kept",
        "number",
        "received",
        "received_slot",
        "receiver",
        "sender",
        "sent",
        "sent_slot",
        "stuck_sender",
        "tail_s",
        "waiting",
    )

    def __init__(self, number: int, sender: Process, receiver: Process, delay_s: float) -> None:
        self.number = number
        self.sender = sender
        self.receiver = receiver
        self.delay_s = delay_s
        self.tail_s = 0.0  # when what was sent last arrives
        self.sent: list[int] = []
        self.received: list[int] = []
        self.sent_slot = sender.new_slot()
        self.received_slot = receiver.new_slot()
        self.waiting = 0  # arrived, not yet taken in
        self.capacity = 0  # so many may wait before the sender has to (0: any number)
        self.stuck_sender = False
        self.blocked_since: float | None = None
        self.kept: deque[Message | Control] = deque()  # what came while it was blocked


class Process:
    """One process of the world."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.outgoing: list[Channel] = []
        self.incoming: list[Channel] = []
        self.balance = START_BALANCE
        self.counts: list[int] = []
        self.image = bytearray()
        self.before_write: Callable[[int], None] | None = None
        self.longest_stop_s = 0.0
        self._queue: deque[Request | Message | Control] = deque()
        self._requests: deque[Request] = deque()
        self._held_since: float | None = None
        self._busy_until_s = 0.0
        self._waking = False
        self._stuck_on: Channel | None = None
        self._plain_pages = 1

    # -- state ------------------------------------------------------------------------------------------------

    def new_slot(self) -> int:
        """Reserve a counter of the state, for a channel."""
        self.counts.append(0)
        return len(self.counts) - 1

    def lay_out(self, size: int) -> None:
        """Create the state as bytes: balance, counters, and pages of which every event writes one."""
        head = -(-8 * (1 + len(self.counts)) // PAGE_BYTES)
        pages = max(head + 1, size // PAGE_BYTES)
        self.image = bytearray(pages * PAGE_BYTES)
        self._plain_pages = head
        _SLOT.pack_into(self.image, 0, self.balance)

    def _effect(self, slot: int, amount: int, number: int) -> None:
        """Write the balance, a counter, and a seemingly random page, as every event does."""
        image = self.image
        page = self._plain_pages + number * 2_654_435_761 % (len(image) // PAGE_BYTES - self._plain_pages)
        if self.before_write is not None:
            for written in (0, 8 * (1 + slot) // PAGE_BYTES, page):
                self.before_write(written)
        self.balance += amount
        count = self.counts[slot] = self.counts[slot] + 1
        _SLOT.pack_into(image, 0, self.balance)
        _SLOT.pack_into(image, 8 * (1 + slot), count)
        image[page * PAGE_BYTES] = number & 0xFF

    # -- work -------------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> None:
        """Take a request from outside."""
        if self._held_since is not None:
            self._requests.append(request)
        else:
            self.offer(request)

    def offer(self, item: Request | Message | Control) -> None:
        """Queue something to work on; start it at once if the process is idle."""
        self._queue.append(item)
        self._work()

    def _work(self) -> None:
        queue, world = self._queue, self.world
        while queue and self._stuck_on is None:
            if self._busy_until_s > world.now:
                if not self._waking:
                    self._waking = True
                    world.at(self._busy_until_s, self._wake, None)
                return
            self._take(queue.popleft())

    def _wake(self, _: object) -> None:
        self._waking = False
        self._work()

    def _take(self, item: Request | Message | Control) -> None:
        world = self.world
        if isinstance(item, Request):
            channel = world.channels[item.edge]
            if channel.capacity and channel.waiting >= channel.capacity:
                self._queue.appendleft(item)
                self._stuck_on = channel
                channel.stuck_sender = True
                return
            self._busy_until_s = world.now + world.service_s
            self._transfer(channel, item)
            return
        channel = item.channel
        if channel.blocked_since is not None:
            channel.kept.append(item)
            world.method.kept(self, item)
        elif isinstance(item, Control):
            world.method.control(self, item)
        else:
            self._receive(channel, item)

    def _transfer(self, channel: Channel, request: Request) -> None:
        world = self.world
        number = world.next_number()
        payload = _TRANSFER.pack(number, request.amount) + world.filler
        message = Message(channel, number, payload, request.time_s)
        world.method.sending(self, message)
        channel.sent.append(number)
        self._effect(channel.sent_slot, -request.amount, number)
        world.method.changed(self, channel.sent_slot)
        world.carry(message, request.delay_s)

    def _receive(self, channel: Channel, message: Message) -> None:
        world = self.world
        if channel.capacity:
            channel.waiting -= 1
            if channel.stuck_sender and channel.waiting < channel.capacity:
                channel.stuck_sender = False
                world.at(world.now, channel.sender.room, None)
        world.method.receiving(self, message)
        self._busy_until_s = max(self._busy_until_s, world.now) + world.service_s
        number, amount = _TRANSFER.unpack_from(message.payload)
        channel.received.append(number)
        self._effect(channel.received_slot, amount, number)
        world.method.changed(self, channel.received_slot)
        if message.asked_s >= world.trigger_s:
            asked = (message.asked_s, channel.number)
            world.latencies_s[asked] = self._busy_until_s - message.asked_s

    def room(self, _: object) -> None:
        """Continue after the channel on which this process could not send has room again."""
        self._stuck_on = None
        self._work()

    # -- what a method may do ---------------------------------------------------------------------------------

    def stall(self, seconds: float) -> None:
        """Start nothing for so long."""
        self._busy_until_s = max(self._busy_until_s, self.world.now) + seconds
        self.longest_stop_s = max(self.longest_stop_s, seconds)

    def hold_requests(self) -> None:
        """Let external requests wait, in their order; also those that came and were not started."""
        if self._held_since is not None:
            return
        self._held_since = self.world.now
        self._requests.extend(item for item in self._queue if isinstance(item, Request))
        self._queue = deque(item for item in self._queue if not isinstance(item, Request))
        if self._stuck_on is not None:
            self._stuck_on.stuck_sender = False
            self._stuck_on = None
            self._work()

    def release_requests(self) -> None:
        if self._held_since is not None:
            self.longest_stop_s = max(self.longest_stop_s, self.world.now - self._held_since)
            self._held_since = None
            self._queue.extend(self._requests)
            self._requests.clear()
            self._work()

    def block(self, channel: Channel) -> None:
        """Hold the items of this channel, in their order."""
        channel.blocked_since = self.world.now

    def unblock(self) -> None:
        """Let all channels continue."""
        for channel in self.incoming:
            if channel.blocked_since is not None:
                self.longest_stop_s = max(self.longest_stop_s, self.world.now - channel.blocked_since)
                channel.blocked_since = None
                self._queue.extend(channel.kept)
                channel.kept.clear()
        self._work()

    @property
    def idle(self) -> bool:
        """Whether it has done everything that it was asked for."""
        return not (self._queue or self._requests or any(channel.kept for channel in self.incoming))
