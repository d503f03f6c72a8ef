"""Look-ups of the checks in a captured snapshot, and the colours of records relative to it (rules R5, R8).

A record is *white* for a snapshot of epoch E, or red:

- of a process born at or after E (its id is the ledger offset of its `Hello`): red, whatever its header;
- of a process that had left before the trigger: white below the log end of then, red from there on;
- of any other: white if its header's epoch is below E. But a record after its sender's white end *counts as* red:
  below a receiver's position it is a witness against the cut.

Markers are never messages. A record without our header, or with one of another ledger or partition, is *external*.

A record of a process that is not part of the snapshot (an app out of its scope, a worker that the ledger does not
accept) is an *outsider's*: red if its header or its birth shows it; else its colour is unknown, unless that process
turned red for the snapshot as well. It is not a message of the snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from snapkafka.protocol.captured_snapshot import (
    Captured,
    ChangelogCut,
    InputCut,
    ProcessCut,
    Recorded,
    SenderEnd,
)
from snapkafka.protocol.records import NOBODY, SeqRange, TopicPartition

from .inputs import in_flight, named_inputs
from .log import EXTERNAL, NO_END, Keeping, LogBounds, LogRecord


class CutView:
    """Look-ups in a captured snapshot, and the colour of a record.

    Args:
        captured: the snapshot.
        bounds: the offsets that the log holds now. Without it, the log is assumed to hold everything (a simulator's
            does).
        starts: for a changelog with a parent, the offset up to which the parent stands for its state.
        seams: for such a changelog, the last record of its parent's state.
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
        self.bases = {TopicPartition(base.topic, base.partition): base for base in captured.bases}
        in_order = sorted(captured.bases, key=lambda base: base.author)
        authors = {app: base.author for base in in_order for app in base.apps}  # of their last restore
        #: Processes of before a restore of their app: their causes are offsets of the inputs as they were then.
        self.before_restore = {it.process for it in captured.processes if it.process < authors.get(it.app, 0)}
        #: Who may name offsets of a topic as it was before it was recreated.
        self.old_topics = {(item.process, item.topic) for item in captured.old_topics}
        self.outsiders = {outsider.process: outsider for outsider in captured.outsiders}
        self.any_left = any(cut.left for cut in captured.processes)
        #: Partitions that cannot be the ones of the snapshot any more, or never were: recreated, or cut short.
        self.recreated = frozenset(self._recreated())
        self.inputs: dict[TopicPartition, list[InputCut]] = defaultdict(list)
        self._readers: dict[str, set[str]] = defaultdict(set)  # topic -> apps
        for source in captured.inputs:
            self.inputs[TopicPartition(source.topic, source.partition)].append(source)
            self._readers[source.topic].add(source.app)
        self.named_inputs = named_inputs(captured)
        self.changelogs: dict[TopicPartition, list[ChangelogCut]] = defaultdict(list)
        for changelog in captured.changelogs:
            self.changelogs[TopicPartition(changelog.topic, changelog.partition)].append(changelog)
        self._state_ends = {tp: max(it.end for it in cuts) for tp, cuts in self.changelogs.items()}
        self.senders: dict[TopicPartition, dict[int, SenderEnd]] = defaultdict(dict)
        for sender in captured.senders:
            self.senders[TopicPartition(sender.topic, sender.partition)][sender.process] = sender

    def worker(self, process: int) -> int:
        """Return the first id of a process that was declared dead and continues under another one; for any other its
        own id."""
        cut = self.processes.get(process)
        while cut is not None and NOBODY < cut.formerly < process:
            process = cut.formerly
            cut = self.processes.get(process)
        return process

    # -- ends -------------------------------------------------------------------------------------------------

    def log_start(self, tp: TopicPartition) -> int:
        return self.bounds[tp].start if self.bounds is not None and tp in self.bounds else 0

    def keeping(self, tp: TopicPartition) -> Keeping | None:
        """Return what is kept of a partition; None: unknown, as if its age is impossible: clocks that disagree prove
        nothing."""
        keeping = self.bounds[tp].keeping if self.bounds is not None and tp in self.bounds else None
        return None if keeping is None or keeping.age_ms < 0 else keeping

    def state_start(self, tp: TopicPartition) -> int:
        """Return the offset below which the parent's state stands for a changelog; 0: there is no parent."""
        return self.starts.get(tp, 0)

    def seam(self, tp: TopicPartition) -> int | None:
        """Return the offset of the last record in the parent's state of a changelog partition; None: unknown."""
        last = self.seams.get(tp)
        return None if last is None else last.white_end - 1

    def state_end(self, tp: TopicPartition) -> int:
        """Return the end of a changelog partition: its state is the fold of the white records below."""
        return self._state_ends.get(tp, 0)

    def tables_of_several(self, flag: str) -> dict[tuple[str, str], tuple[TopicPartition, ...]]:
        """Return the tables, by app and name, that have several changelog partitions, with these; without recreated
        ones. `flag`: the field of `ChangelogCut` that is set for them."""
        found: dict[tuple[str, str], set[TopicPartition]] = defaultdict(set)
        for tp, cuts in self.changelogs.items():
            for cut in cuts:
                if getattr(cut, flag) and tp not in self.recreated:
                    found[cut.app, cut.table].add(tp)
        return {table: tuple(sorted(tps)) for table, tps in sorted(found.items()) if len(tps) > 1}

    def only_state_below(self, tp: TopicPartition) -> int:
        """Return the offset below which a partition is only a changelog, so that compaction there concerns V3 alone:
        no reader has anything to start there, and none can have received a red record there (R1). 0: it is not a
        changelog."""
        if tp not in self.changelogs:
            return 0
        return min((min(source.position, source.low) for source in self.inputs.get(tp, ())), default=NO_END)

    def white_end(self, process: int, tp: TopicPartition) -> int:
        """Return the offset below which the white records of a living sender lie, with those of unknown outcome that
        landed; 0: there are none."""
        end = self.sender(process, tp)
        return max(end.white_end, end.landed_end) if end is not None else 0

    def sender(self, process: int, tp: TopicPartition) -> SenderEnd | None:
        """Return the report of a living process about a partition; None: it sent nothing there."""
        return self.senders[tp].get(process) if tp in self.senders else None

    def sent_end(self, process: int, tp: TopicPartition) -> int:
        """Return the offset below which lie the sends of the events that ran at a living process's cut, as far as
        known: its marker follows them, and so does the end of a changelog that it names."""
        end = self.sender(process, tp)
        ends = [] if end is None else [self.white_end(process, tp), end.marker]
        ends += [changelog.end for changelog in self.changelogs.get(tp, ()) if changelog.process == process]
        return max(ends, default=0)

    def unacknowledged(self, process: int, tp: TopicPartition, *, lost: bool = False) -> tuple[SeqRange, ...]:
        """Return the seqs whose sends were refused or have no outcome, as their sender reports; no two ranges meet.

        Args:
            lost: whether to leave out those that were undone.
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
        """Return whether its sender reports this record as unacknowledged."""
        end = self.sender(record.process, record.tp)
        return end is not None and any(i.first <= record.seq <= i.last for i in end.unacknowledged)

    def is_copy(self, record: LogRecord) -> bool:
        """Return whether this record was sent before, and appended once more, with its headers, by a program that
        queued it again. Its sender knows which seqs it has sent: a new record at this place would have a new seq."""
        end = self.sender(record.process, record.tp)
        if end is None or not self.white_stamped(record) or self.is_unacknowledged(record):
            return False
        past_end = record.offset >= self.white_end(record.process, record.tp) and record.seq <= end.last_seq
        return past_end or (record.offset >= end.earlier_end and record.seq <= end.earlier_seq)

    def closed_end(self, tp: TopicPartition) -> int:
        """Return the highest end that the snapshot names for the partition: everything white lies below it. Where it
        does not know the end of the log, what a process that left had sent may lie anywhere."""
        if not all(source.end_known for source in self.inputs.get(tp, ())):
            return NO_END
        ends = [self.white_end(process, tp) for process in self.senders.get(tp, ())]
        ends += [max(source.position, source.log_end) for source in self.inputs.get(tp, ())]
        ends += [changelog.end for changelog in self.changelogs.get(tp, ())]
        return max(ends, default=0)

    def living(self, process: int) -> bool:
        """Return whether a process cut and reported for this snapshot."""
        cut = self.processes.get(process)
        return cut is not None and not cut.left

    def left(self, process: int) -> bool:
        cut = self.processes.get(process)
        return cut is not None and cut.left

    def judged_end(self, process: int, tp: TopicPartition) -> int:
        """Return the offset below which the seqs of a process must have no gap; red records after it do not concern
        this snapshot."""
        if self.living(process):
            return self.white_end(process, tp)
        return self.closed_end(tp) if self.left(process) else 0

    def left_end(self, tp: TopicPartition) -> int:
        """Return the offset below which records of a process that left before the trigger count as white.

        It is 0 if an app reads the topic and has not cut this partition of it, as it was added recently: that app has
        seen nothing of it.
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
        """Return whether the causes of a process's records in this input are offsets of the present topic."""
        tp = TopicPartition(source.topic, source.partition)
        return not (
            process in self.before_restore or tp in self.recreated or (process, tp.topic) in self.old_topics
        )

    def input_named(self, process: int, mark: int) -> TopicPartition:
        """Return the input that a header of a process names by a number (`inputs.mark_of`)."""
        cut = self.processes.get(process)
        source = None if cut is None else self.named_inputs.get(cut.app, {}).get(mark)
        if source is None:  # no event that is known
            return TopicPartition(f"#{mark >> 16}", mark & 0xFFFF)
        return TopicPartition(source.topic, source.partition)

    def received_since(self, tp: TopicPartition) -> int:
        """Return the offset from which on a received record may be red (R1)."""
        return max((source.low for source in self.inputs.get(tp, ())), default=0)

    def outsiders_record(self, record: LogRecord) -> bool:
        """Return whether an outsider sent it, and its header leaves open whether it was white."""
        if record.process == EXTERNAL or record.marker or record.process in self.processes:
            return False
        outsider = self.outsiders.get(record.process)
        return self.is_white(record) and (outsider is None or not outsider.harmless)

    def is_void(self, record: LogRecord) -> bool:
        """Return whether a process that is older than a restore appended it to the restored log. Then no process takes
        it in."""
        base = self.bases.get(record.tp) if record.process in self.before_restore else None
        return base is not None and record.offset >= base.end

    # -- colours ----------------------------------------------------------------------------------------------

    def is_white(self, record: LogRecord) -> bool:
        """Return whether a record is white by its sender's birth and its header, below the ends that bound it."""
        if record.process == EXTERNAL or self.left(record.process):
            return True
        return record.process < self.epoch and record.epoch < self.epoch

    def white_stamped(self, record: LogRecord) -> bool:
        """Return whether it was sent in white by a living process; it may lie past the sender's end."""
        return self.living(record.process) and self.is_white(record) and not record.marker

    def red_stamped(self, record: LogRecord) -> bool:
        """Return whether it was sent in red by a process that is white: after its cut."""
        return self.living(record.process) and not self.is_white(record) and not record.marker

    def counts_white(self, record: LogRecord) -> bool:
        """Return whether it is white, by its header and by the ends that its sender or the receivers saw."""
        if record.marker:
            return False
        if self.left(record.process):
            return record.offset < self.left_end(record.tp)
        return self.white_stamped(record) and record.offset < self.white_end(record.process, record.tp)

    def in_state(self, record: LogRecord) -> bool:
        """Return whether this record of a changelog is part of the state at the cut."""
        if record.marker or record.offset >= self.state_end(record.tp):
            return False
        return self.is_white(record) and not self.is_void(record)

    def in_channel(self, record: LogRecord, source: InputCut) -> bool:
        """Return whether this record is a message that was in flight to the app of `source` (R8)."""
        if record.marker or not in_flight(source, record.offset) or self.is_void(record):
            return False
        return self.sent_before(record, source)

    def sent_before(self, record: LogRecord, source: InputCut) -> bool:
        """Return whether it was sent before the cut, for the app of `source`."""
        if self.left(record.process):
            return record.offset < source.log_end
        return self.white_stamped(record) and record.offset < self.white_end(record.process, record.tp)

    # -- what must be there -----------------------------------------------------------------------------------

    def last_ones(self) -> Iterator[tuple[TopicPartition, SenderEnd]]:
        """Yield the last acknowledged white records of living senders that are not known to be deleted."""
        for tp, senders in self.senders.items():
            for end in senders.values() if tp not in self.recreated else ():
                if end.last_seq >= 0 and end.white_end > self.log_start(tp):
                    yield tp, end

    def last_in_flight(self) -> Iterator[tuple[TopicPartition, SenderEnd, InputCut]]:
        """Yield those of `last_ones` that were in flight."""
        for tp, end in self.last_ones():
            yield from ((tp, end, it) for it in self.inputs.get(tp, ()) if it.position < end.white_end)

    def last_behind(self) -> Iterator[tuple[TopicPartition, SenderEnd, str]]:
        """Yield those of `last_ones` that an app has received, or folds into its state; with that app."""
        for tp, end in self.last_ones():
            apps = {it.app for it in self.inputs.get(tp, ()) if it.position >= end.white_end}
            apps |= {it.app for it in self.changelogs.get(tp, ()) if it.end >= end.white_end}
            yield from ((tp, end, app) for app in sorted(apps))

    @cached_property
    def recorded(self) -> Mapping[TopicPartition, list[tuple[Recorded, InputCut]]]:
        """The ranges that receivers recorded, each with its input, by partition."""
        found: dict[TopicPartition, list[tuple[Recorded, InputCut]]] = defaultdict(list)
        for item in self.captured.recorded:
            tp = TopicPartition(item.topic, item.partition)
            found[tp] += [(item, source) for source in self.inputs.get(tp, []) if source.app == item.app]
        return found

    @cached_property
    def apps_of_several(self) -> frozenset[str]:
        """The apps of which the snapshot knows several workers; in the others no event can have run in a second one.
        The earlier readers of an input may be unknown (the ledger was recreated)."""
        workers: dict[str, set[int]] = defaultdict(set)
        for process, cut in self.processes.items():
            if process not in self.before_restore:
                workers[cut.app].add(self.worker(process))
        return frozenset(app for app, known in workers.items() if len(known) > 1)

    def _recreated(self) -> Iterable[TopicPartition]:
        """Return the partitions of topics that were recreated, as any cut that reports them shows: several apps may
        read a topic, and an input of one may be a changelog of another."""
        needed = [(cut.topic, cut.partition, cut.position, cut.topic_id) for cut in self.captured.inputs]
        needed += [(cut.topic, cut.partition, cut.end, cut.topic_id) for cut in self.captured.changelogs]
        for topic, partition, end, topic_id in needed:
            tp = TopicPartition(topic, partition)
            now = LogBounds(start=0, end=end) if self.bounds is None else self.bounds.get(tp)
            if now is None or now.end < end or (topic_id and now.topic_id not in ("", topic_id)):
                yield tp
