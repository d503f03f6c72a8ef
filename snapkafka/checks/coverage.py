"""The number of records that each check has read: a check that has read none passes, and proves nothing.

| check | its records |
|---|---|
| V1 | those of senders that the snapshot knows |
| V2 | those with our header that some reader had started; reading begins at the log ends in the trigger |
| V3 | those of changelogs below the ends that the snapshot names |
| V4 | white ones from the lowest position of their partition on; its channels are pairs of a sender and an input |
| V5 | those of such senders that name the event which caused them |

Markers do not count as records, except in V3, which counts offsets. They are counted on a list (`on_list`), and by the
pre-filter in Spark (`snapkafka.assembly.spark.verify.prefilter`); a test compares the two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from snapkafka.protocol.records import TopicPartition

from .log import EXTERNAL, NO_END, LogRecord
from .view import CutView, received

#: The text of a report where every count is 0.
NOTHING_SEEN: Final = "no check read any record: the snapshot is empty, so its verdict proves nothing"


class Examined(NamedTuple):
    """The input of a check: records, the partitions that had any, and channels if the check is about these."""

    records: int = 0
    partitions: int = 0
    channels: int = 0


def first_position(view: CutView, tp: TopicPartition) -> int:
    """Return the lowest position of the readers of a partition; past every offset if it has none."""
    return min((source.position for source in view.inputs.get(tp, ())), default=NO_END)


def channels(view: CutView) -> int:
    """Count the pairs of a living sender and an input to which it has sent something."""
    return sum(len(sources) * len(view.senders.get(tp, {})) for tp, sources in view.inputs.items())


def total(of_partition: Iterable[Mapping[str, int]], channels: int) -> dict[str, Examined]:
    """Sum up what each check has read.

    Args:
        of_partition: the records by check, for each partition.
        channels: for V4.
    """
    records: dict[str, int] = defaultdict(int)
    partitions: dict[str, int] = defaultdict(int)
    for counts in of_partition:
        for check, count in counts.items():
            records[check] += count
            partitions[check] += count > 0
    return {
        check: Examined(records[check], partitions[check], channels if check == "V4" else 0)
        for check in ("V1", "V2", "V3", "V4", "V5")
    }


def on_list(view: CutView, records: Collection[LogRecord]) -> dict[str, Examined]:
    """Count what V1 to V5 read in a list of records, without those of recreated topics."""
    counts: dict[TopicPartition, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for record in records:
        tp = record.tp
        if tp in view.recreated or not (tp in view.inputs or tp in view.changelogs):
            continue
        here, known = counts[tp], record.process in view.processes
        here["V3"] += tp in view.changelogs and view.state_start(tp) <= record.offset < view.state_end(tp)
        if record.marker:
            continue
        here["V1"] += known
        if tp in view.inputs:
            here["V2"] += record.process != EXTERNAL and any(
                received(source, record.offset) for source in view.inputs[tp]
            )
            here["V4"] += record.offset >= first_position(view, tp) and view.counts_white(record)
        here["V5"] += known and record.cause is not None
    return total(counts.values(), channels(view))


def in_words(records: int | None, partitions: int | None = None, channels: int | None = None) -> str:
    """Format what a check has read; empty if unknown."""
    if records is None or records < 0:
        return ""
    if not records and not channels:
        return "no record"
    text = f"{records:,} record{'' if records == 1 else 's'}" if records else "no record"
    if records and partitions:
        text += f" of {partitions:,} partition{'' if partitions == 1 else 's'}"
    return text + (f", {channels:,} channel{'' if channels == 1 else 's'}" if channels else "")
