"""What a restore writes, and where agents start after it. Pure.

State: a changelog is folded, and the records that it lacks are appended. Whatever the log holds, was compacted or has
lost, and whatever an earlier attempt has written: the difference from the rows of the cut is what is missing. An erased
key that the log has is a removal. After the append the same difference is empty: the log has gained these records and
no others, or it is folded again, and the first difference that is left fails the run. Memory holds 32 bytes per key, of
one partition at a time. A table of sets gets a record for each member, never one update of many, which Faust cannot
read if the table has a `value_type`, and never a tombstone.

Positions: what was in flight is appended again after the present end of the partition, the *base*. All records below a
base are older than the restore. New positions are offsets after the base. Source of the design: a trial with real
workers; docs/guide/restore.md lists the fault that each part prevents.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Any, Final, NamedTuple

from snapkafka.kafka.records.read import KafkaRecord
from snapkafka.protocol.captured_snapshot import Captured, ChangelogCut, InputCut
from snapkafka.protocol.records import AgentPosition, LogEnd, Position, Restore, TopicId, TopicPartition
from snapkafka.wire import headers as wire

#: Rows of positions and ends in a record: each takes at most 300 bytes, and a record at most 256 KB.
ROWS_PER_RECORD: Final = 500

#: The offset of a record to append; and its time, if that is the time of the append.
NEW: Final = -1


class Appended(NamedTuple):
    """A record of an input that was appended again: its old offset, and the new one."""

    old: int
    new: int


def parts_of(captured: Captured) -> list[InputCut | ChangelogCut]:
    return [*captured.inputs, *captured.changelogs]


def apps_of(captured: Captured) -> tuple[str, ...]:
    return tuple(sorted({part.app for part in parts_of(captured)}))


def inputs_of(captured: Captured) -> dict[TopicPartition, list[InputCut]]:
    """Group the inputs by partition: several apps may read one."""
    found: dict[TopicPartition, list[InputCut]] = defaultdict(list)
    for cut in captured.inputs:
        found[TopicPartition(cut.topic, cut.partition)].append(cut)
    return dict(sorted(found.items()))


def changelogs_of(captured: Captured) -> dict[TopicPartition, ChangelogCut]:
    """Index the changelogs by partition; for that of a global table, which each process reports, the highest end
    counts."""
    by_end = sorted(captured.changelogs, key=lambda cut: cut.end)
    return {TopicPartition(cut.topic, cut.partition): cut for cut in by_end}


def _agents(cut: InputCut) -> Sequence[Position]:
    """List the positions of its agents; an input without agents has one without a name."""
    nobody = Position(agent="", topic=cut.topic, partition=cut.partition, offset=cut.position)
    return cut.agents or (nobody,)


def lowest_positions(captured: Captured) -> dict[TopicPartition, int]:
    """Find the lowest position of any agent of any app, per input partition."""
    return {
        tp: min(agent.offset for cut in cuts for agent in _agents(cut))
        for tp, cuts in inputs_of(captured).items()
    }


def started_by_all(captured: Captured, tp: TopicPartition) -> set[int]:
    """Find the offsets above the lowest position that every agent of every app has started."""
    agents = [agent for cut in inputs_of(captured).get(tp, ()) for agent in _agents(cut)]
    above = {offset for agent in agents for offset in agent.started_above}
    return {
        offset for offset in above if all(offset < it.offset or offset in it.started_above for it in agents)
    }


def renamed(captured: Captured, named: Callable[[str], str]) -> Captured:
    """Translate the apps, inputs and changelogs of a cut to other names."""

    def other(it: Any, **more: Any) -> Any:
        return dataclasses.replace(it, topic=named(it.topic), **more)

    def part(cut: Any, **more: Any) -> Any:
        return other(cut, app=named(cut.app), topic_id="", **more)

    inputs = tuple(part(cut, agents=tuple(map(other, cut.agents))) for cut in captured.inputs)
    return dataclasses.replace(captured, inputs=inputs, changelogs=tuple(map(part, captured.changelogs)))


def moved(position: Position, base: int, appended: Iterable[Appended]) -> tuple[int, tuple[int, ...]]:
    """Translate a position to the log after `base`; return the first offset that is not started, and later ones that
    are. Others may append there meanwhile: every record that the agent had not started is still to be started."""
    above = frozenset(position.started_above)
    started = {item.new for item in appended if item.old < position.offset or item.old in above}
    offset = base
    while offset in started:
        offset += 1
    return offset, tuple(sorted(new for new in started if new > offset))


def new_positions(
    captured: Captured,
    ends: Mapping[TopicPartition, int],
    appended: Mapping[TopicPartition, Sequence[Appended]],
) -> tuple[AgentPosition, ...]:
    """Compute where each agent of each app starts: after the base (`ends`) of an input to which records were appended,
    else where it stood."""
    return tuple(
        AgentPosition(
            app=cut.app,
            agent=agent.agent,
            topic=tp.topic,
            partition=tp.partition,
            offset=offset,
            started_above=above,
        )
        for tp, cuts in inputs_of(captured).items()
        for cut in cuts
        for agent in _agents(cut)
        for offset, above in [
            moved(agent, ends[tp], appended[tp]) if tp in appended else (agent.offset, agent.started_above)
        ]
    )


def group_offsets(positions: Iterable[AgentPosition]) -> dict[str, dict[TopicPartition, int]]:
    """Compute the offsets that the group of each app commits: the lowest position of its agents (a group has one per
    input)."""
    found: dict[str, dict[TopicPartition, int]] = defaultdict(dict)
    for item in positions:
        tp = TopicPartition(item.topic, item.partition)
        found[item.app][tp] = min(item.offset, found[item.app].get(tp, item.offset))
    return dict(found)


def spread(
    template: Restore,
    ends: Mapping[TopicPartition, int],
    positions: Sequence[AgentPosition] = (),
    topics: Mapping[str, str] | None = None,
) -> Iterator[Restore]:
    """Spread the ends, positions and topic ids of a record over as many records as the ledger takes."""
    rows: list[LogEnd | AgentPosition | TopicId] = [
        *(LogEnd(topic=tp.topic, partition=tp.partition, end=end) for tp, end in sorted(ends.items())),
        *positions,
        *(TopicId(topic=topic, topic_id=topic_id) for topic, topic_id in sorted((topics or {}).items())),
    ]
    chunks = [rows[at : at + ROWS_PER_RECORD] for at in range(0, len(rows), ROWS_PER_RECORD)] or [[]]
    for number, chunk in enumerate(chunks):
        yield dataclasses.replace(
            template,
            n=template.n + number,
            ends=tuple(row for row in chunk if isinstance(row, LogEnd)),
            positions=tuple(row for row in chunk if isinstance(row, AgentPosition)),
            topics=tuple(row for row in chunk if isinstance(row, TopicId)),
            part=number,
            parts=len(chunks),
        )


#: The first part of a key in the changelog of a table of sets (`faust.tables.sets`); 15 updates many members.
ADD: Final = 1
DISCARD: Final = 2
#: Bytes of a hash; shorter data stands for itself. At four billion keys two have the same with a chance of 1 in 2^65.
HASH_BYTES: Final = 16

Hash = bytes


class Unit(NamedTuple):
    """What a record says of a key, or of a member of a set: then `key` is the set and `member` the member, both as
    JSON. A value of None removes it."""

    key: bytes
    member: str
    value: bytes | None
    identity: Hash

    def __str__(self) -> str:
        key = self.key.decode("utf-8", "backslashreplace")
        return f"member {self.member} of set {key}" if self.member else f"key {key}"

    def record(self, tp: TopicPartition, *, removed: bool = False) -> KafkaRecord:
        """Build the record that says this, or that it is removed."""
        key, value = self.key, None if removed else self.value
        if self.member:
            key, value = b"[%d,%s]" % (DISCARD if removed else ADD, key), self.member.encode("ascii")
        return KafkaRecord(*tp, NEW, key, value, (), NEW)


def units(key: bytes | None, value: bytes | None, cut: ChangelogCut) -> Iterator[Unit]:
    """Take a record of a changelog, or a row, apart; nothing comes of what Faust cannot read."""
    if key is None:
        return
    if not cut.sets:
        yield Unit(key, "", value, _hash(key))
        return
    try:
        kind, of = json.loads(key)
        change = json.loads(value or b"")
    except (ValueError, TypeError):
        return
    match kind, change:
        case 1, _:
            added, removed = [change], []
        case 2, _:
            added, removed = [], [change]
        case 15, [list() as added, list() as removed]:
            pass
        case _:
            return
    for part, content in ((added, b""), (removed, None)):
        for member in part:
            identity = _hash(_text([_whole(of), _whole(member)]).encode())
            yield Unit(_text(of).encode(), _text(member), content, identity)


def fold(
    records: Iterable[KafkaRecord],
    cut: ChangelogCut,
    is_void: Callable[[KafkaRecord], bool] = lambda record: False,
) -> dict[Hash, Hash]:
    """Fold a changelog partition without void records; return the values by keys, as hashes."""
    found: dict[Hash, Hash] = {}
    for record in records:
        if _is_marker(record) or is_void(record):
            continue
        for unit in units(record.key, record.value, cut):
            if unit.value is None:
                found.pop(unit.identity, None)
            else:
                found[unit.identity] = _hash(unit.value)
    return found


class Difference(NamedTuple):
    """A key that the log lacks ("missing"), has with another value ("different") or should not have
    ("unexpected"), and the record that changes that."""

    kind: str
    unit: Unit
    record: KafkaRecord


def differences(
    rows: Iterable[KafkaRecord],
    read: Callable[[TopicPartition], Iterable[KafkaRecord]],
    cuts: Mapping[TopicPartition, ChangelogCut],
    is_void: Callable[[KafkaRecord], bool] = lambda record: False,
) -> Iterator[Difference]:
    """Find what changelogs need to fold to the rows: of each partition first what it lacks, then removals.

    Args:
        rows: of all of them, in the order of partitions.
        read: reads a changelog; twice if something is to be removed: hashes do not tell keys.
    """
    groups = ((tp, of) for tp, of in groupby(rows, key=lambda row: row[:2]) if tp in cuts)
    upcoming = next(groups, None)
    for tp, cut in sorted(cuts.items()):
        folded = fold(read(tp), cut, is_void)
        if upcoming is not None and upcoming[0] == tp:
            yield from _lacking(tp, upcoming[1], folded, cut)
            upcoming = next(groups, None)
        for record in read(tp) if folded else ():
            for unit in units(record.key, record.value, cut) if not _is_marker(record) else ():
                if folded.pop(unit.identity, None) is not None:
                    yield Difference("unexpected", unit, unit.record(tp, removed=True))
    assert upcoming is None, f"rows of {upcoming[0]} come out of order"


def _lacking(
    tp: TopicPartition, rows: Iterable[KafkaRecord], folded: dict[Hash, Hash], cut: ChangelogCut
) -> Iterator[Difference]:
    """Find the rows of a partition that its log lacks, or has otherwise; leave the others of the log in `folded`."""
    members: set[Hash] = set()  # masks may make several equal
    for row in rows:
        for unit in units(row.key, row.value, cut):
            if unit.value is None or unit.identity in members:
                continue
            if cut.sets:
                members.add(unit.identity)
            there = folded.pop(unit.identity, None)
            if there != _hash(unit.value):
                yield Difference("missing" if there is None else "different", unit, unit.record(tp))


def _is_marker(record: KafkaRecord) -> bool:
    return wire.is_marker(record.key, record.headers)


def _text(value: Any) -> str:
    """Format JSON so that equal values have equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _whole(value: Any) -> Any:
    """Return 1 for 1.0, everywhere in a value: they are one member to a set of Python."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_whole(item) for item in value]
        case dict():
            return {name: _whole(item) for name, item in value.items()}
    return value


def _hash(data: bytes) -> Hash:
    return data if len(data) < HASH_BYTES else blake2b(data, digest_size=HASH_BYTES).digest()
