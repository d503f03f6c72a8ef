"""Losses of logs since a snapshot was assembled, and the changelogs that a restore therefore writes as a whole.

A restore appends only the differences from the cut: keys that some later record names. That is right as long as the
log still has all its records of then, and all later ones. Records are lost in three ways, and each shows in offsets:

- *The beginning* is deleted: by age or size (`cleanup.policy=delete`), or on request (DeleteRecords). Then the log
  starts later than it did. Rows that were not touched since the cut may be deleted, so every row is written.
- *The end* is cut: an election of a replica that lagged behind, a disk that was set back. Then the log ends before an
  offset that it had already. Offsets there will belong to other records, so nothing can be restored.
- *The middle* is compacted. A deletion of a key may be removed after `delete.retention.ms`, and no record names its
  key any longer; the offset of a removed record is missing. If all offsets exist, nothing was removed.

Neither settings nor clocks are used. Settings of two moments do not show the time between them, in which they may have
been lowered and raised; nor does the age of a cut, by another clock than the broker's, prove anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.manifest import Manifest
from snapkafka.protocol.records import TopicPartition

from .target_facts import Refusal

#: Nothing is recorded of the log.
UNRECORDED: Final = -1

Kind = Literal["changelog", "input"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortened:
    """A loss of a log since the snapshot.

    `kind`: "changelog", also if it is an input as well. `lost`: "beginning", "end", or "unknown" if an earlier release
    recorded nothing of a changelog. `then`: the former start of the log, or the lower bound of its former end; -1:
    unknown. `now`: its present start or end.
    """

    topic: str
    partition: int
    kind: Kind
    lost: Literal["beginning", "end", "unknown"]
    then: int
    now: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        if self.lost == "beginning":
            return f"{self.tp} starts at offset {self.now}, and started at {self.then} when the snapshot was assembled"
        if self.lost == "end":
            return f"{self.tp} ends at offset {self.now}, and had records up to {self.then} when the snapshot was made"
        return f"where {self.tp} started when the snapshot was assembled is not recorded: an earlier release did it"


def shortened(
    manifest: Manifest,
    now_starts: Mapping[TopicPartition, int],
    now_ends: Mapping[TopicPartition, int],
) -> tuple[Shortened, ...]:
    """Find the losses of a snapshot's logs since, in the order of partitions, ends before beginnings.

    Args:
        now_starts: first offsets of its inputs and changelogs, as the broker reports them now.
        now_ends: the next offsets to be written there. Partitions that are missing in one of these do not exist, which
            is not judged here.
    """
    recorded = {TopicPartition(log.topic, log.partition): log for log in manifest.logs}
    reached = _reached(manifest)
    changelogs = {TopicPartition(cut.topic, cut.partition) for cut in manifest.captured.changelogs}
    found = []
    for tp in sorted(reached):
        if tp not in now_starts or tp not in now_ends:
            continue
        log = recorded.get(tp)
        kind: Kind = "changelog" if tp in changelogs else "input"
        start, end = now_starts[tp], now_ends[tp]
        if end < reached[tp]:
            found.append(_of(tp, kind, "end", reached[tp], end))
        if log is not None and start > log.start:
            found.append(_of(tp, kind, "beginning", log.start, start))
        elif log is None and tp in changelogs:
            found.append(_of(tp, kind, "unknown", UNRECORDED, start))
    return tuple(found)


def log_refusals(found: Iterable[Shortened]) -> Iterator[Refusal]:
    """Refuse logs whose end was lost: the records that the snapshot names by offset are missing."""
    for item in found:
        if item.lost == "end":
            yield Refusal(
                code="log-shortened",
                what=f"{item.kind} {item}",
                hint="the broker lost records: choose a snapshot assembled since, or restore into another cluster"
                " (--into)",
            )


def written_whole(
    manifest: Manifest,
    found: Iterable[Shortened],
    ends: Mapping[TopicPartition, int],
    present: Mapping[TopicPartition, int],
) -> dict[TopicPartition, str]:
    """Find the changelogs of which a restore writes every row, each with the reason.

    Args:
        found: see `shortened`.
        ends: the offset up to which each changelog was read.
        present: the number of records read of each, from its settled offset to its end (`counted`). The end of a
            transaction has an offset and no record: such a changelog counts as incomplete.
    """
    reasons = {item.tp: str(item) for item in found if item.lost != "end"}
    settled = {TopicPartition(item.topic, item.partition): item.offset for item in manifest.settled}
    whole = {}
    for tp in sorted({TopicPartition(cut.topic, cut.partition) for cut in manifest.captured.changelogs}):
        start, end = settled.get(tp, 0), ends.get(tp)
        missing = UNRECORDED if end is None else end - start - present.get(tp, 0)
        if tp in reasons:
            whole[tp] = reasons[tp]
        elif end is None:
            whole[tp] = f"{tp} was not read"
        elif missing > 0:
            whole[tp] = (
                f"{missing:,} of {end - start:,} offsets of {tp} since the cut have no record any more"
            )
    return whole


def counted(records: Iterable[KafkaRecord], into: Counter[TopicPartition]) -> Iterator[KafkaRecord]:
    """Count records by partition as they pass."""
    for record in records:
        into[record.tp] += 1
        yield record


def _of(
    tp: TopicPartition,
    kind: Kind,
    lost: Literal["beginning", "end", "unknown"],
    then: int,
    now: int,
) -> Shortened:
    return Shortened(topic=tp.topic, partition=tp.partition, kind=kind, lost=lost, then=then, now=now)


def _reached(manifest: Manifest) -> dict[TopicPartition, int]:
    """Find the offset up to which each input and changelog certainly had records, whatever release assembled the
    snapshot."""
    found: defaultdict[TopicPartition, int] = defaultdict(int)

    def reach(topic: str, partition: int, *offsets: int) -> None:
        tp = TopicPartition(topic, partition)
        found[tp] = max(found[tp], *offsets)

    for cut in manifest.captured.inputs:
        reach(cut.topic, cut.partition, cut.position, cut.log_end)
        for agent in cut.agents:
            reach(cut.topic, cut.partition, agent.offset, *(offset + 1 for offset in agent.started_above))
    for changelog in manifest.captured.changelogs:
        reach(changelog.topic, changelog.partition, changelog.end)
    for log in manifest.logs:
        if (tp := TopicPartition(log.topic, log.partition)) in found:
            reach(*tp, log.end)
    for item in manifest.settled:
        if (tp := TopicPartition(item.topic, item.partition)) in found:
            reach(*tp, item.offset)
    return dict(found)
