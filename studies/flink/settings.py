"""What both sides have in common."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

#: Of every topic; Flink's parallelism, too.
PARTITIONS: Final = 2
#: Whatever is awaited happens by then: a million keys take minutes on a busy machine.
LIMIT_S: Final = 600.0


class Taken(NamedTuple):
    """The snapshots or checkpoints of a turn: how long each took, and the bytes that each copied."""

    milliseconds: list[float]
    bytes_each: float


class Side(Protocol):
    """A running pipeline from `NAME-in` over `NAME-mid` to `NAME-out`."""

    name: str

    def trigger(self) -> None:
        """Ask for a snapshot or a checkpoint."""

    def begin(self) -> None:
        """Begin a turn."""

    def taken(self) -> Taken:
        """Wait for what was triggered in this turn, and return it."""
