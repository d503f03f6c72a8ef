"""The methods: each works in the simulated world as in a real one, and is metered."""

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
