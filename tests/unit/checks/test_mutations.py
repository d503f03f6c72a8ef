"""Damage to random logs, twenty cases of each kind: found by the right check, at the right offset. And two hundred runs
in which nothing went wrong: none of them is accused. That Spark finds the same: `test_checks_agree`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import pytest

from snapkafka.checks import (
    KINDS,
    CutView,
    Finding,
    LogBounds,
    LogRecord,
    Weight,
    bounds_findings,
    in_flight,
    reading_ranges,
    received,
)
from snapkafka.checks.run import LOG_CHECKS, find
from snapkafka.protocol import Recorded, TopicPartition
from tests.spark.damaged_logs import Damaged
from tests.spark.small_logs import EPOCH, World, captured, history

CASES = 20
HEALTHY = 200


@dataclass
class Case:
    """A history. `deleted`: what lies below these offsets is."""

    world: World
    deleted: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def white_of_inputs(self) -> list[LogRecord]:
        """White records of inputs, all of whose seqs have to be there; in the order of the log."""
        return self._white({(source.topic, source.partition) for source in self.world.inputs})

    @property
    def white_of_changelogs(self) -> list[LogRecord]:
        """The same of changelogs, which only their own process writes."""
        return self._white({(cut.topic, cut.partition) for cut in self.world.changelogs})

    def _white(self, places: set[tuple[str, int]]) -> list[LogRecord]:
        living = {cut.process for cut in self.world.processes if not cut.left}
        records = (r for r in self.world.records if r.process in living and r[:2] in places)
        return [r for r in records if r.epoch < EPOCH and not r.marker]

    def put(self, new: dict[LogRecord, LogRecord]) -> None:
        """Put other records in the place of some."""
        self.world.records = [new.get(r, r) for r in self.world.records]

    def take(self, start: int, tp: TopicPartition) -> None:
        self.deleted[tp] = start


class Damage(NamedTuple):
    """What can be done to a history: the check that finds it, and where."""

    check: str
    place: tuple[str, int, int]
    do: Callable[[], object]


def next_of(record: LogRecord, records: list[LogRecord]) -> LogRecord | None:
    """The next one of the same process in the same partition."""
    later = (r for r in records if r[:2] == record[:2] and r.process == record.process)
    return next((r for r in later if r.seq > record.seq), None)


def before(record: LogRecord, records: list[LogRecord]) -> LogRecord | None:
    """The one before it. A gap before the first one of a process cannot be seen."""
    earlier = (r for r in records if r[:2] == record[:2] and r.process == record.process)
    return max((r for r in earlier if r.seq < record.seq), key=lambda r: r.seq, default=None)


def pairs(case: Case, white: list[LogRecord]) -> Iterator[tuple[LogRecord, LogRecord, LogRecord]]:
    """Three in a row of one sender."""
    for record in white:
        one, two = before(record, case.world.records), next_of(record, white)
        if one is not None and two is not None:
            yield one, record, two


def external(record: LogRecord) -> LogRecord:
    """The record of a stranger in its place: every offset stays where it is."""
    return record._replace(process=-1, epoch=0, seq=-1, cause=None)


def drop(case: Case, white: list[LogRecord], *, holes: bool = True) -> Iterator[Damage]:
    """A record that its sender counted never came; no offset is missing for it. (Where one is missing in a changelog,
    compaction may have taken what is.)"""
    for one, lost, two in pairs(case, white):
        between = (r for r in case.world.records if r.tp == two.tp and one.offset < r.offset <= two.offset)
        if holes or len(list(between)) == two.offset - one.offset:
            yield Damage("V1", two[:3], partial(case.put, {lost: external(lost)}))


def send_late(case: Case, white: list[LogRecord]) -> Iterator[Damage]:
    """A white record is sent when its sender had closed. (With the seq of an earlier one it would be a copy.)"""
    for last in (r for r in white if next_of(r, white) is None):
        bounds = case.world.bounds[last.tp]
        late = last._replace(offset=bounds.end, seq=last.seq + 1, cause=None)
        longer = {last.tp: replace(bounds, end=bounds.end + 1)}

        def send(late: LogRecord = late, longer: dict[TopicPartition, LogBounds] = longer) -> None:
            case.world.records.append(late)
            case.world.bounds.update(longer)

        yield Damage("V1", late[:3], send)


def reorder(case: Case, white: list[LogRecord]) -> Iterator[Damage]:
    """Two records of one sender change places. (A seq below that of its first record would be that of a copy.)"""
    for _, one, two in pairs(case, white):
        swapped = {one: one._replace(seq=two.seq), two: two._replace(seq=one.seq)}
        yield Damage("V1", two[:3], partial(case.put, swapped))


def recolour(case: Case) -> Iterator[Damage]:
    """A record that somebody had received turns out to be red."""
    for r in case.white_of_inputs:
        if any(received(s, r.offset) for s in case.world.inputs if (s.topic, s.partition) == r.tp):
            yield Damage("V2", r[:3], partial(case.put, {r: r._replace(epoch=EPOCH, cause=None)}))


def recolour_last_of_state(case: Case) -> Iterator[Damage]:
    """The last change of a table turns out to be red: nothing white supersedes what its place should hold."""
    white = case.white_of_changelogs
    for r in (r for r in white if next_of(r, white) is None):
        yield Damage("V3", r[:3], partial(case.put, {r: r._replace(epoch=EPOCH, cause=None)}))


def recolour_effect(case: Case) -> Iterator[Damage]:
    """What an event did that counts as done turns out to be red: a record, or a change of a table."""
    steady = {(s.topic, s.partition): s for s in case.world.inputs if s.steady}
    for r in case.white_of_inputs + case.white_of_changelogs:
        source = None if r.cause is None else steady.get(r.cause[0])
        if r.cause is None or source is None or source.receiver != r.process:
            continue
        if not in_flight(source, r.cause[1]):
            yield Damage("V5", r[:3], partial(case.put, {r: r._replace(epoch=EPOCH)}))


def forge_marker(case: Case) -> Iterator[Damage]:
    """A marker that its sender never sent: the receiver closed the channel at it, and white records came after."""
    for item in case.world.recorded:
        after = [
            r
            for r in case.white_of_inputs
            if r[:2] == (item.topic, item.partition)
            and r.process == item.sender
            and item.start < r.offset < item.end
        ]
        for stranger in case.world.records if after else ():
            between = item.start <= stranger.offset < after[-1].offset
            if stranger.tp != after[0].tp or stranger.process >= 0 or not between:
                continue
            white = next(r for r in after if r.offset > stranger.offset)
            forged = stranger._replace(process=item.sender, epoch=EPOCH, seq=white.seq, marker=True)
            shorter = [replace(it, end=stranger.offset) if it is item else it for it in case.world.recorded]

            def forge(new: dict[LogRecord, LogRecord], recorded: list[Recorded]) -> None:
                case.put(new)
                case.world.recorded = recorded

            yield Damage("V4", white[:3], partial(forge, {stranger: forged}, shorter))


def trim(case: Case) -> Iterator[Damage]:
    """The first record that was in flight is deleted."""
    for source in case.world.inputs:
        tp = TopicPartition(source.topic, source.partition)
        if any(in_flight(source, r.offset) and r.tp == tp for r in case.white_of_inputs):
            yield Damage("V4", (*tp, source.position), partial(case.take, source.position + 1, tp))


def trim_state(case: Case) -> Iterator[Damage]:
    """The first changes of a table are deleted."""
    for cut in case.world.changelogs:
        tp = TopicPartition(cut.topic, cut.partition)
        for start in range(1, cut.end):
            yield Damage("V3", (*tp, start), partial(case.take, start, tp))


def older(case: Case, which: str, check: str) -> Iterator[Damage]:
    """A topic of that name, but not that one: a copy that was made before."""
    for cut in getattr(case.world, which):
        cuts = [replace(it, topic_id="00" * 16) if it is cut else it for it in getattr(case.world, which)]
        yield Damage(check, (cut.topic, cut.partition, 0), partial(setattr, case.world, which, cuts))


KINDS_OF_DAMAGE: Mapping[str, Callable[[Case], Iterator[Damage]]] = {
    "drop in an input": lambda case: drop(case, case.white_of_inputs),
    "drop in a changelog": lambda case: drop(case, case.white_of_changelogs, holes=False),
    "send late in an input": lambda case: send_late(case, case.white_of_inputs),
    "send late in a changelog": lambda case: send_late(case, case.white_of_changelogs),
    "reorder in an input": lambda case: reorder(case, case.white_of_inputs),
    "reorder in a changelog": lambda case: reorder(case, case.white_of_changelogs),
    "recolour": recolour,
    "recolour effect": recolour_effect,
    "recolour last of state": recolour_last_of_state,
    "forge marker": forge_marker,
    "trim": trim,
    "trim state": trim_state,
    "an older topic": partial(older, which="inputs", check="V4"),
    "an older changelog": partial(older, which="changelogs", check="V3"),
}


def case_of(rng: random.Random, n: int) -> Case:
    """A history all of which is read."""
    world = history(rng, n)
    world.inputs = [replace(source, low=0) for source in world.inputs]
    world.old_topics = []  # of what a sender knew before its topic was recreated nothing is judged
    world.bounds = {tp: replace(bounds, topic_id="ff" * 16) for tp, bounds in world.bounds.items()}
    return Case(world)


def found(case: Case) -> list[Finding]:
    world = case.world
    for tp, start in case.deleted.items():
        world.records = [r for r in world.records if r.tp != tp or r.offset >= start]
        world.bounds[tp] = replace(world.bounds[tp], start=start)
    view = CutView(captured(world), world.bounds)
    log = Damaged(view, world.records, reading_ranges(view)).log
    return [*bounds_findings(view), *(it for check in LOG_CHECKS for it in find(check, log))]


@pytest.mark.parametrize("kind", KINDS_OF_DAMAGE)
def test_found_by_the_right_check_at_the_right_offset(kind: str) -> None:
    seed = random.randrange(10**9)
    rng, made = random.Random(seed), 0
    while made < CASES:
        case = case_of(rng, made + 1)
        possible = list(KINDS_OF_DAMAGE[kind](case))
        if not possible:
            continue
        made += 1
        check, place, do = rng.choice(possible)
        do()
        of_case = [it for it in found(case) if KINDS[it.kind].weight is not Weight.NOTE]
        places = [it[1:4] for it in of_case if KINDS[it.kind].check == check]
        assert place in places, (seed, place, of_case)


def test_what_was_not_damaged_is_not_accused() -> None:
    seed = random.randrange(10**9)
    rng = random.Random(seed)
    for n in range(1, HEALTHY + 1):
        accused = [it for it in found(case_of(rng, n)) if KINDS[it.kind].weight is Weight.FAILS]
        assert accused == [], seed
