"""Damage to random logs, twenty cases of each kind: found by the right check, at the right offset. And two hundred runs
in which nothing went wrong: none of them is accused."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

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
Records = list[LogRecord]


class Damage(NamedTuple):
    """What can be done to a history: the check that finds it, where, and what other parts the world has then."""

    check: str
    place: tuple[str, int, int]
    parts: dict[str, Any]


def white(world: World, *kinds: str) -> Records:
    """White records of living senders in partitions of these kinds, in the order of the log."""
    places = {(it.topic, it.partition) for kind in kinds for it in getattr(world, kind)}
    living = {cut.process for cut in world.processes if not cut.left}
    records = (r for r in world.records if r.process in living and r[:2] in places)
    return [r for r in records if r.epoch < EPOCH and not r.marker]


def put(world: World, new: dict[LogRecord, LogRecord]) -> dict[str, Any]:
    """Put other records in the place of some."""
    return {"records": [new.get(r, r) for r in world.records]}


def trimmed(world: World, tp: TopicPartition, start: int) -> dict[str, Any]:
    """Delete what lies below an offset."""
    records = [r for r in world.records if r.tp != tp or r.offset >= start]
    return {"records": records, "bounds": world.bounds | {tp: replace(world.bounds[tp], start=start)}}


def neighbours(record: LogRecord, records: Records) -> tuple[LogRecord | None, LogRecord | None]:
    """The records of the same process in the same partition before and after it. A gap before the first one of a
    process cannot be seen."""
    own = [r for r in records if r[:2] == record[:2] and r.process == record.process]
    before = max((r for r in own if r.seq < record.seq), key=lambda r: r.seq, default=None)
    return before, next((r for r in own if r.seq > record.seq), None)


def three(world: World, of: Records) -> Iterator[tuple[LogRecord, LogRecord, LogRecord]]:
    """Three in a row of one sender."""
    for record in of:
        one, two = neighbours(record, world.records)[0], neighbours(record, of)[1]
        if one is not None and two is not None:
            yield one, record, two


def lasts(of: Records) -> Records:
    return [r for r in of if neighbours(r, of)[1] is None]


def drop(world: World, of: Records, *, holes: bool = True) -> Iterator[Damage]:
    """A record that its sender counted never came; no offset is missing for it. (Where one is missing in a changelog,
    compaction may have taken what is.)"""
    for one, lost, two in three(world, of):
        between = [r for r in world.records if r.tp == two.tp and one.offset < r.offset <= two.offset]
        if holes or len(between) == two.offset - one.offset:
            external = lost._replace(process=-1, epoch=0, seq=-1, cause=None)
            yield Damage("V1", two[:3], put(world, {lost: external}))


def send_late(world: World, of: Records) -> Iterator[Damage]:
    """A white record is sent when its sender had closed. (With the seq of an earlier one it would be a copy.)"""
    for last in lasts(of):
        end = world.bounds[last.tp].end
        late = last._replace(offset=end, seq=last.seq + 1, cause=None)
        longer = world.bounds | {last.tp: replace(world.bounds[last.tp], end=end + 1)}
        yield Damage("V1", late[:3], {"records": [*world.records, late], "bounds": longer})


def reorder(world: World, of: Records) -> Iterator[Damage]:
    """Two records of one sender change places. (A seq below that of its first record would be that of a copy.)"""
    for _, one, two in three(world, of):
        swapped = {one: one._replace(seq=two.seq), two: two._replace(seq=one.seq)}
        yield Damage("V1", two[:3], put(world, swapped))


def recolour(world: World, check: str, of: Records) -> Iterator[Damage]:
    """A record turns out to be red."""
    for r in of:
        yield Damage(check, r[:3], put(world, {r: r._replace(epoch=EPOCH, cause=None)}))


def received_by_some(world: World) -> Records:
    sources = [((s.topic, s.partition), s) for s in world.inputs]
    return [
        r
        for r in white(world, "inputs")
        if any(place == r.tp and received(source, r.offset) for place, source in sources)
    ]


def recolour_effect(world: World) -> Iterator[Damage]:
    """What an event did that counts as done turns out to be red: a record, or a change of a table."""
    steady = {(s.topic, s.partition): s for s in world.inputs if s.steady}
    for r in white(world, "inputs") + white(world, "changelogs"):
        place, offset = r.cause or (None, 0)
        source = None if place is None else steady.get(place)
        if source is not None and source.receiver == r.process and not in_flight(source, offset):
            yield Damage("V5", r[:3], put(world, {r: r._replace(epoch=EPOCH)}))


def forge_marker(world: World) -> Iterator[Damage]:
    """A marker that its sender never sent: the receiver closed the channel at it, and white records came after."""
    for item in world.recorded:
        place = (item.topic, item.partition)
        own = [r for r in white(world, "inputs") if r[:2] == place and r.process == item.sender]
        after = [r for r in own if item.start < r.offset < item.end]
        for external in (r for r in world.records if r[:2] == place and r.process < 0):
            later = [r for r in after if r.offset > external.offset]
            if later and item.start <= external.offset:
                forged = external._replace(process=item.sender, epoch=EPOCH, seq=later[0].seq, marker=True)
                shorter = [replace(it, end=external.offset) if it is item else it for it in world.recorded]
                parts = put(world, {external: forged}) | {"recorded": shorter}
                yield Damage("V4", later[0][:3], parts)


def trim(world: World) -> Iterator[Damage]:
    """The first record that was in flight is deleted."""
    for source in world.inputs:
        tp = TopicPartition(source.topic, source.partition)
        if any(in_flight(source, r.offset) and r.tp == tp for r in white(world, "inputs")):
            yield Damage("V4", (*tp, source.position), trimmed(world, tp, source.position + 1))


def trim_state(world: World) -> Iterator[Damage]:
    """The first changes of a table are deleted."""
    for cut in world.changelogs:
        tp = TopicPartition(cut.topic, cut.partition)
        for start in range(1, cut.end):
            yield Damage("V3", (*tp, start), trimmed(world, tp, start))


def older(world: World, which: str, check: str) -> Iterator[Damage]:
    """A topic of that name, but not that one: a copy that was made before."""
    for cut in getattr(world, which):
        cuts = [replace(it, topic_id="00" * 16) if it is cut else it for it in getattr(world, which)]
        yield Damage(check, (cut.topic, cut.partition, 0), {which: cuts})


KINDS_OF_DAMAGE: Mapping[str, Callable[[World], Iterator[Damage]]] = {
    "drop in an input": lambda world: drop(world, white(world, "inputs")),
    "drop in a changelog": lambda world: drop(world, white(world, "changelogs"), holes=False),
    "send late in an input": lambda world: send_late(world, white(world, "inputs")),
    "send late in a changelog": lambda world: send_late(world, white(world, "changelogs")),
    "reorder in an input": lambda world: reorder(world, white(world, "inputs")),
    "reorder in a changelog": lambda world: reorder(world, white(world, "changelogs")),
    "recolour what was received": lambda world: recolour(world, "V2", received_by_some(world)),
    "recolour effect": recolour_effect,
    # Nothing white supersedes what the place of the last change of a table should hold.
    "recolour last of state": lambda world: recolour(world, "V3", lasts(white(world, "changelogs"))),
    "forge marker": forge_marker,
    "trim": trim,
    "trim state": trim_state,
    "an older topic": partial(older, which="inputs", check="V4"),
    "an older changelog": partial(older, which="changelogs", check="V3"),
}


def world_of(rng: random.Random, n: int) -> World:
    """A history all of which is read."""
    world = history(rng, n)
    world.inputs = [replace(source, low=0) for source in world.inputs]
    world.old_topics = []  # of what a sender knew before its topic was recreated nothing is judged
    world.bounds = {tp: replace(bounds, topic_id="ff" * 16) for tp, bounds in world.bounds.items()}
    return world


def found(world: World) -> list[Finding]:
    view = CutView(captured(world), world.bounds)
    log = Damaged(view, world.records, reading_ranges(view)).log
    return [*bounds_findings(view), *(it for check in LOG_CHECKS for it in find(check, log))]


@pytest.mark.parametrize("kind", KINDS_OF_DAMAGE)
def test_damage_is_found_by_its_check_at_its_offset(kind: str) -> None:
    seed = random.randrange(10**9)
    rng, made = random.Random(seed), 0
    while made < CASES:
        world = world_of(rng, made + 1)
        if possible := list(KINDS_OF_DAMAGE[kind](world)):
            made += 1
            check, place, parts = rng.choice(possible)
            of_case = [
                it for it in found(replace(world, **parts)) if KINDS[it.kind].weight is not Weight.NOTE
            ]
            places = [it[1:4] for it in of_case if KINDS[it.kind].check == check]
            assert place in places, (seed, place, of_case)


def test_what_was_not_damaged_is_not_accused() -> None:
    seed = random.randrange(10**9)
    rng = random.Random(seed)
    for n in range(1, HEALTHY + 1):
        accused = [it for it in found(world_of(rng, n)) if KINDS[it.kind].weight is Weight.FAILS]
        assert accused == [], seed
