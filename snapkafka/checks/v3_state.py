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

The facts are gathered by `facts_of` and `key_facts_of` from a list, and by `snapkafka.assembly.spark.verify.v3_state`
in Spark; the conclusions are drawn here, once: one function per kind of finding, named as it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Final, NamedTuple

from snapkafka.protocol.records import TopicPartition

from .log import Keeping, LogRecord
from .ranges import ReadRange
from .sequences import CutLog
from .view import CutView
from .witness import Finding

#: The clocks of broker, services and reader may differ by so much.
CLOCKS_MS: Final = 60_000


class StateFacts(NamedTuple):
    """The facts about the cut in the log of a changelog partition.

    `held`: number of records below the end that no parent stands for. `last_white`: the highest offset of the state;
    -1: there is none. `first_later`: the lowest offset written after the cut (red, or past the end); None: there is
    none. `at_seam`: process and seq of the record at the parent's end; None: there is none, or no parent.
    """

    held: int = 0
    last_white: int = -1
    first_later: int | None = None
    at_seam: tuple[int, int] | None = None


class KeyFacts(NamedTuple):
    """The facts about the keys of a partition. `superseded`: the log still held some value that another one of its key
    supersedes, both below all records from after the cut; None: unknown. `overtaken`: the first offsets after the cut
    of keys that have no white value, in order; `overtaken_found`: how many there are. `to_the_end`: whether the log
    was read to its end."""

    superseded: int | None = None
    overtaken: tuple[int, ...] = ()
    overtaken_found: int = 0
    to_the_end: bool = True


class Place(NamedTuple):
    """The last white record of a key in one changelog partition."""

    topic: str
    partition: int
    offset: int


def unordered_tables(
    view: CutView, facts: Mapping[TopicPartition, StateFacts]
) -> tuple[list[Finding], list[tuple[TopicPartition, ...]]]:
    """Find global tables written in several partitions, as far as their keys are not needed; return also the
    partitions of the tables for which they are."""
    findings, asked = [], []
    for tps in view.global_tables:
        known = [(tp, facts.get(tp, StateFacts()).last_white) for tp in tps]
        written = [
            Place(*tp, last if last >= 0 else view.state_end(tp) - 1)
            for tp, last in known
            if last >= 0 or view.state_start(tp)
        ]
        if len(written) < 2 or not any(last >= view.state_start(tp) for tp, last in known):
            continue
        if any(view.state_start(tp) for tp in tps) or any(c.sets for tp in tps for c in view.changelogs[tp]):
            findings.append(state_unordered(written))
        else:
            asked.append(tps)
    return findings, asked


def judge(
    view: CutView, facts: Mapping[TopicPartition, StateFacts]
) -> tuple[list[Finding], dict[TopicPartition, StateFacts]]:
    """Find what is wrong with the state, as far as it can be determined without the keys.

    Args:
        facts: of each changelog partition; those of an empty one may be missing.

    Returns:
        findings, and the partitions for which the keys must be read, each with its facts.
    """
    findings: list[Finding] = []
    asked: dict[TopicPartition, StateFacts] = {}
    for tp in sorted(view.changelogs.keys() - view.recreated):
        fact = facts.get(tp, StateFacts())
        other = state_seam(view, tp, fact) or state_last_missing(view, tp, fact)
        if other is not None:
            findings.append(other)
            continue
        findings += [it for it in (state_expired(view, tp), state_gone(view, tp)) if it is not None]
        if not _holes(view, tp, fact) or (_too_young(view, tp) and not _may_lack_deletions(view, tp)):
            continue
        if _keys_may_show(view, tp):
            asked[tp] = fact
        else:
            findings.append(state_unproven(view, tp, fact))
    return findings, asked


def doubtful(view: CutView, tp: TopicPartition, fact: StateFacts, keys: KeyFacts) -> list[Finding]:
    """Find what is wrong with the state of a partition that `judge` asked about; overtaken keys are those in `keys`."""
    if keys.superseded is not None:
        return []
    if keys.overtaken:
        return state_overtaken(view, tp, fact, keys)
    return [] if keys.to_the_end else [state_unproven(view, tp, fact)]


