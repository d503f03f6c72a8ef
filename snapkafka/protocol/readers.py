"""The readers of inputs: the latest `Assigned` names the present one (R9)."""

from __future__ import annotations

from typing import Final, NamedTuple

from .records import NOBODY, TopicPartition

#: An input, or a table partition: the app that has it, and where.
Input = tuple[str, TopicPartition]

#: Earlier readers of an input that are remembered: those whose work may still be found in front of a position. Where
#: there were more (a worker that crashes at one record again and again), the others are `UNKNOWN`, and any process may
#: have been one of them.
KEEP_EARLIER: Final = 64


class Reader(NamedTuple):
    """A process to which an input was assigned, the ledger offset of its latest `Assigned` with it, and the generation
    of its group then."""

    process: int
    offset: int
    generation: int


#: Stands for readers that nobody remembers.
UNKNOWN: Final = Reader(NOBODY, NOBODY, NOBODY)


def add_reader(readers: tuple[Reader, ...], latest: Reader) -> tuple[Reader, ...]:
    """Return the readers of an input with a new one: the present reader is the last of them."""
    earlier = tuple([reader for reader in readers if reader.process != latest.process])
    if len(earlier) > KEEP_EARLIER:
        earlier = (UNKNOWN, *earlier[1 - KEEP_EARLIER :])
    return (*earlier, latest)
