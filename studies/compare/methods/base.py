"""The interface of every method, and its result: real bytes of states and of channels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from studies.compare.process import Control, Message, Process
    from studies.compare.world import World

#: A request or an answer of a coordinator: kind, snapshot, process, a number each.
CALL_BYTES: Final = 32
#: A marker of a method that has no form of its own: snapshot and sender.
MARKER_BYTES: Final = 16

#: Speeds of a real machine: memory is copied at 4 GB/s; durable storage takes 200 MB/s from one node.
COPY_BYTES_S: Final = 4e9
STORAGE_BYTES_S: Final = 200e6


@dataclass(slots=True)
class Snapshot:
    """The recording of a method: images of states by process, messages by channel, in order."""

    states: dict[int, bytes] = field(default_factory=dict)
    channels: dict[int, bytes] = field(default_factory=dict)
    finished_s: float = 0.0


class Method(ABC):
    """A method of taking a snapshot. The world calls it; it records, holds, and sends through the world, and so is
    metered.

    Attributes:
        name: as printed in the table.
        recovery: the needs of a recovery.
        tag_bytes: the bytes that it adds to every message at all times, not only during a snapshot.
    """

    name: ClassVar[str]
    recovery: ClassVar[str]
    tag_bytes: ClassVar[int] = 0

    def __init__(self, world: World) -> None:
        self.world = world
        self.meter = world.meter
        self.snapshot: Snapshot | None = None

    @abstractmethod
    def hear(self, process: Process) -> None:
        """Handle the request for a snapshot, which this process has received."""

    def sending(self, process: Process, message: Message) -> None:  # noqa: B027 -- most have nothing to do here
        """Handle a message that is about to leave."""

    def arrived(self, item: Message | Control) -> None:  # noqa: B027 -- most have nothing to do here
        """Handle an item that came out of its channel and joins the queue of the receiver."""

    def receiving(self, process: Process, message: Message) -> None:  # noqa: B027 -- most have nothing to do here
        """Handle a message that is about to be taken in."""

    def changed(self, process: Process, slot: int) -> None:  # noqa: B027 -- most have nothing to do here
        """Handle the effect of an event on the state."""

    def kept(self, process: Process, item: Message | Control) -> None:  # noqa: B027 -- most have nothing to do here
        """Handle an item that came on a blocked channel."""

    def control(self, process: Process, item: Control) -> None:  # noqa: B027 -- most have nothing to do here
        """Handle a marker that was reached."""

    def stuck(self) -> str:
        """Explain why there is no snapshot although nothing moves any more."""
        return "it does not end"

    # -- what several need ------------------------------------------------------------------------------------

    def copy_state(self, process: Process) -> bytes:
        """Copy the state at once: the process stops for as long as copying takes."""
        image = bytes(process.image)
        process.stall(self.copying_s(len(image)))
        self.meter.hold(process.number, "state", len(image))
        return image

    def copying_s(self, size: int) -> float:
        """Return the time to copy so many bytes in memory."""
        return size / (COPY_BYTES_S * self.world.load.scale)

    def storing_s(self, size: int) -> float:
        """Return the time that the storage takes for so many bytes of one node."""
        return size / (STORAGE_BYTES_S * self.world.load.scale)


class Nothing(Method):
    """No snapshot: the baseline of the comparison."""

    name = "none"
    recovery = ""

    def hear(self, process: Process) -> None:
        pass