def state_seam(view: CutView, tp: TopicPartition, fact: StateFacts) -> Finding | None:
    """Return the finding for another record at the end of the parent's state. None stands there: compaction may have
    taken it, and accuses nobody."""
    last = view.seams.get(tp)
    if last is None or fact.at_seam in (None, (last.process, last.last_seq)):
        return None
    return Finding("state-seam", *tp, last.white_end - 1, *fact.at_seam, a=last.process, b=last.last_seq)


def state_last_missing(view: CutView, tp: TopicPartition, fact: StateFacts) -> Finding | None:
    """Return the finding for the last white record of a changelog that is not there."""
    start = view.state_start(tp)
    ends = [end for end in view.senders.get(tp, {}).values() if end.last_seq >= 0 and end.white_end > start]
    last = max(ends, key=lambda end: end.white_end, default=None)
    if last is None or last.white_end - 1 <= fact.last_white:
        return None
    return Finding("state-last-missing", *tp, last.white_end - 1, last.process, last.last_seq)


def state_gone(view: CutView, tp: TopicPartition) -> Finding | None:
    """Return the finding for a log that starts above the start of the state."""
    start = view.log_start(tp)
    gone = start > view.state_start(tp) and not _expired(view, tp)
    return Finding("state-gone", *tp, start, a=start) if gone else None


def state_expired(view: CutView, tp: TopicPartition) -> Finding | None:
    """Return the finding for such a log from which only expired windows were removed."""
    start = view.log_start(tp)
    expired = start > view.state_start(tp) and _expired(view, tp)
    return Finding("state-expired", *tp, start, a=start) if expired else None


def state_unproven(view: CutView, tp: TopicPartition, fact: StateFacts) -> Finding:
    """Return the finding for missing offsets of which nothing shows what was there."""
    return Finding("state-unproven", *tp, view.state_end(tp), a=_holes(view, tp, fact))


def state_overtaken(view: CutView, tp: TopicPartition, fact: StateFacts, keys: KeyFacts) -> list[Finding]:
    """Return the findings for keys that were written after the cut and have no white value."""
    holes = _holes(view, tp, fact)
    return [Finding("state-overtaken", *tp, offset, a=holes) for offset in keys.overtaken]


def state_unordered(places: Sequence[Place]) -> Finding:
    """Return the finding for a key of a global table that is in several partitions, in their order."""
    first, second, *_ = places
    return Finding("state-unordered", *second, a=first.partition, b=first.offset)


def _keys_may_show(view: CutView, tp: TopicPartition) -> bool:
    """Return whether the keys of a changelog can show that nothing is missing but superseded values."""
    sets = any(cut.sets for cut in view.changelogs[tp])
    return not sets and _deletions_stay(view, tp) and not _may_lack_deletions(view, tp)


def _holes(view: CutView, tp: TopicPartition, fact: StateFacts) -> int:
    return max(0, view.state_end(tp) - max(view.log_start(tp), view.state_start(tp))) - fact.held


def _expired(view: CutView, tp: TopicPartition) -> bool:
    """Return whether age can only have removed windows from the changelog that had expired before the cut."""
    keeping, windows_ms = _known(view.keeping(tp)), max(cut.expires_ms for cut in view.changelogs[tp])
    if keeping is None or keeping.retained_ms is None or not windows_ms:
        return False
    return keeping.retained_ms >= windows_ms + keeping.age_ms


def _known(keeping: Keeping | None) -> Keeping | None:
    """Return `keeping`, unless its age is impossible: clocks that disagree prove nothing."""
    return None if keeping is None or keeping.age_ms < 0 else keeping


def _too_young(view: CutView, tp: TopicPartition) -> bool:
    keeping = _known(view.keeping(tp))
    return keeping is not None and keeping.uncompacted_ms >= keeping.age_ms + CLOCKS_MS


def _may_lack_deletions(view: CutView, tp: TopicPartition) -> bool:
    """Return whether a deletion that was written since the parent's cut may be missing."""
    keeping = view.keeping(tp)
    since = None if keeping is None else keeping.since_parent
    if since is not None and _known(since) is None:
        return True
    return since is not None and max(since.tombstones_ms, since.uncompacted_ms) < since.age_ms + CLOCKS_MS


