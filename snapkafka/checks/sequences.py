"""The log of a snapshot as the checks read it, and its seqs in the order of the log (V1 and V4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence, Set
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from snapkafka.protocol.captured_snapshot import InputCut
from snapkafka.protocol.records import TopicPartition

from .inputs import in_flight
from .log import LogRecord
from .ranges import ReadRange
from .stretch import Group, Kept, Span, Stretch, Turn, Wanted
from .summary import places_due
from .view import CutView


class Effect(NamedTuple):
    """A record that names its cause: the event at `offset` of an input of its sender's app. `torn`: the snapshot lists
    that event as torn in its sender."""

    record: LogRecord
    source: InputCut
    offset: int
    torn: bool


class Source(Protocol):
    """What reads the log of a snapshot."""

    def stretches(self, wanted: Wanted) -> Iterable[Stretch]:
        """Return stretches of the whole reading ranges, in any order."""

    def ask(self, question: str) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a question about changes of tables (`questions`)."""

    def still_there(self, wanted: Collection[ReadRange]) -> Set[TopicPartition]:
        """Return the partitions of which the log holds these records, one each, at this moment."""


class CutLog:
    """The input of the checks, and what several of them derive from it.

    Args:
        view: the snapshot, with the bounds of its log.
        source: of the log; it is read once more if that is needed.
        read: the reading ranges; None: every partition was read to its end.
        below: the records of `v4_channels.look_back_ranges`. Only V4 reads them.
        leads: stretches of the whole `ranges.lead_ranges`. Only gaps are judged by them.
    """

    def __init__(
        self,
        view: CutView,
        source: Source,
        *,
        read: Collection[ReadRange] | None = None,
        below: Iterable[LogRecord] = (),
        leads: Iterable[Stretch] = (),
    ) -> None:
        self.view, self.source = view, source
        self.below, self._leads = tuple(below), _joined(view, leads)
        self._read_to = None if read is None else {(item.topic, item.partition): item.end for item in read}
        #: Without topics that were recreated.
        self.stretches = _joined(view, source.stretches(Wanted()))
        if wanted := Wanted(self._seqs_wanted(), self._causes_wanted(), self._places_wanted()):
            for name in ("sent", "copies", "judged", "effects"):
                self.__dict__.pop(name, None)
            self.stretches = _joined(view, source.stretches(wanted))

    @property
    def records(self) -> list[LogRecord]:
        """The records that are kept, in the order of the log."""
        return [kept.record for one in self.stretches.values() for kept in one.kept]

    @cached_property
    def groups(self) -> list[Group]:
        """All records in groups, in the order of the log."""
        return [group for one in self.stretches.values() for group in one.groups]

    def read_to_the_end(self, tp: TopicPartition) -> bool:
        """Return whether a partition was read to the present end of its log."""
        if self._read_to is None or self.view.bounds is None:
            return True
        return self._read_to.get(tp, 0) >= self.view.bounds[tp].end

    def _seqs_wanted(self) -> dict[tuple[TopicPartition, int], list[Span]]:
        """Return the seqs that come after higher ones, or past the end of a process that left: whether they have come
        before is a question."""
        wanted: dict[tuple[TopicPartition, int], list[Span]] = {}
        for place, own in self.judged.items():
            spans, highest, before = [], -1, -1
            for _, record, skipped in own:
                if skipped and before < highest:
                    spans.append((before + 1, min(highest, record.seq - 1)))
                if record.seq <= highest:
                    spans.append((record.seq, record.seq))
                highest, before = max(highest, record.seq), record.seq
            if spans:
                wanted[place] = _merged(spans)
        for (tp, process), sent in self.sent.items():
            if self.view.left(process):
                past = [it.record.seq for it in sent if it.record.offset >= self.view.left_end(tp)]
                if past:
                    spans = [*wanted.get((tp, process), ()), *((seq, seq) for seq in past)]
                    wanted[tp, process] = _merged(spans)
        return wanted

    def _causes_wanted(self) -> dict[tuple[str, TopicPartition], list[Span]]:
        """Return the events of which two workers may have left effects."""
        turns: dict[tuple[str, TopicPartition], list[Turn]] = defaultdict(list)
        for one in self.stretches.values():
            for turn in one.turns:
                turns[turn.app, turn.tp].append(turn)
        found = {place: shared(of_place) for place, of_place in turns.items()}
        return {place: spans for place, spans in found.items() if spans}

    def _places_wanted(self) -> dict[TopicPartition, frozenset[int]]:
        """Return the places of causes that may be red."""
        places: dict[TopicPartition, set[int]] = defaultdict(set)
        for effect in self.effects:
            of_later = not effect.torn and in_flight(effect.source, effect.offset)
            if of_later and self.view.counts_white(effect.record):
                places[TopicPartition(effect.source.topic, effect.source.partition)].add(effect.offset)
        return {tp: frozenset(offsets) for tp, offsets in places.items()}

    @cached_property
    def sent(self) -> dict[tuple[TopicPartition, int], list[Kept]]:
        """The kept records of each process of the snapshot."""
        sent: dict[tuple[TopicPartition, int], list[Kept]] = {}
        for tp, one in self.stretches.items():
            here: dict[int, list[Kept]] = defaultdict(list)
            for kept in one.kept:
                if kept.record.process in self.view.processes:
                    here[kept.record.process].append(kept)
            sent.update(((tp, process), own) for process, own in here.items())
        return sent

    @cached_property
    def copies(self) -> dict[tuple[str, int, int], LogRecord]:
        """The records that were sent before, by their places (`CutView.is_copy`)."""
        kept = (it.record for sent in self.sent.values() for it in sent)
        return {record[:3]: record for record in kept if self.view.is_copy(record)}

    @cached_property
    def judged(self) -> dict[tuple[TopicPartition, int], list[Kept]]:
        """The records whose seqs must have no gap: those of `sent` below the end of their process, without copies, and
        without partitions of which not all are kept."""
        judged = {}
        for (tp, process), sent in self.sent.items():
            end = self.view.judged_end(process, tp)
            own = [it for it in sent if it.record.offset < end and it.record[:3] not in self.copies]
            if own and not self.stretches[tp].crowded:
                judged[tp, process] = own
        return judged

    def last_below(self, tp: TopicPartition, process: int) -> Kept | None:
        """Return the record with the highest seq of a process right below what is read, numbered up to that."""
        if (lead := self._leads.get(tp)) is None:
            return None
        own = (it for it in lead.kept if it.record.process == process and not self.view.is_copy(it.record))
        last = max(own, key=lambda it: it.record.seq, default=None)
        return None if last is None else last._replace(nth=last.nth - lead.records)

    @cached_property
    def effects(self) -> list[Effect]:
        """The records whose cause is an event of an input of their sender's app, without causes that name offsets of
        an earlier log."""
        found = []
        for (_, process), sent in self.sent.items():
            cut = self.view.processes[process]
            sources = self.view.named_inputs.get(cut.app, {})
            torn = {(TopicPartition(event.topic, event.partition), event.offset) for event in cut.torn}
            for _, record, _ in sent:
                source = None if record.cause is None else sources.get(record.cause[0])
                if record.cause is None or source is None:
                    continue
                if self.view.names_cause(process, source):
                    found.append(Effect(record, source, record.cause[1], record.cause in torn))
        return found


def _joined(view: CutView, stretches: Iterable[Stretch]) -> dict[TopicPartition, Stretch]:
    found: dict[TopicPartition, Stretch] = {}
    due: dict[TopicPartition, set[int]] = {}
    for one in sorted(stretches, key=lambda it: (it.tp, it.groups[0].record.offset if it.groups else 0)):
        if one.tp not in view.recreated:
            if one.tp not in found:
                found[one.tp], due[one.tp] = Stretch(one.tp), places_due(view, one.tp)
            found[one.tp].take(one, due[one.tp])
    return found


def shared(turns: Iterable[Turn]) -> list[Span]:
    """Return the ranges of events that two workers share."""
    found, reach = [], dict[int, int]()
    for turn in sorted(turns, key=lambda it: (it.first, it.last)):
        others = (last for worker, last in reach.items() if worker != turn.worker)
        if (upto := min(turn.last, max(others, default=-1))) >= turn.first:
            found.append((turn.first, upto))
        reach[turn.worker] = max(turn.last, reach.get(turn.worker, -1))
    return _merged(found)


def _merged(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found
