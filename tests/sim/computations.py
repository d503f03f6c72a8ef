"""Computations as sequences of atomic steps, which can be reordered and replayed (Dijkstra, EWD 864).

A step belongs to a process; it may receive a message, write to a table, send a message. A red step right before a white
one is an *inversion*; if the two do not depend on each other they may change places, and nothing else changes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Channel = tuple[str, str]


class Act(NamedTuple):
    """One step. `event`: what it is a part of. `write`: key and value."""

    process: str
    event: str
    receive: tuple[Channel, str] | None = None
    write: tuple[str, str] | None = None
    send: tuple[Channel, str] | None = None


@dataclass
class State:
    """Tables of all processes, contents of all channels (those that ever held something)."""

    tables: dict[str, dict[str, str]] = field(default_factory=dict)
    channels: dict[Channel, list[str]] = field(default_factory=dict)

    def apply(self, act: Act, *, fifo: bool) -> None:
        """The step happens; it must be able to."""
        if act.receive is not None:
            channel, message = act.receive
            queue = self.channels.get(channel, [])
            assert message in queue, f"{message} cannot be received: it is not in {channel}"
            assert not fifo or queue[0] == message, f"{message} is not the head of {channel}"
            queue.remove(message)
        if act.write is not None:
            key, value = act.write
            self.tables.setdefault(act.process, {})[key] = value
        if act.send is not None:
            channel, message = act.send
            self.channels.setdefault(channel, []).append(message)

    def plain(self, *, fifo: bool) -> tuple[object, object]:
        """To be compared: without empty channels; without an order in channels that have none."""
        channels = {c: tuple(q if fifo else sorted(q)) for c, q in self.channels.items() if q}
        return {process: table for process, table in self.tables.items() if table}, channels


def replay(acts: Sequence[Act], *, fifo: bool) -> State:
    """The state after these steps, from nothing."""
    state = State()
    for act in acts:
        state.apply(act, fifo=fifo)
    return state


def independent(first: Act, second: Act) -> bool:
    """May two neighbours change places?"""
    if first.send is not None and first.send == second.receive:
        return False
    if first.process != second.process:
        return True
    if first.event == second.event:
        return False
    same_key = first.write is not None and second.write is not None and first.write[0] == second.write[0]
    return not same_key


def swaps(acts: Sequence[Act], white: Sequence[bool]) -> Iterator[list[Act]]:
    """Take away one inversion after the other; every sequence on the way, the last has all white steps first."""
    order = list(zip(acts, white, strict=True))
    at = 0
    while at < len(order) - 1:
        (first, first_white), (second, second_white) = order[at], order[at + 1]
        if not first_white and second_white:
            assert independent(first, second), f"{first} and {second} depend on each other: no consistent cut"
            order[at], order[at + 1] = order[at + 1], order[at]
            yield [act for act, _ in order]
            at = max(at - 1, 0)
        else:
            at += 1


def passes_through(
    acts: Sequence[Act], white: Sequence[bool], recorded: State, *, fifo: bool, from_: int = 0, to: int = -1
) -> int:
    """Dijkstra's proof, done: swap every inversion, replay each time; the number of swaps.

    The computation stays possible, ends in the same state, and the last one passes through `recorded`. Nothing before
    `from_` and from `to` on is moved: the snapshot lies between them.
    """
    end = replay(acts, fifo=fifo).plain(fifo=fifo)
    to = len(acts) if to < 0 else to
    order, count = list(acts), 0
    for order in swaps(acts, white):
        count += 1
        assert replay(order, fifo=fifo).plain(fifo=fifo) == end
    assert order[:from_] == list(acts[:from_])
    assert order[to:] == list(acts[to:])
    at = sum(white)
    assert from_ <= at <= to
    assert replay(order[:at], fifo=fifo).plain(fifo=fifo) == recorded.plain(fifo=fifo)
    return count


def states(acts: Sequence[Act], *, fifo: bool) -> Iterator[State]:
    """The state before each step, and after the last."""
    state = State()
    yield copy.deepcopy(state)
    for act in acts:
        state.apply(act, fifo=fifo)
        yield copy.deepcopy(state)
