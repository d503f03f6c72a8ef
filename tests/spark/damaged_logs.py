"""Damage of every kind in one snapshot: random damage to small logs, and to changelogs of every sort.

The checks are held to themselves on it, in stretches and in the whole, on lists and in Spark. A kind of finding that is
not in it is tested by none.
"""

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from snapkafka.checks import (
    CutLog,
    CutView,
    Keeping,
    LogBounds,
    LogRecord,
    ReadRange,
    Wanted,
    lead_ranges,
    reading_ranges,
)
from snapkafka.checks.listed import Listed
from snapkafka.checks.v4_channels import look_back_ranges
from snapkafka.protocol import NeverRead, TopicPartition
from snapkafka.protocol.captured_snapshot import SenderEnd
from snapkafka.wire.headers import topic_check
from tests.worlds import cleaned_log
from tests.worlds.cleaned_log import HOUR, Changelog

from .small_logs import EPOCH, World, captured, damage, history, together

__all__ = ["EVERY_KIND", "WORLDS", "Damaged", "damaged"]

#: A seed whose damage is of every kind; another may lack a rare one.
EVERY_KIND = 0
#: Small worlds in it, and changelogs. One costs the lists a few hundred microseconds, and Spark nothing.
WORLDS = 700
CHANGELOGS = 200
#: Processes of changelogs have numbers from here on, those of the small worlds lower ones.
FIRST = 100_000


@dataclass
class Damaged:
    """A snapshot, and the log that is left of it."""

    view: CutView
    records: list[LogRecord]
    read: list[ReadRange]

    def within(self, ranges: Collection[ReadRange]) -> list[LogRecord]:
        """The records of some ranges, at most one for each partition."""
        found = {item[:2]: item for item in ranges}
        return [
            record
            for record in self.records
            if (item := found.get(record[:2])) is not None and item.start <= record.offset < item.end
        ]

    @property
    def around_it(self) -> dict[str, Any]:
        """What `CutLog` has besides what it reads."""
        leads = Listed(self.view, self.within(lead_ranges(self.view, self.read)))
        below = self.within(look_back_ranges(self.view, self.read))
        return {"read": self.read, "below": below, "leads": leads.stretches(Wanted())}

    @property
    def log(self) -> CutLog:
        return CutLog(self.view, Listed(self.view, self.within(self.read)), **self.around_it)


@dataclass
class Table:
    """A changelog, what else its cut says, and, of one with a parent, the last record of the parent's state. `left`:
    its process did, and reports nothing."""

    log: Changelog
    cut: dict[str, Any] = field(default_factory=dict)
    seam: SenderEnd | None = None
    left: bool = False

    def as_world(self) -> World:
        """With the epochs of the small worlds."""
        log, of = self.log, cleaned_log.captured([self.log])
        return World(
            records=[
                record._replace(epoch=EPOCH if record.epoch == cleaned_log.EPOCH else record.epoch)
                for record in log.log
            ],
            bounds={log.tp: log.bounds},
            processes=[replace(cut, app=log.tp.topic, left=self.left) for cut in of.processes],
            senders=[] if self.left else list(of.senders),
            changelogs=[replace(cut, app=log.tp.topic, **self.cut) for cut in of.changelogs],
        )


def damaged(seed: int) -> Damaged:
    """A snapshot with damage."""
    rng = random.Random(seed)
    small = [damage(rng, history(rng, n)) for n in range(1, WORLDS + 1)]
    made = list(tables(rng))
    world = together([*small, *(table.as_world() for table in made)])
    _name_alike(world)
    with_parent = {table.log.tp: table.seam for table in made if table.seam is not None}
    passed = tuple(
        NeverRead(
            app="app1", process=10, topic=small[0].inputs[0].topic, partition=0, start=n, end=n, reason="lost"
        )
        for n in (3, -1)
    )
    view = CutView(
        replace(captured(world), never_read=passed),
        world.bounds,
        {tp: end.white_end for tp, end in with_parent.items()},
        with_parent,
    )
    return Damaged(view, world.records, reading_ranges(view))


def tables(rng: random.Random) -> Iterator[Table]:
    """Changelogs that a cleaner has been over; of global tables; of windows; and some with a parent."""
    process = count(FIRST)
    for n in range(CHANGELOGS):
        made = cleaned_log.changelog(rng, next(process))
        made.tp = TopicPartition(f"cleaned{n}", 0)
        made.written = [record._replace(topic=made.tp.topic) for record in made.written]
        made.log = [record._replace(topic=made.tp.topic) for record in made.log]
        yield Table(made)
    for kind in ("global0", "global1", "sets0"):
        for partition in range(3):
            made = Changelog(TopicPartition(kind, partition), next(process))
            for _ in range(rng.randint(1, 4)):
                made.write(rng.randint(1, 6), "v", epoch=EPOCH if rng.random() < 0.2 else 0)
            yield Table(made, {"is_global": True, "sets": kind == "sets0", "table": kind})
    for n in range(3):
        keeping = Keeping(age_ms=HOUR, tombstones_ms=24 * HOUR, retained_ms=HOUR + n % 2)
        made = _of_six(TopicPartition(f"windows{n}", 0), next(process), keeping)
        made.start, made.log = 2, made.log[2:]
        yield Table(made, {"expires_ms": 1})
    for n in range(6):
        made = _of_six(TopicPartition(f"child{n}", 0), next(process))
        if n % 3:  # another record stands there, or none
            made.log[2:3] = [made.log[2]._replace(seq=9)] if n % 3 == 1 else []
        yield Table(made, seam=SenderEnd(**made.tp._asdict(), process=made.process, white_end=3, last_seq=2))
    emptied = _of_six(TopicPartition("emptied", 0), next(process))
    emptied.log = []
    yield Table(emptied, left=True)
    overtaken = _of_six(TopicPartition("overtaken", 0), next(process))
    overtaken.write(99, "red", epoch=cleaned_log.EPOCH)
    overtaken.compact(2, drop=False)
    yield Table(overtaken)


def _of_six(tp: TopicPartition, process: int, keeping: Keeping | None = None) -> Changelog:
    made = Changelog(tp, process, keeping=keeping or Keeping(age_ms=HOUR, tombstones_ms=24 * HOUR))
    for key in (1, 1, 2, 3, 2, 1):
        made.write(key, "v")
    return made


def _name_alike(world: World) -> None:
    """An app reads two topics of which a cause in a header could name either."""
    by_check: dict[int, str] = {}
    same = next(
        (by_check[check], name)
        for name in map("alike{}".format, count())
        if by_check.setdefault(check := topic_check(name), name) != name
    )
    source = world.inputs[-1]
    nothing: dict[str, Any] = {"position": 0, "noted": 0, "low": 0, "log_end": 0, "agents": ()}
    for topic in same:
        world.inputs.append(replace(source, app="alike", topic=topic, topic_id="", partition=0, **nothing))
        world.bounds[TopicPartition(topic, 0)] = LogBounds(start=0, end=0)
