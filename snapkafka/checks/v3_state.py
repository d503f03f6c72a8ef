"""V3: the check that the state of the tables is complete, and that compaction has not removed records that the cut
needs.

The state of a key is its last white value below the changelog's end. Compaction may remove a value that a later white
one supersedes: that is its purpose. But a *red* value, written after the cut, supersedes it as well, and then the log
holds no value of that key for the snapshot. From the log alone:

1. *No offset is missing* between the log's start (0) and the end: nothing was removed.
2. *The last white record is missing*: nothing white can have superseded it. Unless it was a deletion, the state is
   incomplete.
3. *A superseded value is still there.* The cleaner goes through a log from its beginning and leaves one value per key
   up to where it has come. So if there are two records of one key, it has not reached the second one; and if no record
   from after the cut lies below that, it has not reached any such record.
4. *No key is overtaken*: every key that was written after the cut still has a white value below it.

3 and 4 hold as long as deletions written after the cut must still be in the log (`delete.retention.ms`), since they
supersede values and are then removed themselves. Otherwise the topic's settings may decide: records younger than
`min.compaction.lag.ms` supersede nothing, so a cut younger than that is safe. Else the state is unverifiable:
compaction is no fault, and accuses nobody.

If a snapshot builds on a parent, these conditions apply to its delta alone: the parent's state was proven before. But
then deletions in the delta count: a deletion that was removed leaves its key in the state, as the parent has it. So if
offsets are missing, deletions must have been kept since the parent's cut, or nothing was compacted since. The *join*
is checked as well: the last record of the parent's state must still be at its offset. If another one is there, the log
was truncated and continued since (a leader that lagged behind was elected, a disk was set back), and rows of the
parent come from records that no longer exist. V1 checks that the log continues without a gap: the last record of the
parent is read with the delta, so seqs have to follow it.

Every worker has all of a *global table*: it writes to the changelog partitions that it was assigned, and takes in the
others as they come (Faust's standbys). A key that was written in several partitions has the value that came last, but
the log has no order across partitions: seqs count per partition and process. So the key is named, and the state is
unverifiable (`state-unordered`). In tables of sets keys are operations, so it is enough that two partitions hold
anything; and so it is if a parent stands for a part of the state, as its keys are not read again.

The facts are gathered by `facts_of` from the log, and by `key_facts` from questions about its keys (`questions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from snapkafka.protocol.records import TopicPartition

from . import questions
from .log import NO_END, Keeping
from .ranges import ReadRange
from .sequences import CutLog
from .stretch import Stretch
from .view import CutView
from .witness import Finding

#: The clocks of broker, services and reader may differ by so much.
CLOCKS_MS: Final = 60_000


class StateFacts(NamedTuple):
    """The facts about the cut in the log of a changelog partition.

    `held`: number of records below the end that no parent stands for. `last_white`: the highest offset of the state;
    -1: there is none. `first_later`: the lowest offset written after the cut (red, or past the end); its end if there
    is none. `at_seam`: process and seq of the record at the parent's end; None: there is none, or no parent.
    """

    held: int = 0
    last_white: int = -1
    first_later: int = NO_END
    at_seam: tuple[int, int] | None = None


class KeyFacts(NamedTuple):
    """The facts about the keys of a partition. `superseded`: the log still holds some value that another one of its key
    supersedes, both below all records from after the cut. `overtaken`: how many keys have no white value; `first`: the
    lowest offset after the cut of one of them."""

    superseded: bool = False
    overtaken: int = 0
    first: int | None = None


def find(log: CutLog) -> Iterator[Finding]:
    """Find what is missing from the state (V3), and what may be."""
    view, facts, asked = log.view, facts_by_partition(log), dict[TopicPartition, StateFacts]()
    for tp, fact in facts.items():
        if (other := _seam(view, tp, fact) or _last_missing(view, tp, fact)) is not None:
            yield other
            continue
        if (start := view.log_start(tp)) > view.state_start(tp):
            yield Finding("state-expired" if _expired(view, tp) else "state-gone", *tp, start, a=start)
        keeping, holes = view.keeping(tp), _holes(view, tp, fact)
        lacks_deletions = keeping is not None and _may_lack_deletions(keeping.since_parent)
        too_young = keeping is not None and _outlasts(keeping.uncompacted_ms, keeping)
        if not holes or (too_young and not lacks_deletions):
            continue
        if _deletions_stay(keeping) and not lacks_deletions and not any(c.sets for c in view.changelogs[tp]):
            asked[tp] = fact
        else:
            yield Finding("state-unproven", *tp, view.state_end(tp), a=holes)
    for tp, keys in key_facts(log, asked).items() if asked else ():
        holes = _holes(view, tp, asked[tp])
        if keys.superseded:
            continue
        if keys.first is not None and keys.overtaken:
            yield Finding("state-overtaken", *tp, keys.first, a=holes, number=keys.overtaken)
        elif not log.read_to_the_end(tp):
            yield Finding("state-unproven", *tp, view.state_end(tp), a=holes)
    yield from _unordered(log, facts)


def facts_by_partition(log: CutLog) -> dict[TopicPartition, StateFacts]:
    """Gather the facts of each changelog partition, in order."""
    return {tp: facts_of(log.view, log.stretches.get(tp) or Stretch(tp)) for tp in questions.places(log.view)}


def facts_of(view: CutView, of: Stretch) -> StateFacts:
    """Gather the facts of one changelog partition."""
    start, end, seam = view.state_start(of.tp), view.state_end(of.tp), view.seam(of.tp)
    white = [group for group in of.groups if view.in_state(group.record)]
    later = (it.record for it in of.groups if not it.record.marker and not view.in_state(it.record))
    return StateFacts(
        held=sum(group.count for group in of.groups if start <= group.record.offset < end),
        last_white=max((group.last for group in white), default=-1),
        first_later=min((record.offset for record in later), default=end),
        at_seam=next(((it.process, it.seq) for _, it, _ in of.kept if it.offset == seam), None),
    )


def key_facts(log: CutLog, asked: Mapping[TopicPartition, StateFacts]) -> dict[TopicPartition, KeyFacts]:
    """Gather the key facts of the changelog partitions that are asked about. Compaction may have gone on while the log
    was read: what is superseded shows something only if it is still there afterwards."""
    places = questions.places(log.view)
    until = {place: asked[tp].first_later for place, tp in enumerate(places) if tp in asked}
    rows: dict[TopicPartition, list[Any]] = {
        places[place]: row for place, *row in log.source.ask(questions.of_keys(until))
    }
    shown = [ReadRange(*tp, at, at + 1) for tp, (at, *_) in rows.items() if at is not None]
    there = log.source.still_there(shown)
    return {tp: KeyFacts(tp in there, *rows[tp][1:]) if tp in rows else KeyFacts() for tp in asked}


def _unordered(log: CutLog, facts: Mapping[TopicPartition, StateFacts]) -> Iterator[Finding]:
    """Find keys of global tables whose last white records are in several partitions: one finding for each table."""
    view, places = log.view, questions.places(log.view)
    for tps in view.tables_of_several("is_global").values():
        lasts = {tp: facts[tp].last_white for tp in tps}
        written = [
            (tp, last if last >= 0 else view.state_end(tp) - 1)
            for tp, last in lasts.items()
            if last >= 0 or view.state_start(tp)
        ]
        if len(written) < 2 or not any(
            last >= view.state_start(tp) for tp, last in lasts.items() if last >= 0
        ):
            continue
        ((one, at), (other, last)), count = written[:2], 1
        if not any(view.state_start(tp) or any(c.sets for c in view.changelogs[tp]) for tp in tps):
            rows = log.source.ask(questions.of_unordered([places.index(tp) for tp in tps]))
            if not rows:
                continue
            first, at, second, last, count = rows[0]
            one, other = places[first], places[second]
        yield Finding("state-unordered", *other, last, a=one.partition, b=at, number=count)


def _seam(view: CutView, tp: TopicPartition, fact: StateFacts) -> Finding | None:
    """Return the finding for another record at the end of the parent's state. None stands there: compaction may have
    taken it, and accuses nobody."""
    last = view.seams.get(tp)
    if last is None or fact.at_seam in (None, (last.process, last.last_seq)):
        return None
    return Finding("state-seam", *tp, last.white_end - 1, *fact.at_seam, a=last.process, b=last.last_seq)


def _last_missing(view: CutView, tp: TopicPartition, fact: StateFacts) -> Finding | None:
    """Return the finding for the last white record of a changelog that is not there."""
    start = view.state_start(tp)
    ends = [end for end in view.senders.get(tp, {}).values() if end.last_seq >= 0 and end.white_end > start]
    last = max(ends, key=lambda end: end.white_end, default=None)
    if last is None or last.white_end - 1 <= fact.last_white:
        return None
    return Finding("state-last-missing", *tp, last.white_end - 1, last.process, last.last_seq)


def _holes(view: CutView, tp: TopicPartition, fact: StateFacts) -> int:
    return max(0, view.state_end(tp) - max(view.log_start(tp), view.state_start(tp))) - fact.held


def _expired(view: CutView, tp: TopicPartition) -> bool:
    """Return whether age can only have removed windows from the changelog that had expired before the cut."""
    keeping, windows_ms = view.keeping(tp), max(cut.expires_ms for cut in view.changelogs[tp])
    if keeping is None or keeping.retained_ms is None or not windows_ms:
        return False
    return keeping.retained_ms >= windows_ms + keeping.age_ms


def _outlasts(kept_ms: int, keeping: Keeping) -> bool:
    """Return whether what is kept for so long is there since the cut."""
    return kept_ms >= keeping.age_ms + CLOCKS_MS


def _may_lack_deletions(since: Keeping | None) -> bool:
    """Return whether a deletion that was written since the parent's cut may be missing."""
    if since is None:
        return False
    return since.age_ms < 0 or not _outlasts(max(since.tombstones_ms, since.uncompacted_ms), since)


def _deletions_stay(keeping: Keeping | None) -> bool:
    return keeping is not None and _outlasts(keeping.tombstones_ms, keeping)
