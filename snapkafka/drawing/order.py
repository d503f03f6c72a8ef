"""The order of sends and receipts in a space-time diagram: by their times, as far as causes allow.

Times of records are not a clock: they come from several machines, and some are missing. Certain facts come first: a
message is received after it was sent, an event sends after it received, and a partition is a log. Among events that
none of these orders, the earlier time comes first (Kahn's topological sort with a heap).
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

#: A message by its number, and whether it is its send ("start") or its receipt ("end").
Event: TypeAlias = tuple[int, str]
START, END = "start", "end"
#: Events of no known time stand where what they depend on lets them.
UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMessage:
    """A message near the cut. `kind`: "in-flight" across it; "backward", received and not sent; "received" before it;
    "later", sent after it; "waiting", an external one from before it that was not received yet; or "marker".

    `sent_ms`: milliseconds since 1970, None: unknown. `cause`: topic, partition and offset of the
    message whose event sent it.
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
    cause: tuple[str, int, int] | None = None


def in_order(messages: Sequence[DrawnMessage]) -> list[Event]:
    """Return every send and receipt, each after those on which it depends; the same messages give the same order."""
    follows: dict[Event, list[Event]] = defaultdict(list)
    waits: dict[Event, int] = {(i, end): 0 for i in range(len(messages)) for end in (START, END)}
    for before, after in _edges(messages):
        follows[before].append(after)
        waits[after] += 1

    def rank(event: Event) -> tuple[int, str, int, int, str]:
        message = messages[event[0]]
        place = (message.topic, message.partition, message.offset)
        at = UNKNOWN if message.sent_ms is None else message.sent_ms
        return (at, *place, "0" if event[1] == START else "1")

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
