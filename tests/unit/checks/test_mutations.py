"""Damage to random logs, twenty cases of each kind: found by the right check, at the right offset. And two hundred runs
in which nothing went wrong: none of them is accused. That Spark finds the same: `test_checks_agree`."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import pytest

from snapkafka.checks import (
    KINDS,
    CutView,
    Finding,
    LogRecord,
    Weight,
    bounds_findings,
    in_flight,
    reading_ranges,
    received,
)
from snapkafka.checks.run import LOG_CHECKS, find
from snapkafka.protocol import TopicPartition
from tests.spark.damaged_logs import Damaged
from tests.spark.small_logs import EPOCH, World, captured, history

CASES = 20
HEALTHY = 200


@dataclass
class Case:
    """A history, and what was done to it: `check` has to find it at `place`."""

    world: World
    kind: str = ""
    check: str = ""
    place: tuple[str, int, int] = ("", 0, 0)
    delete_before: tuple[TopicPartition, int] | None = None


Damage = Callable[[random.Random, Case], bool]
White = Callable[[Case], list[LogRecord]]


# -- Kinds of damage: each says whether this history has room for it -------------------------------------------------


def white_of_inputs(case: Case) -> list[LogRecord]:
    """White records of inputs, all of whose seqs have to be there; in the order of the log."""
    return _white(case, {(source.topic, source.partition) for source in case.world.inputs})


def white_of_changelogs(case: Case) -> list[LogRecord]:
    """The same of changelogs, which only their own process writes."""
    return _white(case, {(cut.topic, cut.partition) for cut in case.world.changelogs})


def _white(case: Case, places: set[tuple[str, int]]) -> list[LogRecord]:
    living = {cut.process for cut in case.world.processes if not cut.left}
    return [
        r
        for r in case.world.records
        if r.process in living and r.epoch < EPOCH and not r.marker and r[:2] in places
    ]


def next_of(record: LogRecord, records: list[LogRecord]) -> LogRecord | None:
    """The next one of the same process in the same partition."""
    later = [r for r in records if r[:2] == record[:2] and r.process == record.process]
    return next((r for r in later if r.seq > record.seq), None)


def drop(rng: random.Random, case: Case, white: White) -> bool:
    """A record that its sender counted never came; no offset is missing for it."""
    room = [
        (r, after)
        for r in white(case)
        if (after := next_of(r, white(case))) is not None
        and (before := _before(case, r)) is not None
        and (white is white_of_inputs or _without_holes(case, before, after))
    ]
    if not room:
        return False
    lost, after = rng.choice(room)
    _renumber(case, lost)
    case.check, case.place = "V1", after[:3]
    return True


def _before(case: Case, record: LogRecord) -> LogRecord | None:
    """The one before it. A gap before the first one of a process cannot be seen."""
    earlier = [
        r
        for r in case.world.records
        if r[:2] == record[:2] and r.process == record.process and r.seq < record.seq
    ]
    return max(earlier, key=lambda r: r.seq, default=None)


def _without_holes(case: Case, before: LogRecord, after: LogRecord) -> bool:
    """Where an offset is missing in a changelog, compaction may have taken what is."""
    between = [r for r in case.world.records if r.tp == after.tp and before.offset < r.offset <= after.offset]
    return len(between) == after.offset - before.offset


def _renumber(case: Case, lost: LogRecord) -> None:
    """Its place is taken by the record of a stranger: every offset stays where it is."""
    case.world.records = [
        r._replace(process=-1, epoch=0, seq=-1, cause=None) if r is lost else r for r in case.world.records
    ]


def send_late(rng: random.Random, case: Case, white: White) -> bool:
    """A white record is sent when its sender had closed. (With the seq of an earlier one it would be a copy.)"""
    room = [r for r in white(case) if next_of(r, white(case)) is None]
    if not room:
        return False
    last = rng.choice(room)
    end = case.world.bounds[last.tp].end
    case.world.records.append(last._replace(offset=end, seq=last.seq + 1, cause=None))
    case.world.bounds[last.tp] = replace(case.world.bounds[last.tp], end=end + 1)
    case.check, case.place = "V1", (*last.tp, end)
    return True


def reorder(rng: random.Random, case: Case, white: White) -> bool:
    """Two records of one sender change places. (A seq below that of its first record would be that of a copy.)"""
    room = [
        (r, after)
        for r in white(case)
        if (after := next_of(r, white(case))) is not None and _before(case, r) is not None
    ]
    if not room:
        return False
    one, other = rng.choice(room)
    swapped = {one: one._replace(seq=other.seq), other: other._replace(seq=one.seq)}
    case.world.records = [swapped.get(r, r) for r in case.world.records]
    case.check, case.place = "V1", other[:3]
    return True


def recolour(rng: random.Random, case: Case) -> bool:
    """A record that somebody had received turns out to be red."""
    room = [
        r
        for r in white_of_inputs(case)
        if any(received(s, r.offset) for s in case.world.inputs if (s.topic, s.partition) == r.tp)
    ]
    if not room:
        return False
    red = rng.choice(room)
    case.world.records = [r._replace(epoch=EPOCH, cause=None) if r is red else r for r in case.world.records]
    case.check, case.place = "V2", red[:3]
    return True


def forge_marker(rng: random.Random, case: Case) -> bool:
    """A marker that its sender never sent: the receiver closed the channel at it, and white records came after."""
    room = []
    for item in case.world.recorded:
        after = [
            r
            for r in white_of_inputs(case)
            if r.tp == (item.topic, item.partition)
            and r.process == item.sender
            and item.start < r.offset < item.end
        ]
        externals = [
            r
            for r in case.world.records
            if after and r.tp == after[0].tp and r.process < 0 and item.start <= r.offset < after[-1].offset
        ]
        room += [(item, external, after) for external in externals]
    if not room:
        return False
    item, external, after = rng.choice(room)
    white = next(r for r in after if r.offset > external.offset)
    forged = external._replace(process=item.sender, epoch=EPOCH, seq=white.seq, marker=True)
    case.world.records = [forged if r is external else r for r in case.world.records]
    shorter = replace(item, end=external.offset)
    case.world.recorded = [shorter if one is item else one for one in case.world.recorded]
    case.check, case.place = "V4", white[:3]
    return True


def trim(rng: random.Random, case: Case) -> bool:
    """The first record that was in flight is deleted."""
    room = [
        source
        for source in case.world.inputs
        if any(
            in_flight(source, r.offset) and r.tp == (source.topic, source.partition)
            for r in white_of_inputs(case)
        )
    ]
    if not room:
        return False
    source = rng.choice(room)
    tp = TopicPartition(source.topic, source.partition)
    case.delete_before = (tp, source.position + 1)
    case.check, case.place = "V4", (*tp, source.position)
    return True


def an_older_topic(rng: random.Random, case: Case) -> bool:
    """A topic of that name, but not that one: a copy that was made before."""
    source = rng.choice(case.world.inputs)
    tp = TopicPartition(source.topic, source.partition)
    case.world.inputs = [replace(s, topic_id="00" * 16) if s is source else s for s in case.world.inputs]
    case.check, case.place = "V4", (*tp, 0)
    return True


def recolour_last_of_state(rng: random.Random, case: Case) -> bool:
    """The last change of a table turns out to be red: nothing white supersedes what its place should hold."""
    room = [r for r in white_of_changelogs(case) if next_of(r, white_of_changelogs(case)) is None]
    if not room:
        return False
    (red,) = room
    case.world.records = [r._replace(epoch=EPOCH, cause=None) if r is red else r for r in case.world.records]
    case.check, case.place = "V3", red[:3]
    return True


def recolour_effect(rng: random.Random, case: Case) -> bool:
    """What an event did that counts as done turns out to be red: a record, or a change of a table."""
    steady = {(s.topic, s.partition): s for s in case.world.inputs if s.steady}
    room = [
        r
        for r in white_of_inputs(case) + white_of_changelogs(case)
        if r.cause is not None
        and (source := steady.get(r.cause[0])) is not None
        and source.receiver == r.process
        and not in_flight(source, r.cause[1])
    ]
    if not room:
        return False
    red = rng.choice(room)
    case.world.records = [r._replace(epoch=EPOCH) if r is red else r for r in case.world.records]
    case.check, case.place = "V5", red[:3]
    return True


def trim_state(rng: random.Random, case: Case) -> bool:
    """The first changes of a table are deleted."""
    (cut,) = case.world.changelogs
    if cut.end < 2:
        return False
    start = rng.randint(1, cut.end - 1)
    case.delete_before = (TopicPartition(cut.topic, cut.partition), start)
    case.check, case.place = "V3", (cut.topic, cut.partition, start)
    return True


def an_older_changelog(rng: random.Random, case: Case) -> bool:
    """A changelog of that name, but not that one."""
    (cut,) = case.world.changelogs
    case.world.changelogs = [replace(cut, topic_id="00" * 16)]
    case.check, case.place = "V3", (cut.topic, cut.partition, 0)
    return True


KINDS_OF_DAMAGE: Mapping[str, Damage] = {
    **{
        f"{damage.__name__} in {where}": partial(damage, white=white)
        for damage in (drop, send_late, reorder)
        for where, white in (("an input", white_of_inputs), ("a changelog", white_of_changelogs))
    },
    **{
        damage.__name__: damage
        for damage in (
            recolour,
            recolour_effect,
            recolour_last_of_state,
            forge_marker,
            trim,
            trim_state,
            an_older_topic,
            an_older_changelog,
        )
    },
}


def case_of(rng: random.Random, n: int, kind: str = "") -> Case:
    """A history all of which is read."""
    world = history(rng, n)
    world.inputs = [replace(source, low=0) for source in world.inputs]
    world.old_topics = []  # of what a sender knew before its topic was recreated nothing is judged
    world.bounds = {tp: replace(bounds, topic_id="ff" * 16) for tp, bounds in world.bounds.items()}
    return Case(world, kind=kind)


def found(case: Case) -> list[Finding]:
    world = case.world
    if case.delete_before is not None:
        tp, start = case.delete_before
        world.records = [r for r in world.records if r.tp != tp or r.offset >= start]
        world.bounds[tp] = replace(world.bounds[tp], start=start)
    view = CutView(captured(world), world.bounds)
    log = Damaged(view, world.records, reading_ranges(view)).log
    return [*bounds_findings(view)[0], *(it for check in LOG_CHECKS for it in find(check, log))]


@pytest.mark.parametrize("kind", KINDS_OF_DAMAGE)
def test_found_by_the_right_check_at_the_right_offset(kind: str) -> None:
    seed = random.randrange(10**9)
    rng, made = random.Random(seed), 0
    while made < CASES:
        case = case_of(rng, made + 1, kind)
        if not KINDS_OF_DAMAGE[kind](rng, case):
            continue
        made += 1
        of_case = [it for it in found(case) if KINDS[it.kind].weight is not Weight.NOTE]
        places = [it[1:4] for it in of_case if KINDS[it.kind].check == case.check]
        assert case.place in places, (seed, case.place, of_case)


def test_what_was_not_damaged_is_not_accused() -> None:
    seed = random.randrange(10**9)
    rng = random.Random(seed)
    for n in range(1, HEALTHY + 1):
        accused = [it for it in found(case_of(rng, n)) if KINDS[it.kind].weight is Weight.FAILS]
        assert accused == [], seed
