"""The order of sends and receipts in a space-time diagram: by their times, as far as causes allow.

Times of records are not a clock: they come from several machines, and some are missing. The certain goes first: a
message is received after it was sent, an event sends after it received, and a partition is a log. Among events that
none of this orders, the earlier time goes first (Kahn's topological sort with a heap).
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, Protocol, TypeAlias

__all__ = ["Event", "in_order"]

#: A message by its number, and whether it is its send ("start") or its receipt ("end").
Event: TypeAlias = tuple[int, str]
START, END = "start", "end"
#: Events of no known time stand where what they depend on lets them.
UNKNOWN: Final = -1


class Timed(Protocol):
    """The fields of a message that order its send and its receipt."""

    @property
    def sender(self) -> int: ...
    @property
    def receiver(self) -> int: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def sent_ms(self) -> int | None: ...
    @property
    def received_ms(self) -> int | None: ...
    @property
    def cause(self) -> tuple[str, int, int] | None: ...


def in_order(messages: Sequence[Timed]) -> list[Event]:
    """Return every send and receipt, each after what it depends on; the same messages give the same order."""
    follows: dict[Event, list[Event]] = defaultdict(list)
    waits: dict[Event, int] = {(i, end): 0 for i in range(len(messages)) for end in (START, END)}
    for before, after in _edges(messages):
        follows[before].append(after)
        waits[after] += 1

    def rank(event: Event) -> tuple[int, str, int, int, str]:
        message = messages[event[0]]
        time = message.sent_ms if event[1] == START else message.received_ms
        place = (message.topic, message.partition, message.offset)
        return (UNKNOWN if time is None else time, *place, "0" if event[1] == START else "1")

    ready = [(rank(event), event) for event, count in waits.items() if not count]
    heapq.heapify(ready)
    found: list[Event] = []
    while ready:
        _, event = heapq.heappop(ready)
        found.append(event)
        for after in follows[event]:
            waits[after] -= 1
            if not waits[after]:
                heapq.heappush(ready, (rank(after), after))
    if len(found) < len(
        waits
    ):  # a forged cause that closes a circle: drawn all the same, in the order of times
        placed = set(found)
        found += sorted((event for event in waits if event not in placed), key=rank)
    return found


def _edges(messages: Sequence[Timed]) -> Iterator[tuple[Event, Event]]:
    """Yield the certain pairs: each is in this order."""
    receipts: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    logs: dict[tuple[str, str, int, int], list[int]] = defaultdict(list)
    for number, message in enumerate(messages):
        yield (number, START), (number, END)
        receipts[message.topic, message.partition, message.offset].append(number)
        logs[START, message.topic, message.partition, message.sender].append(number)
        logs[END, message.topic, message.partition, message.receiver].append(number)
    for (end, *_), numbers in logs.items():
        numbers.sort(key=lambda number: (messages[number].offset, number))
        for before, after in itertools.pairwise(numbers):
            yield (before, end), (after, end)
    for number, message in enumerate(messages):
        for cause in receipts.get(message.cause, ()) if message.cause else ():
            if messages[cause].receiver == message.sender:
                yield (cause, END), (number, START)
