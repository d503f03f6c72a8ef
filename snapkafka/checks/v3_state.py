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

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from snapkafka.protocol.records import TopicPartition

from . import questions
from .log import Keeping
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


def unordered_tables(
    view: CutView, facts: Mapping[TopicPartition, StateFacts]
) -> tuple[list[Finding], list[tuple[TopicPartition, ...]]]:
    """Find global tables written in several partitions, as far as their keys are not needed; return also the
    partitions of the tables for which they are."""
    findings, asked = [], []
    for tps in view.global_tables:
        known = [(tp, facts.get(tp, StateFacts()).last_white) for tp in tps]
        written = [
            (tp, last if last >= 0 else view.state_end(tp) - 1)
            for tp, last in known
            if last >= 0 or view.state_start(tp)
        ]
        if len(written) < 2 or not any(last >= view.state_start(tp) for tp, last in known):
            continue
        if any(view.state_start(tp) for tp in tps) or any(c.sets for tp in tps for c in view.changelogs[tp]):
            findings.append(_unordered(*written[:2]))
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
        other = _seam(view, tp, fact) or _last_missing(view, tp, fact)
        if other is not None:
            findings.append(other)
            continue
        if (start := view.log_start(tp)) > view.state_start(tp):
            kind = "state-expired" if _expired(view, tp) else "state-gone"
            findings.append(Finding(kind, *tp, start, a=start))
        if not _holes(view, tp, fact) or (_too_young(view, tp) and not _may_lack_deletions(view, tp)):
            continue
        if _keys_may_show(view, tp):
            asked[tp] = fact
        else:
            findings.append(Finding("state-unproven", *tp, view.state_end(tp), a=_holes(view, tp, fact)))
    return findings, asked


def doubtful(view: CutView, tp: TopicPartition, fact: StateFacts, keys: KeyFacts) -> list[Finding]:
    """Find what is wrong with the state of a partition that `judge` asked about; overtaken keys are those in `keys`."""
    if keys.superseded is not None or (keys.to_the_end and not keys.overtaken):
        return []
    holes = _holes(view, tp, fact)
    overtaken = [Finding("state-overtaken", *tp, offset, a=holes) for offset in keys.overtaken]
    return overtaken or [Finding("state-unproven", *tp, view.state_end(tp), a=holes)]


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


def _unordered(first: tuple[TopicPartition, int], second: tuple[TopicPartition, int]) -> Finding:
    """Return the finding for a key of a global table whose last white records are in two partitions."""
    return Finding("state-unordered", *second[0], second[1], a=first[0].partition, b=first[1])


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


# --- From the log ---------------------------------------------------------------------------------------------------


def find(log: CutLog) -> tuple[list[Finding], Counter[str]]:
    """Check state (V3): the changelogs are complete to the cut.

    Returns:
        the first findings of each kind, and the number of each.
    """
    view, facts = log.view, facts_by_partition(log)
    found, asked = judge(view, facts)
    counts = Counter(finding.kind for finding in found)
    for tp, keys in key_facts(log, asked).items():
        of_keys = doubtful(view, tp, asked[tp], keys)
        found += of_keys
        counts.update(finding.kind for finding in of_keys)
        counts["state-overtaken"] += keys.overtaken_found - len(keys.overtaken) if of_keys else 0
    of_tables, keys_asked = unordered_tables(view, facts)
    unordered, how_many = _unordered_keys(log, keys_asked)
    counts.update(finding.kind for finding in of_tables)
    counts["state-unordered"] += how_many
    return [*found, *of_tables, *unordered], +counts


def facts_by_partition(log: CutLog) -> dict[TopicPartition, StateFacts]:
    """Gather the facts of each changelog partition that has records."""
    return {tp: facts_of(log.view, one) for tp, one in log.stretches.items() if tp in log.view.changelogs}


def facts_of(view: CutView, of: Stretch) -> StateFacts:
    """Gather the facts of one changelog partition."""
    start, end, seam = view.state_start(of.tp), view.state_end(of.tp), view.seam(of.tp)
    white = [group for group in of.groups if view.in_state(group.record)]
    later = (it.record for it in of.groups if not it.record.marker and not view.in_state(it.record))
    return StateFacts(
        held=sum(group.count for group in of.groups if start <= group.record.offset < end),
        last_white=max((group.last for group in white), default=-1),
        first_later=min((record.offset for record in later), default=None),
        at_seam=next(((it.process, it.seq) for _, it, _ in of.kept if it.offset == seam), None),
    )


def key_facts(log: CutLog, asked: Mapping[TopicPartition, StateFacts]) -> dict[TopicPartition, KeyFacts]:
    """Gather the key facts of the changelog partitions that are asked about. Compaction may have gone on while the log
    was read: what is superseded shows something only if it is still there afterwards."""
    if not asked:
        return {}
    view = log.view
    places = {place: tp for place, tp in enumerate(questions.places(view)) if tp in asked}
    first_later = {place: asked[tp].first_later for place, tp in places.items()}
    until = {place: view.state_end(places[place]) if at is None else at for place, at in first_later.items()}
    keys = {
        places[place]: KeyFacts(superseded, (), overtaken, log.read_to_the_end(places[place]))
        for place, superseded, overtaken in log.source.ask(questions.of_keys(until))
    }
    for place, offset in log.source.ask(questions.of_overtaken(until)) if keys else ():
        of = keys[places[place]]
        keys[places[place]] = of._replace(overtaken=(*of.overtaken, offset))
    shown = [ReadRange(*tp, at, at + 1) for tp, of in keys.items() if (at := of.superseded) is not None]
    there = log.source.still_there(shown)
    return {
        tp: keys[tp]._replace(superseded=keys[tp].superseded if tp in there else None)
        if tp in keys
        else KeyFacts(to_the_end=log.read_to_the_end(tp))
        for tp in asked
    }


def _unordered_keys(log: CutLog, tables: Sequence[Sequence[TopicPartition]]) -> tuple[list[Finding], int]:
    """Find keys of global tables that are in several partitions: the first findings, and their number.

    Args:
        tables: the changelog partitions of each.
    """
    if not tables:
        return [], 0
    places = questions.places(log.view)
    tables_of = {places.index(tp): number for number, tps in enumerate(tables) for tp in tps}
    rows = log.source.ask(questions.of_unordered(tables_of))
    found = [_unordered((places[one], at), (places[other], last)) for one, at, other, last, _ in rows]
    return found, rows[0][4] if rows else 0