def _deletions_stay(view: CutView, tp: TopicPartition) -> bool:
    keeping = _known(view.keeping(tp))
    return keeping is not None and keeping.tombstones_ms >= keeping.age_ms + CLOCKS_MS


# --- On lists -------------------------------------------------------------------------------------------------------

#: Tells which of some records, one offset each, are in the log at this moment.
StillThere = Callable[[Collection[ReadRange]], Set[TopicPartition]]


def find(log: CutLog, still_there: StillThere | None = None) -> list[Finding]:
    """Check state (V3): the changelogs are complete to the cut.

    Args:
        log: its records have their `key_hash`.
        still_there: compaction may have gone on while the log was read, so what is superseded shows something only if
            it is still there afterwards; None: the log does not change.
    """
    view = log.view
    facts = facts_by_partition(log)
    found, asked = judge(view, facts)
    keys = {tp: key_facts_of(view, log.by_partition.get(tp, [])) for tp in asked}
    shown = [ReadRange(*tp, at, at + 1) for tp, of in keys.items() if (at := of.superseded) is not None]
    there = set(asked) if still_there is None else still_there(shown)
    for tp, fact in asked.items():
        superseded = keys[tp].superseded if tp in there else None
        now = keys[tp]._replace(superseded=superseded, to_the_end=log.read_to_the_end(tp))
        found += doubtful(view, tp, fact, now)
    of_tables, keys_asked = unordered_tables(view, facts)
    found += of_tables
    for tps in keys_asked:
        found += _unordered_keys(view, [record for tp in tps for record in log.by_partition.get(tp, ())])
    return found


def facts_by_partition(log: CutLog) -> dict[TopicPartition, StateFacts]:
    """Gather the facts of each changelog partition that has records."""
    return {
        tp: facts_of(log.view, lines) for tp, lines in log.by_partition.items() if tp in log.view.changelogs
    }


def _unordered_keys(view: CutView, lines: Iterable[LogRecord]) -> list[Finding]:
    """Find unordered keys in the records of one global table."""
    last: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for record in lines:
        if record.key_hash is not None and view.in_state(record):
            last[record.key_hash][record.tp] = max(record.offset, last[record.key_hash].get(record.tp, -1))
    several = ([Place(*tp, at) for tp, at in sorted(places.items())] for places in last.values())
    return sorted((state_unordered(places) for places in several if len(places) > 1), key=lambda f: f.order)


def facts_of(view: CutView, lines: list[LogRecord]) -> StateFacts:
    """Gather the facts of one changelog partition from its records, in order."""
    if not lines:
        return StateFacts()
    tp, last_white, first_later = lines[0].tp, -1, None
    first, last = (bisect_left(lines, end, key=_offset) for end in (view.state_start(tp), view.state_end(tp)))
    for record in lines:
        if view.in_state(record):
            last_white = record.offset
        elif first_later is None and not record.marker:
            first_later = record.offset
    seam = view.seam(tp)
    return StateFacts(
        held=max(0, last - first),
        last_white=last_white,
        first_later=first_later,
        at_seam=next(((r.process, r.seq) for r in lines if r.offset == seam), None),
    )


def key_facts_of(view: CutView, lines: list[LogRecord]) -> KeyFacts:
    """Gather the key facts of one changelog partition from its records, in order, read to its end."""
    first_later = facts_of(view, lines).first_later
    white: dict[int | None, int] = {}
    superseded = None
    overtaken: dict[int | None, int] = {}
    for record in lines:
        if record.key_hash is None:
            continue
        if view.in_state(record):
            before_later = first_later is None or record.offset < first_later
            if record.key_hash in white and before_later:
                first = white[record.key_hash]
                superseded = first if superseded is None else min(superseded, first)
            white.setdefault(record.key_hash, record.offset)
        elif _later(view, record):
            overtaken.setdefault(record.key_hash, record.offset)
    found = sorted(offset for key, offset in overtaken.items() if key not in white)
    return KeyFacts(superseded=superseded, overtaken=tuple(found), overtaken_found=len(found))


def _offset(record: LogRecord) -> int:
    return record.offset


def _later(view: CutView, record: LogRecord) -> bool:
    return not record.marker and not view.in_state(record)
