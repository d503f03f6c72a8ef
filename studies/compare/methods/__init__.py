"""The methods: each does in the simulated world what it does in a real one, and is metered while it does."""

from typing import Final

from .alignment import Alignment
from .base import Method, Nothing, Snapshot
from .fork import Fork
from .observer import Observer
from .offsets import Offsets
from .stop import StopTheWorld
from .textbook import Textbook

__all__ = [
    "METHODS",
    "Alignment",
    "Fork",
    "Method",
    "Nothing",
    "Observer",
    "Offsets",
    "Snapshot",
    "StopTheWorld",
    "Textbook",
]

#: In the order of the table.
METHODS: Final[tuple[type[Method], ...]] = (StopTheWorld, Textbook, Alignment, Observer, Fork, Offsets)
