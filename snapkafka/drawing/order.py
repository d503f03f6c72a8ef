"""The order of sends and receipts in a space-time diagram: by their times, as far as causes allow.

Times of records are not a clock: they come from several machines, and some are missing. Certain facts come first: a
message is received after it was sent, an event sends after it received, and a partition is a log. Among events that
none of these orders, the earlier time comes first (Kahn's topological sort with a heap).

With a second cut, the points of both cuts are events of their processes, too: events left of a cut come before its
point. An order of partitions that contradicts this (an event started out of turn, a clock that ran back) is left out.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

#: A message by its number, and whether it is its send ("start") or its receipt ("end"); or a process, and which of its
#: cuts ("cut", "wall").
Event: TypeAlias = tuple[int, str]
START, END = "start", "end"
CUT, WALL = "cut", "wall"
#: Events of no known time stand where what they depend on lets them.
UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMessage:
    """A message near the cut. `kind`: "in-flight" across it; "backward", received and not sent; "received" before it;
    "later", sent after it; "waiting", an external one from before it that was not received yet; or "marker".

    `sent_ms`, `received_ms`: milliseconds since 1970, None: unknown. `cause`: topic, partition and offset of the
    message whose event sent it. `at_cut`: in a picture with a wall-clock cut, `kind` refers to that one, and this to
    the snapshot's own.
    """

    kind: str
    sender: int
    receiver: int
    topic: str
    partition: int
    offset: int = -1
    key: str = ""
    value: str = ""
    what: str = ""
    sent_ms: int | None = None
    received_ms: int | None = None
    cause: tuple[str, int, int] | None = None
    at_cut: str = ""


@dataclass(frozen=True, slots=True)
class Division:
    """A cut through lines: its time at each process, and the `sides` of it on which each message is sent, and received
    ("left", "right")."""

    name: str
    times: Mapping[int, int]
    sides: Sequence[tuple[str, str]]


def in_order(messages: Sequence[DrawnMessage], divisions: Sequence[Division] = ()) -> list[Event]:
    """Return every send, receipt and point of a cut, each after those on which it depends; the same messages give the
    same order."""
    follows: dict[Event, list[Event]] = defaultdict(list)
    waits: dict[Event, int] = {(i, end): 0 for i in range(len(messages)) for end in (START, END)}
    times: dict[Event, int] = {}
    for division in divisions:
        times |= {(process, division.name): at for process, at in division.times.items()}
    waits |= dict.fromkeys(times, 0)
    certain = (pair for pair in _edges(messages) if not any(_contradicts(pair, one) for one in divisions))
    for before, after in itertools.chain(certain, *(_about(messages, one) for one in divisions)):
        follows[before].append(after)
        waits[after] += 1

    def rank(event: Event) -> tuple[int, str, int, int, str]:
        if event in times:
            return (times[event], event[1], event[0], 0, "")
        message = messages[event[0]]
        time = message.sent_ms if event[1] == START else message.received_ms
        place = (message.topic, message.partition, message.offset)
        return (UNKNOWN if time is None else time, *place, "0" if event[1] == START else "1")

    ready = [(rank(event), event) for event, count in waits.items() if not count]
    heapq.heapify(ready)
    found: dict[Event, None] = {}
    while len(found) < len(waits):
        if not ready:  # a forged cause closes a circle: drawn all the same, the earliest first
            earliest = min((event for event in waits if event not in found), key=rank)
            ready.append((rank(earliest), earliest))
        _, event = heapq.heappop(ready)
        if event in found:
            continue
        found[event] = None
        for after in follows[event]:
            waits[after] -= 1
            if not waits[after]:
                heapq.heappush(ready, (rank(after), after))
    return list(found)


def _side(event: Event, division: Division) -> str:
    return division.sides[event[0]][event[1] == END]


def _contradicts(pair: tuple[Event, Event], division: Division) -> bool:
    """Return whether both are events of one process, the first of them right of its cut and the second left of it."""
    (before, first), (after, second) = pair
    of_one = before != after or first == second
    return of_one and _side(pair[0], division) == "right" and _side(pair[1], division) == "left"


def _about(messages: Sequence[DrawnMessage], division: Division) -> Iterator[tuple[Event, Event]]:
    """Yield the order of each send and receipt and the point of its process."""
    for number, message in enumerate(messages):
        for event, process in (((number, START), message.sender), ((number, END), message.receiver)):
            if process in division.times:
                point = (process, division.name)
                yield (event, point) if _side(event, division) == "left" else (point, event)


def _edges(messages: Sequence[DrawnMessage]) -> Iterator[tuple[Event, Event]]:
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
