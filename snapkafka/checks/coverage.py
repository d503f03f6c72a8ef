"""The number of records that each check has read: a check that has read none passes, and proves nothing.

| check | its records |
|---|---|
| V1 | those of senders that the snapshot knows |
| V2 | those with our header that some reader had started; reading begins at the log ends in the trigger |
| V3 | those of changelogs below the ends that the snapshot names |
| V4 | white ones from the lowest position of their partition on; its channels are pairs of a sender and an input |
| V5 | those of such senders that name the event which caused them |

Markers do not count as records, except in V3, which counts offsets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from snapkafka.protocol.records import TopicPartition

from .inputs import received
from .log import EXTERNAL
from .stretch import Group
from .view import CutView

#: The text of a report where every count is 0.
NOTHING_SEEN: Final = "no check read any record: the snapshot is empty, so its verdict proves nothing"


class Examined(NamedTuple):
    """The input of a check: records, the partitions that had any, and channels if the check is about these."""

    records: int = 0
    partitions: int = 0
    channels: int = 0


def examined(view: CutView, groups: Iterable[Group]) -> dict[str, Examined]:
    """Count what V1 to V5 read in groups of records, without those of recreated topics."""
    counts: dict[TopicPartition, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for group in groups:
        record, tp = group.record, group.record.tp
        if tp in view.recreated or not (tp in view.inputs or tp in view.changelogs):
            continue
        here, known = counts[tp], record.process in view.processes
        in_state = tp in view.changelogs and view.state_start(tp) <= record.offset < view.state_end(tp)
        here["V3"] += group.count * in_state
        if record.marker:
            continue
        here["V1"] += group.count * known
        if sources := view.inputs.get(tp):
            started = any(received(source, record.offset) for source in sources)
            here["V2"] += group.count * (record.process != EXTERNAL and started)
            in_flight = record.offset >= min(it.position for it in sources) and view.counts_white(record)
            here["V4"] += group.count * in_flight
        here["V5"] += group.caused * known
    # Pairs of a living sender and an input to which it has sent something.
    pairs = sum(len(sources) * len(view.senders.get(tp, {})) for tp, sources in view.inputs.items())
    return {
        check: Examined(
            sum(of_tp[check] for of_tp in counts.values()),
            sum(of_tp[check] > 0 for of_tp in counts.values()),
            pairs if check == "V4" else 0,
        )
        for check in ("V1", "V2", "V3", "V4", "V5")
    }


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
