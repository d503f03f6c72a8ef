"""The offsets about the cut that the table `around` shows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from snapkafka.checks import CutView, ReadRange
from snapkafka.protocol.records import TopicPartition

#: Rows of the table at most: with more channels each has fewer.
ROWS_MAX: Final = 300_000
#: A channel has so many kinds of records, each with its own window: white ones received and in flight, red ones, and
#: external ones received and not.
KINDS: Final = 5
#: Offsets read at most for this table alone, in all partitions together; but of each at least the window.
LEADS_MAX: Final = 100_000
#: Of a key or a value so many characters are kept: four times as many bytes at most.
PREVIEW_CHARS: Final = 240
#: Records of external senders, and markers, stand between those of a channel: no window is narrower, in offsets.
SPAN_MIN: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The offsets of an input that contain its window; `late`: None: no living sender writes to it."""

    app: str
    topic: str
    partition: int
    low: int
    middle: int
    late: int | None
    high: int


def per_kind(view: CutView, window: int) -> int:
    """Return the number of records of a kind for each channel, so that the table stays within `ROWS_MAX` rows."""
    channels = sum((len(view.senders.get(tp, ())) + 1) * len(sources) for tp, sources in view.inputs.items())
    return max(1, min(window, ROWS_MAX // max(1, KINDS * channels)))


def reach(view: CutView, window: int) -> list[Reach]:
    """Return the windows of the inputs: as many offsets to each side as their senders may fill."""
    found = []
    for tp, sources in sorted(view.inputs.items()):
        if tp in view.recreated:
            continue
        ends = [end.white_end for end in view.senders.get(tp, {}).values()]
        span = max(SPAN_MIN, window * (len(ends) + 1))
        for source in sources:
            found.append(
                Reach(
                    app=source.app,
                    topic=tp.topic,
                    partition=tp.partition,
                    low=max(0, source.position - span),
                    middle=source.position + span,
                    late=min(ends, default=None),
                    high=max([source.position, *ends]) + span,
                )
            )
    return found


def leads(
    view: CutView, reaches: Collection[Reach], read: Collection[ReadRange], window: int
) -> list[ReadRange]:
    """Return the offsets before the cut that only this table needs.

    Args:
        read: the reading ranges.
    """
    assert view.bounds is not None, "reading a log needs to know its bounds"
    starts = {TopicPartition(*item[:2]): item.start for item in read}
    most = max(window, LEADS_MAX // max(1, len(reaches)))
    lowest: dict[TopicPartition, int] = {}
    for item in reaches:
        tp = TopicPartition(item.topic, item.partition)
        position = min(source.position for source in view.inputs[tp])
        lowest[tp] = min(lowest.get(tp, position), max(item.low, position - most))
    found = []
    for tp, low in sorted(lowest.items()):
        now = view.bounds[tp]
        start, end = max(low, now.start), min(starts.get(tp, now.end), now.end)
        if start < end and tp not in view.changelogs:
            found.append(ReadRange(*tp, start, end))
    return found
