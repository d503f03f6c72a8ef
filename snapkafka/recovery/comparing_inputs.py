"""The inputs of a stopped system, compared with a snapshot: the starts of agents, and the unread messages."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.records import AgentPosition, TopicPartition
from snapkafka.protocol.restores import Rule
from snapkafka.wire import headers as wire

from .comparing import HASH_BYTES, NAMED_MAX

# --- Positions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionDifference:
    """An agent that starts at a wrong position. `expected`, `found`: the first offset that it takes, and later ones
    that it skips; `found` is None if its group has no committed offset. `agent` is empty for an input without one."""

    app: str
    agent: str
    topic: str
    partition: int
    expected: int
    expected_above: tuple[int, ...] = ()
    found: int | None = None
    found_above: tuple[int, ...] = ()

    def __str__(self) -> str:
        who = f"agent {self.agent} of app {self.app}" if self.agent else f"app {self.app}"
        there = "nothing" if self.found is None else _start(self.found, self.found_above)
        return (
            f"position of {who} in {self.topic}[{self.partition}] is {there},"
            f" expected {_start(self.expected, self.expected_above)}"
        )


def _start(offset: int, above: tuple[int, ...]) -> str:
    return f"{offset} without {', '.join(map(str, above))}" if above else str(offset)


def compare_positions(
    expected: Iterable[AgentPosition],
    committed: Mapping[str, Mapping[TopicPartition, int]],
    rules: Callable[[str, TopicPartition], Mapping[str, Rule]] = lambda app, tp: {},
) -> Iterator[PositionDifference]:
    """Compare the expected starts of agents with their actual ones; yield each difference.

    Args:
        committed: the offsets of each app's group; below 0: none.
        rules: of an app's agents in an input (`Restores.rules`); an agent that is not named takes all records from the
            committed offset on.
    """
    for it in expected:
        tp = TopicPartition(it.topic, it.partition)
        wanted = Rule(it.offset, frozenset(it.started_above)).start(0)
        offset = committed.get(it.app, {}).get(tp, -1)
        found = rules(it.app, tp).get(it.agent, Rule(0)).start(offset) if offset >= 0 else None
        if found != wanted:
            yield PositionDifference(
                app=it.app,
                agent=it.agent,
                topic=it.topic,
                partition=it.partition,
                expected=wanted.offset,
                expected_above=tuple(sorted(wanted.started_above)),
                found=None if found is None else found.offset,
                found_above=() if found is None else tuple(sorted(found.started_above)),
            )


# --- Messages in flight ---------------------------------------------------------------------------------------------


class ChannelComparison(NamedTuple):
    """The expected unread messages in an input partition, and the actual ones, both in the order of the log."""

    tp: TopicPartition
    expected: Sequence[KafkaRecord]
    unread: Iterable[KafkaRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDifference:
    """A message that differs. `kind`: "missing", "unexpected", "twice" or "out of order". `old`: its offset at the cut,
    `new`: in the log; -1: it has none. `key`: of the record."""

    kind: str
    topic: str
    partition: int
    old: int
    new: int
    key: str

    def __str__(self) -> str:
        places = [f"at offset {self.new}"] * (self.new >= 0) + [f"of offset {self.old} at the cut"] * (
            self.old >= 0
        )
        verb = "is there twice" if self.kind == "twice" else f"is {self.kind}"
        return f"message {' '.join(places)} in {self.topic}[{self.partition}], key {self.key}, {verb}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedChannel:
    """The compared messages in flight of an input partition. `messages`: the expected number. `pairs`: the offsets of
    each found one, at the cut and in the log. `differences` names the first of `differing`."""

    topic: str
    partition: int
    messages: int
    pairs: tuple[tuple[int, int], ...]
    differing: int = 0
    differences: tuple[MessageDifference, ...] = ()


def compare_in_flight(
    channel: ChannelComparison, *, timed: bool = True, named: int = NAMED_MAX
) -> ComparedChannel:
    """Compare the expected unread messages of a partition with the actual ones: key, value, headers, timestamp.

    Args:
        channel: only records of the apps and of restores: no marker, and no void or external record.
        timed: whether records keep their timestamps (`message.timestamp.type=CreateTime`).
        named: the number of differences to name.
    """
    timed = timed and all(record.timestamp_ms >= 0 for record in channel.expected)
    olds: defaultdict[bytes, deque[int]] = defaultdict(deque)  # content -> places among the expected
    for place, record in enumerate(channel.expected):
        olds[_content(record, timed=timed)].append(place)
    known = frozenset(olds)
    expected = channel.expected
    matched: list[tuple[int, KafkaRecord]] = []
    found: list[tuple[str, int, int, bytes | None]] = []
    for record in channel.unread:
        content = _content(record, timed=timed)
        if places := olds.get(content):
            matched.append((places.popleft(), record))
        else:
            found.append(("twice" if content in known else "unexpected", -1, record.offset, record.key))
    in_order = _longest_rising([place for place, _ in matched])
    for number, (place, record) in enumerate(matched):
        if number not in in_order:
            found.append(("out of order", expected[place].offset, record.offset, record.key))
    for place in sorted(place for places in olds.values() for place in places):
        found.append(("missing", expected[place].offset, -1, expected[place].key))
    topic, partition = channel.tp
    return ComparedChannel(
        topic=topic,
        partition=partition,
        messages=len(expected),
        pairs=tuple(sorted((expected[place].offset, record.offset) for place, record in matched)),
        differing=len(found),
        differences=tuple(
            MessageDifference(
                kind=kind,
                topic=topic,
                partition=partition,
                old=old,
                new=new,
                key="null" if key is None else key.decode("utf-8", "backslashreplace"),
            )
            for kind, old, new, key in found[:named]
        ),
    )


def _content(record: KafkaRecord, *, timed: bool) -> bytes:
    """Hash the parts of a record that a receiver sees. A record with timestamp 0 is appended again with 1."""
    own = [
        (name, value if value is None else value.hex()) for name, value in wire.without_header(record.headers)
    ]
    at_ms = max(1, record.timestamp_ms) if timed else None
    sides = [side if side is None else side.hex() for side in (record.key, record.value)]
    content = json.dumps([*sides, own, at_ms]).encode()
    return blake2b(content, digest_size=HASH_BYTES).digest()


def _longest_rising(places: Sequence[int]) -> set[int]:
    """Find a longest rising sequence; return the indexes of its parts."""
    tails: list[int] = []  # the least last place of a sequence of each length
    ends: list[int] = []  # its index
    before: list[int] = []
    for index, place in enumerate(places):
        at = bisect_left(tails, place)
        tails[at : at + 1] = [place]
        ends[at : at + 1] = [index]
        before.append(ends[at - 1] if at else -1)
    found = set()
    index = ends[-1] if ends else -1
    while index >= 0:
        found.add(index)
        index = before[index]
    return found
