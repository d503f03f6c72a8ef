"""The work on one stretch (`stretch`): what is kept of its records, and what is counted."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from snapkafka.protocol.captured_snapshot import InputCut
from snapkafka.protocol.records import TopicPartition

from .inputs import in_flight, received
from .log import EXTERNAL, LogRecord
from .stretch import NO_CAUSE, Block, Group, Kept, Row, Span, Stretch, Turn, Wanted
from .view import CutView

#: So many records of a stretch are kept; of more, the first are judged, and no check passes.
KEPT_MAX: Final = 100_000


def stretch_of(
    view: CutView,
    tp: TopicPartition,
    blocks: Callable[[Sequence[int]], Iterable[Block]],
    wanted: Wanted | None = None,
) -> Stretch:
    """Summarise records of one partition, whose offsets rise. `blocks`: returns them, none across one of the offsets
    that divide the partition into regions."""
    return _Summary(view, tp, wanted or Wanted()).of(blocks)


def places_due(view: CutView, tp: TopicPartition) -> set[int]:
    """Return the offsets of the last white record of each sender, and of the join with a parent."""
    due = {end.white_end - 1 for end in view.senders.get(tp, {}).values() if end.last_seq >= 0}
    return due if (seam := view.seam(tp)) is None else due | {seam}


@dataclass(slots=True)
class _Run:
    """The seqs of a sender in the order of the log: its last record, the seq that goes on, and how many records since
    the last kept one were skipped."""

    row: Row | None = None
    next: int = -1
    nth: int = 0
    pending: int = 0


class _Input(NamedTuple):
    """An input as the cause of a class of records: an event past `below` may be one that somebody had still to start.
    `closely`: earlier events count, too."""

    source: InputCut
    place: tuple[str, TopicPartition]
    below: int
    closely: bool
    wanted: Sequence[Span]


class _Class(Group):
    """A group while it is counted.

    `keep`: all of it. `run`: None: its seqs are not judged. `watch`: seqs of interest, `watch_last` the highest of
    them. `white`: it counts as white; `red`: causes that somebody had started accuse it.
    """

    __slots__ = ("allows_gaps", "inputs", "keep", "red", "run", "watch", "watch_last", "white", "worker")
    keep: bool
    run: _Run | None
    watch: list[Span]
    watch_last: int
    allows_gaps: bool
    white: bool
    red: bool
    worker: int
    inputs: Mapping[Hashable, _Input]


class _Summary:
    """The work on one stretch."""

    def __init__(self, view: CutView, tp: TopicPartition, wanted: Wanted) -> None:
        self._view, self._tp, self._wanted = view, tp, wanted
        self._made = Stretch(tp)
        self._due = places_due(view, tp) | wanted.places.get(tp, frozenset())
        self._bounds = sorted(bounds_in(view, tp) | {end for at in self._due for end in (at, at + 1)})
        self._classes: dict[tuple[int, int, bool, bool], _Class] = {}  # by region, sender, colour
        self._recorded = view.recorded.get(tp, ())
        self._several = view.apps_of_several
        self._runs: defaultdict[int, _Run] = defaultdict(_Run)
        self._turns: dict[tuple[str, TopicPartition], list[int]] = {}

    def of(self, blocks: Callable[[Sequence[int]], Iterable[Block]]) -> Stretch:
        """Summarise the records."""
        made = self._made
        for block in blocks(self._bounds):
            self._take(block)
        for run in self._runs.values():
            self._end(run)
        made.groups = [Group(it.record, it.count, it.last, it.caused) for it in self._classes.values()]
        made.turns += (Turn(*place, *turn) for place, turn in self._turns.items())
        made.kept.sort()  # by their numbers
        return made

    def _take(self, block: Block) -> None:
        """Take in a block: row by row, unless none of it has to be kept, and it goes on with a run."""
        first, last, lowest, highest, number, rows = block
        (offset, process, epoch, seq, marker, of, _), view = first, self._view
        key = (bisect_right(self._bounds, offset), process, epoch < view.epoch, marker)
        found = self._classes.get(key) or self._classes.setdefault(key, self._class(first))
        run, named = found.run, found.inputs.get(of)
        keep = found.keep or (seq <= found.watch_last and (number > 1 or _is_in(found.watch, seq)))
        near = named is not None and highest >= named.below
        odd = keep or near or (named is not None and (found.red or named.wanted))
        if number > 1 and (odd or (run is not None and run.next != seq)):
            for row in rows():
                self._take((row, row, row[-1], row[-1], 1, rows))
            return
        nth = self._made.records = self._made.records + number
        found.count, found.last = found.count + number, last[0]
        found.caused += number if of != NO_CAUSE else 0
        if named is not None and (named.closely or near):
            for cause in {lowest, highest}:
                keep = self._accuses(found, named, cause) or keep
        if run is None:
            if keep:
                self._keep(nth, first)
        elif seq == run.next and not keep:
            run.row, run.nth, run.next = last, nth, last[3] + 1
            run.pending += number
        else:
            self._judge(found, run, nth, first, keep=keep)

    def _judge(self, found: _Class, run: _Run, nth: int, row: Row, *, keep: bool) -> None:
        """Take in a record whose seq counts, unless it is a copy."""
        if keep and self._view.is_copy(self._record(row)):
            self._keep(nth, row)
            return
        if not self._goes_on(found, run, nth, row):
            self._end(run)
            self._keep(nth, row)
        elif keep:
            self._keep(nth, row, run.pending)
            run.pending = 0
        else:
            run.pending += 1
        run.row, run.nth, run.next = row, nth, row[3] + 1

    def _goes_on(self, found: _Class, run: _Run, nth: int, row: Row) -> bool:
        if run.row is None or row[3] <= run.next:
            return run.row is not None and row[3] == run.next
        holes = (row[0] - run.row[0]) - (nth - run.nth)
        explained = found.allows_gaps and holes >= row[3] - run.next
        return explained and not any(first < row[3] and last >= run.next for first, last in found.watch)

    def _end(self, run: _Run) -> None:
        """Keep the last record of a run."""
        if run.row is not None and run.pending:
            self._keep(run.nth, run.row, run.pending - 1)
            run.pending = 0

    def _keep(self, nth: int, row: Row, skipped: int = 0) -> None:
        if len(self._made.kept) < KEPT_MAX or row[0] in self._due:
            self._made.kept.append(Kept(nth, self._record(row), skipped))
        else:
            self._made.crowded = True

    def _accuses(self, found: _Class, named: _Input, cause: int) -> bool:
        """Return whether a rule may accuse a record for its cause, or needs it; take in whose turn it is."""
        if found.red:
            return not in_flight(named.source, cause)
        if not found.white:
            return False
        if cause >= named.below and in_flight(named.source, cause):
            return True
        if named.place[0] in self._several:
            turn = self._turns.get(named.place)
            if turn is None or turn[0] != found.worker:
                if turn is not None:
                    self._made.turns.append(Turn(*named.place, *turn))
                    self._made.crowded = self._made.crowded or len(self._made.turns) > KEPT_MAX
                self._turns[named.place] = [found.worker, cause, cause]
            elif cause < turn[1]:
                turn[1] = cause
            elif cause > turn[2]:
                turn[2] = cause
        return _is_in(named.wanted, cause)

    # -- what holds for a whole group ------------------------------------------------------------------------------

    def _class(self, row: Row) -> _Class:
        view, tp, record = self._view, self._tp, self._record(row)
        made, process = _Class(record), record.process
        known = process in view.processes
        made.keep = record.offset in self._due or self._accusable(record)
        made.run = self._runs[process] if record.offset < view.judged_end(process, tp) else None
        made.watch = self._watched(record) if known else []
        made.watch_last = max((last for _, last in made.watch), default=-1)
        made.allows_gaps = record.offset < view.only_state_below(tp)
        made.white = view.counts_white(record)
        made.red = view.red_stamped(record) and record.offset < view.sent_end(process, tp)
        made.worker = view.worker(process)
        may_accuse = known and not record.marker and (made.white or made.red)
        made.inputs = self._inputs(process, red=made.red) if may_accuse else {}
        return made

    def _accusable(self, record: LogRecord) -> bool:
        """Return whether a rule may accuse or note a record for its place, sender and colour."""
        view, tp, (_, _, offset, process, *_) = self._view, self._tp, record
        if record.marker or process == EXTERNAL:
            return False
        sources = view.inputs.get(tp, ())
        if view.left(process):
            return offset >= min([view.left_end(tp), *(source.log_end for source in sources)])
        if not view.white_stamped(record):
            return not view.is_white(record) and any(received(source, offset) for source in sources)
        end = view.white_end(process, tp)
        return offset >= end or any(
            (item.start <= offset < item.end) != (source.noted <= offset < end)
            for item, source in self._recorded
            if item.sender == process
        )

    def _watched(self, record: LogRecord) -> list[Span]:
        """Return the seqs of its sender that are kept from here on: unacknowledged ones, possible copies, wanted
        ones."""
        view, place = self._view, (self._tp, record.process)
        found = [(item.first, item.last) for item in view.unacknowledged(record.process, self._tp)]
        end = view.sender(record.process, self._tp)
        if end is not None and record.offset >= end.earlier_end and end.earlier_seq >= 0:
            found.append((0, end.earlier_seq))
        return [*found, *self._wanted.seqs.get(place, ())]

    def _inputs(self, process: int, *, red: bool) -> dict[Hashable, _Input]:
        view, found = self._view, {}
        for name, source in view.named_inputs.get(view.processes[process].app, {}).items():
            if not view.names_cause(process, source) or (
                red and not (process == source.receiver and source.steady)
            ):
                continue
            place = source.app, TopicPartition(source.topic, source.partition)
            below = min((agent.offset for agent in source.agents), default=source.position)
            spans = self._wanted.causes.get(place, ())
            closely = red or source.app in self._several or bool(spans)
            found[name] = _Input(source, place, below, closely, spans)
        return found

    def _record(self, row: Row) -> LogRecord:
        offset, process, epoch, seq, marker, of, at = row
        cause = None
        if of != NO_CAUSE:
            cause = of if isinstance(of, TopicPartition) else self._view.input_named(process, of), at
        return LogRecord(*self._tp, offset, process, epoch, seq, marker, cause)


def bounds_in(view: CutView, tp: TopicPartition) -> set[int]:
    """Return the offsets of a partition between which every question to the view has one answer for a sender and a
    colour."""
    found = {view.left_end(tp), view.closed_end(tp), view.only_state_below(tp), view.received_since(tp)}
    found |= {view.state_start(tp), view.state_end(tp)}
    if (base := view.bases.get(tp)) is not None:
        found.add(base.end)
    for process, end in view.senders.get(tp, {}).items():
        found |= {view.white_end(process, tp), view.sent_end(process, tp), end.earlier_end}
    found |= {changelog.end for changelog in view.changelogs.get(tp, ())}
    for source in view.inputs.get(tp, ()):
        found |= {source.position, source.noted, source.log_end}
        for agent in source.agents:
            found |= {agent.offset, *(end for at in agent.started_above for end in (at, at + 1))}
    for item, _ in view.recorded.get(tp, ()):
        found |= {item.start, item.end}
    return found


def _is_in(spans: Iterable[Span], number: int) -> bool:
    return any(first <= number <= last for first, last in spans)
