"""The captured snapshot as the checks ask about it, and the colours of records relative to it (rules R5, R8).

A record is *white* for a snapshot of epoch E, or red:

- of a process born at or after E (its id is the ledger offset of its `Hello`): red, whatever its header states;
- of a process that had left before the trigger: white below the log end that the receiver saw, red from there on;
- of any other: white if its header's epoch is below E. But what comes after its sender's white end *counts as* red:
  below a receiver's position it is a witness against the cut.

Markers are never messages. A record without our header, or with one that does not belong there, is *external*.

A record of a process that is not part of the snapshot (an app out of its scope, a worker that the ledger does not
accept) is an *outsider's*: red if its header or its birth shows it; else its colour is unknown, unless that process
turned red for the snapshot as well. It is not a message of the snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from snapkafka.protocol.captured_snapshot import (
    Captured,
    ChangelogCut,
    InputCut,
    ProcessCut,
    Recorded,
    SenderEnd,
)
from snapkafka.protocol.records import NOBODY, SeqRange, TopicPartition

__all__ = [
    "EXTERNAL",
    "CutView",
    "Keeping",
    "LogBounds",
    "LogRecord",
    "in_flight",
    "read_before",
    "received",
    "red_by_itself",
]

#: The process of a record that none of ours wrote.
EXTERNAL: Final = -1
#: Past every offset.
NO_END: Final = (1 << 63) - 1


class LogRecord(NamedTuple):
    """Hold what a check needs of a record: where it is, and what its `_sk` header states (`process` EXTERNAL: no
    header).

    `cause`: partition and offset of the record whose event it is an effect of; None: of none, or not stamped.
    `key_hash`: None where it has no key, or none that matters here.
    """

    topic: str
    partition: int
    offset: int
    process: int = EXTERNAL
    epoch: int = 0
    seq: int = -1
    marker: bool = False
    cause: tuple[TopicPartition, int] | None = None
    key_hash: int | None = None

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """Hold what the broker has promised to keep of a partition since the cut, in milliseconds, and how old that is by
    now.

    `uncompacted_ms`: a record younger than that supersedes none (min.compaction.lag.ms). `tombstones_ms`: so long a
    deletion stays (delete.retention.ms). `retained_ms`: older records may be deleted; None: none ever is for its age.
    `since_parent`: the same since the cut of the parent, where one stands for the state up to there; None: none does.
    """

    age_ms: int
    uncompacted_ms: int = 0
    tombstones_ms: int = 0
    retained_ms: int | None = None
    since_parent: Keeping | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """Hold what a partition's log holds now: offsets `[start, end)`; `topic_id` is Kafka's own, hex, empty if unknown.

    `keeping`: None where it is not known.
    """

    start: int
    end: int
    topic_id: str = ""
    keeping: Keeping | None = None


class CutView:
    """Lookups into a captured snapshot, and the colour of a record.

    Args:
        captured: the snapshot.
        bounds: what the log holds now. Without, the log is taken to hold everything (a simulator's does).
        starts: where a parent stands for the state of a changelog, up to where it does.
        seams: of such a changelog, the record of which its parent's state ends with.
    """

    def __init__(
        self,
        captured: Captured,
        bounds: dict[TopicPartition, LogBounds] | None = None,
        starts: Mapping[TopicPartition, int] | None = None,
        seams: Mapping[TopicPartition, SenderEnd] | None = None,
    ) -> None:
        self.captured = captured
        self.starts = starts or {}
        self.seams = seams or {}
        self.epoch = captured.epoch
        self.bounds = bounds
        self.processes: dict[int, ProcessCut] = {cut.process: cut for cut in captured.processes}
        self._authors: dict[str, int] = {}  # app -> the process that restored it last
        self.bases = {TopicPartition(base.topic, base.partition): base for base in captured.bases}
        for base in captured.bases:
            for app in base.apps:
                self._authors[app] = max(base.author, self._authors.get(app, base.author))
        #: Processes of before a restore of their app: their causes are offsets of the inputs as they were then.
        self.before_restore = frozenset(
            cut.process for cut in captured.processes if cut.process < self._authors.get(cut.app, 0)
        )
        #: Who may name offsets of a topic as it was before it was recreated.
        self.old_topics = {(item.process, item.topic) for item in captured.old_topics}
        self.outsiders = {outsider.process: outsider for outsider in captured.outsiders}
        self.any_left = any(cut.left for cut in captured.processes)
        #: Topics of which processes of the snapshot knew two, by the first that knew an old one.
        self.renewed = {item.topic: item for item in reversed(captured.renewed)}
        #: Partitions that cannot be the ones of the snapshot any more, or never were: recreated, or cut short.
        self.recreated = frozenset(self._recreated())
        self.inputs: dict[TopicPartition, list[InputCut]] = defaultdict(list)
        self._readers: dict[str, set[str]] = defaultdict(set)  # topic -> apps
        for source in captured.inputs:
            self.inputs[TopicPartition(source.topic, source.partition)].append(source)
            self._readers[source.topic].add(source.app)
        self.changelogs: dict[TopicPartition, list[ChangelogCut]] = defaultdict(list)
        for changelog in captured.changelogs:
            self.changelogs[TopicPartition(changelog.topic, changelog.partition)].append(changelog)
        self.senders: dict[TopicPartition, dict[int, SenderEnd]] = defaultdict(dict)
        for sender in captured.senders:
            self.senders[TopicPartition(sender.topic, sender.partition)][sender.process] = sender

    def worker(self, process: int) -> int:
        """The first id of a process that was taken for dead and goes on under another one; of any other its own."""
        cut = self.processes.get(process)
        while cut is not None and NOBODY < cut.formerly < process:
            process = cut.formerly
            cut = self.processes.get(process)
        return process

    # -- ends -------------------------------------------------------------------------------------------------

    def log_start(self, tp: TopicPartition) -> int:
        return self.bounds[tp].start if self.bounds is not None and tp in self.bounds else 0

    def keeping(self, tp: TopicPartition) -> Keeping | None:
        return self.bounds[tp].keeping if self.bounds is not None and tp in self.bounds else None

    def state_start(self, tp: TopicPartition) -> int:
        """Return the offset below which all that counts for a changelog's state is in the parent's state; 0:
        nothing."""
        return self.starts.get(tp, 0)

    def seam(self, tp: TopicPartition) -> int | None:
        """The offset of the record that the parent's state of a changelog partition ends with; None: none is known."""
        last = self.seams.get(tp)
        return None if last is None else last.white_end - 1

    def state_end(self, tp: TopicPartition) -> int:
        """The state of a changelog partition is the fold of its white records below this."""
        return max((changelog.end for changelog in self.changelogs.get(tp, ())), default=0)

    @property
    def global_tables(self) -> list[tuple[TopicPartition, ...]]:
        """The changelog partitions of each global table that has several of them, in order."""
        found: dict[tuple[str, str], set[TopicPartition]] = defaultdict(set)
        for tp, cuts in self.changelogs.items():
            for cut in cuts:
                if cut.is_global:
                    found[cut.app, cut.table].add(tp)
        return [tuple(sorted(tps)) for _, tps in sorted(found.items()) if len(tps) > 1]

    def only_state_below(self, tp: TopicPartition) -> int:
        """Below this a partition is a changelog and no more, so what compaction took there is for V3 alone to judge: no
        reader has anything to start there, and nothing is red that one could have received (R1). 0: it is not one."""
        if tp not in self.changelogs:
            return 0
        return min((min(source.position, source.low) for source in self.inputs.get(tp, ())), default=NO_END)

    @property
    def topics_read(self) -> set[str]:
        """The topics that somebody reads."""
        return {tp.topic for tp in self.inputs}

    @property
    def state_offsets(self) -> int:
        """How many offsets of changelogs the state is folded from, at most."""
        return sum(self.state_end(tp) - self.state_start(tp) for tp in self.changelogs)

    def white_end(self, process: int, tp: TopicPartition) -> int:
        """Below this lies what a living sender sent in white, and what landed of sends whose result it does not know; 0
        if it closed none there."""
        end = self.sender(process, tp)
        return max(end.white_end, end.landed_end) if end is not None else 0

    def sender(self, process: int, tp: TopicPartition) -> SenderEnd | None:
        """Return what a living process reported of a partition; None: it sent nothing there."""
        return self.senders[tp].get(process) if tp in self.senders else None

    def sent_end(self, process: int, tp: TopicPartition) -> int:
        """Return the offset below which lies what a living process sends of the events running at its cut, as far as
        known: its marker follows it, and so does the end that it names of a changelog."""
        end = self.sender(process, tp)
        ends = [] if end is None else [self.white_end(process, tp), end.marker]
        ends += [changelog.end for changelog in self.changelogs.get(tp, ()) if changelog.process == process]
        return max(ends, default=0)

    def unacknowledged(self, process: int, tp: TopicPartition, *, lost: bool = False) -> tuple[SeqRange, ...]:
        """Seqs whose sends were refused or have no result, as their sender reports; no two ranges meet.

        Args:
            lost: without those that were undone.
        """
        end = self.sender(process, tp)
        found: list[SeqRange] = []
        for item in end.unacknowledged if end is not None else ():
            if lost and item.undone:
                continue
            if found and item.first <= found[-1].last + 1:
                found[-1] = SeqRange(first=found[-1].first, last=max(found[-1].last, item.last))
            else:
                found.append(SeqRange(first=item.first, last=item.last))
        return tuple(found)

    def is_unacknowledged(self, record: LogRecord) -> bool:
        """Does its sender report that it does not know of this record?"""
        end = self.sender(record.process, record.tp)
        return end is not None and any(i.first <= record.seq <= i.last for i in end.unacknowledged)

    def is_copy(self, record: LogRecord) -> bool:
        """Was this record sent before, and appended once more, with its headers, by whoever queued it again? Its sender
        knows where it had sent as much: there a record with a new seq would have to stand, or none."""
        end = self.sender(record.process, record.tp)
        if end is None or not self.white_stamped(record) or self.is_unacknowledged(record):
            return False
        past_end = record.offset >= self.white_end(record.process, record.tp) and record.seq <= end.last_seq
        return past_end or (record.offset >= end.earlier_end and record.seq <= end.earlier_seq)

    def closed_end(self, tp: TopicPartition) -> int:
        """The highest end that the snapshot names for the partition: everything white lies below it."""
        ends = [self.white_end(process, tp) for process in self.senders.get(tp, ())]
        ends += [max(source.position, source.log_end) for source in self.inputs.get(tp, ())]
        ends += [changelog.end for changelog in self.changelogs.get(tp, ())]
        return max(ends, default=0)

    def living(self, process: int) -> bool:
        """Did it cut and close for this snapshot?"""
        cut = self.processes.get(process)
        return cut is not None and not cut.left

    def left(self, process: int) -> bool:
        cut = self.processes.get(process)
        return cut is not None and cut.left

    def judged_end(self, process: int, tp: TopicPartition) -> int:
        """Below this offset the seqs of a process must be whole; what is red after it is not one of this snapshot's."""
        if self.living(process):
            return self.white_end(process, tp)
        return self.closed_end(tp) if self.left(process) else 0

    def left_end(self, tp: TopicPartition) -> int:
        """Return the offset below which records of a process that left before the trigger count as white.

        0 where an app reads the topic and has not cut this partition of it, as it was added of late: for that app
        nothing of it has been seen.
        """
        ends = {source.app: source.log_end for source in self.inputs.get(tp, ())}
        if self._readers.get(tp.topic, set()) - ends.keys():
            return 0
        written = [changelog.end for changelog in self.changelogs.get(tp, ())]
        landed = max((sender.landed_end for sender in self.senders.get(tp, {}).values()), default=0)
        if landed and written and landed >= min(written):  # of others than its sender that end tells nothing
            written = [max(sender.white_end for sender in self.senders[tp].values())]
        return min([*ends.values(), *written], default=0)

    def names_cause(self, process: int, source: InputCut) -> bool:
        """Are the causes that records of a process name into this input offsets of it as it is?"""
        tp = TopicPartition(source.topic, source.partition)
        return not (
            process in self.before_restore or tp in self.recreated or (process, tp.topic) in self.old_topics
        )

    def received_since(self, tp: TopicPartition) -> int:
        """Return the offset from which on a record that was received may be red (R1)."""
        return max((source.low for source in self.inputs.get(tp, ())), default=0)

    def outsiders_record(self, record: LogRecord) -> bool:
        """Did an outsider send it, and does its header leave open whether it was white?"""
        if record.process == EXTERNAL or record.marker or record.process in self.processes:
            return False
        if record.process >= self.epoch or record.epoch >= self.epoch:
            return False
        outsider = self.outsiders.get(record.process)
        return outsider is None or not outsider.harmless

    def is_void(self, record: LogRecord) -> bool:
        """Did a process of before a restore append it to the restored log? Then nobody takes it in."""
        base = self.bases.get(record.tp)
        return base is not None and record.process in self.before_restore and record.offset >= base.end

    # -- colours ----------------------------------------------------------------------------------------------

    def white_stamped(self, record: LogRecord) -> bool:
        """Sent in white by a living process, as far as its header shows; it may lie past the sender's end."""
        return self.living(record.process) and record.epoch < self.epoch and not record.marker

    def red_stamped(self, record: LogRecord) -> bool:
        """Sent in red by a process that is white, as far as its header shows: after its cut."""
        return self.living(record.process) and record.epoch >= self.epoch and not record.marker

    def counts_white(self, record: LogRecord) -> bool:
        """Is it white, by its header and by the ends that its sender or the receivers saw?"""
        if record.marker:
            return False
        if self.left(record.process):
            return record.offset < self.left_end(record.tp)
        return self.white_stamped(record) and record.offset < self.white_end(record.process, record.tp)

    def in_state(self, record: LogRecord) -> bool:
        """Is this record of a changelog part of the state at the cut?"""
        if record.marker or record.process >= self.epoch or record.offset >= self.state_end(record.tp):
            return False
        if self.before_restore and self.is_void(record):
            return False
        return record.process == EXTERNAL or self.left(record.process) or record.epoch < self.epoch

    def in_channel(self, record: LogRecord, source: InputCut) -> bool:
        """Is this record a message that was in flight to the app of `source`? (R8)"""
        if record.marker or not in_flight(source, record.offset):
            return False
        if self.before_restore and self.is_void(record):
            return False
        if self.left(record.process):
            return record.offset < source.log_end
        return self.white_stamped(record) and record.offset < self.white_end(record.process, record.tp)

    def why_red(self, record: LogRecord, source: InputCut) -> tuple[str, int] | None:
        """Why a record counts as red for an input: kind of finding and its number; None where it does not."""
        if record.process == EXTERNAL or record.marker:
            return None
        if record.process >= self.epoch:
            return "red-birth", record.epoch
        if self.left(record.process):
            return ("red-late", source.log_end) if record.offset >= source.log_end else None
        if record.epoch >= self.epoch:
            return "red-header", record.epoch
        if self.living(record.process) and record.offset >= self.white_end(record.process, record.tp):
            if self.is_copy(record):
                return None
            kind = "received-unsettled" if self.is_unacknowledged(record) else "red-late"
            return kind, self.white_end(record.process, record.tp)
        return None

    # -- what must be there -----------------------------------------------------------------------------------

    def last_in_flight(self) -> Iterator[tuple[TopicPartition, SenderEnd, InputCut]]:
        """Last white records of living senders that were in flight, and are not known to be no longer in the log."""
        for tp, sources in self.inputs.items():
            for source in sources:
                for end in self.senders.get(tp, {}).values():
                    in_log = (
                        end.white_end > max(source.position, self.log_start(tp)) and tp not in self.recreated
                    )
                    if end.last_seq >= 0 and in_log:
                        yield tp, end, source

    def last_behind(self) -> Iterator[tuple[TopicPartition, SenderEnd, str]]:
        """Last acknowledged white records of living senders that an app has received, or folds into its state, and
        that are not known to be missing from the log; with that app."""
        upto: dict[tuple[TopicPartition, str], int] = defaultdict(int)
        for tp, sources in self.inputs.items():
            for source in sources:
                upto[tp, source.app] = max(upto[tp, source.app], source.position)
        for tp, cuts in self.changelogs.items():
            for cut in cuts:
                upto[tp, cut.app] = max(upto[tp, cut.app], cut.end)
        for (tp, app), below in sorted(upto.items()):
            for end in self.senders.get(tp, {}).values() if tp not in self.recreated else ():
                if end.last_seq >= 0 and self.log_start(tp) < end.white_end <= below:
                    yield tp, end, app

    def recorded(self) -> Iterator[tuple[Recorded, InputCut]]:
        """Ranges that receivers recorded, each with the input that it was recorded for."""
        for item in self.captured.recorded:
            tp = TopicPartition(item.topic, item.partition)
            if self.living(item.sender) and tp not in self.recreated:
                yield from ((item, source) for source in self.inputs.get(tp, []) if source.app == item.app)

    def _recreated(self) -> Iterable[TopicPartition]:
        """Those that any of the cuts which report them shows to be another one: several apps may read it, and one of
        them another's changelog."""
        captured = self.captured
        named = {(cut.topic, cut.partition) for cut in captured.inputs}
        named |= {(cut.topic, cut.partition) for cut in captured.changelogs}
        yield from (TopicPartition(*place) for place in named if place[0] in self.renewed)
        if self.bounds is None:
            return
        needed = [(cut.topic, cut.partition, cut.position, cut.topic_id) for cut in captured.inputs]
        needed += [(cut.topic, cut.partition, cut.end, cut.topic_id) for cut in captured.changelogs]
        for topic, partition, end, topic_id in needed:
            tp = TopicPartition(topic, partition)
            now = self.bounds.get(tp)
            if now is None or now.end < end or (topic_id and now.topic_id and now.topic_id != topic_id):
                yield tp


def red_by_itself(view: CutView, record: LogRecord) -> bool:
    """Is it red, as its header shows, whatever anybody saw of its partition?"""
    if record.process == EXTERNAL or record.marker:
        return False
    return record.process >= view.epoch or (not view.left(record.process) and record.epoch >= view.epoch)


def read_before(source: InputCut, process: int) -> bool:
    """Did `process` read the input before the one that cut it? Who came later replays nothing."""
    return process != source.receiver and (process in source.earlier or NOBODY in source.earlier)


def in_flight(source: InputCut, offset: int) -> bool:
    """Has some agent of the input still to start this offset?"""
    if not source.agents:
        return offset >= source.position
    return any(offset >= agent.offset and offset not in agent.started_above for agent in source.agents)


def received(source: InputCut, offset: int) -> bool:
    """Has some agent of the input started this offset?"""
    if not source.agents:
        return offset < source.position
    return any(offset < agent.offset or offset in agent.started_above for agent in source.agents)
