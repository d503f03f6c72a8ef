"""What the checks need of a range of one partition: a few records, and counts of the others.

Rules judge a record by its place, sender and colour. So the offsets are divided into *regions* between all bounds that
the snapshot names, and the records of a region, sender and colour are a `Group`: what holds for one of them, apart
from its seq and cause, holds for all. `CutView` decides it once for each group. Kept one by one are

- records that a rule may accuse or note, and those at places where a certain record is due;
- the ends of each sender's *runs*: those between have the seqs between, in order (`Kept.skipped`).

In a pure changelog a run goes on over missing seqs if as many offsets are missing: compaction took them, and the state
is for V3 to judge.

Some rules compare records far apart: a seq that comes again, an event that ran twice, a red cause. From the kept ones
`sequences.CutLog` derives which others they need (`Wanted`); with these the log is summarised once more, and only if
there are any. A sound log is a handful of records. Too many may be kept, too few never: then the findings are those of
the whole log, however it was divided into stretches, up to `KEPT_MAX` records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from snapkafka.protocol.records import TopicPartition

from .log import LogRecord

#: The topic and partition of a row that names no cause.
NO_CAUSE: Final = -1

#: A record: offset, process, epoch, seq, whether it is a marker, its cause. The input of that is a `TopicPartition`, or
#: a number (`inputs.mark_of`), or `NO_CAUSE`.
Row: TypeAlias = tuple[int, int, int, int, bool, Any, int]
Span: TypeAlias = tuple[int, int]  # first and last


#: Records in a row, of one region, sender and colour, that name one input or none, and whose seqs go on: the first and
#: the last, the lowest and highest offset of their causes, their number, and what yields them all.
Block: TypeAlias = tuple[Row, Row, int, int, int, Callable[[], Iterable[Row]]]


@dataclass(slots=True)
class Group:
    """The records of one region, sender and colour: the first of them, their number, the offset of the last, and the
    number of those that name a cause."""

    record: LogRecord
    count: int = 0
    last: int = -1
    caused: int = 0


class Kept(NamedTuple):
    """A record that is kept, with its number in its partition. So many of its sender before it, after the last kept
    one, were `skipped`."""

    nth: int
    record: LogRecord
    skipped: int = 0


class Turn(NamedTuple):
    """Effects in a row of events of one input, by one worker: the first and the last of those events."""

    app: str
    tp: TopicPartition
    worker: int
    first: int
    last: int


@dataclass(slots=True)
class Stretch:
    """The records of a range of one partition. `crowded`: more would have been kept."""

    tp: TopicPartition
    groups: list[Group] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    records: int = 0
    crowded: bool = False

    def take(self, later: Stretch, due: Collection[int]) -> None:
        """Add the stretch after this one; after a crowded one, only its counts and what is `due`."""
        self.kept += (
            it._replace(nth=it.nth + self.records)
            for it in later.kept
            if not self.crowded or it.record.offset in due
        )
        self.groups += later.groups
        self.turns += later.turns
        self.records += later.records
        self.crowded = self.crowded or later.crowded


@dataclass(frozen=True, slots=True)
class Wanted:
    """Records to keep besides: seqs of a process in a partition, effects of events of an app's input, places."""

    seqs: Mapping[tuple[TopicPartition, int], Sequence[Span]] = field(default_factory=dict)
    causes: Mapping[tuple[str, TopicPartition], Sequence[Span]] = field(default_factory=dict)
    places: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.seqs or self.causes or self.places)


def blocks_of(records: Iterable[LogRecord], bounds: Sequence[int] = ()) -> Iterator[Block]:
    """Yield a block for each of these records of one partition, so none is across a bound."""
    for record in records:
        of, cause = (NO_CAUSE, -1) if record.cause is None else record.cause
        row = (*record[2:7], of, cause)
        yield row, row, cause, cause, 1, tuple
