"""The table `around`: records in a window around the cut, so that it can be drawn when the log no longer exists.

For every channel (sender, partition, receiving app) and each side of the cut it holds the nearest records: the last
ones received before it, the first ones in flight across it, the first ones sent after it. Their colour and receipt
follow from the snapshot alone; their times decide nothing.

The window reaches past the ends of the snapshot, so its content also depends on when the log is read. For that reason
its rows are not part of a manifest's `content`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple

from snapkafka.checks import CutView, in_flight
from snapkafka.protocol.captured_snapshot import InputCut
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire.headers import topics_by_check

from .records import Piece, Record
from .rows import input_codecs
from .values.decoder import Decoder

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


class Reach(NamedTuple):
    """The offsets of an input that contain its window."""

    source: InputCut
    tp: TopicPartition
    low: int
    high: int


def per_kind(view: CutView, window: int) -> int:
    """Return the number of records of a kind for each channel, so that the table stays within `ROWS_MAX` rows."""
    channels = sum((len(view.senders.get(tp, ())) + 1) * len(sources) for tp, sources in view.inputs.items())
    return max(1, min(window, ROWS_MAX // max(1, KINDS * channels)))


def reach(view: CutView, window: int) -> list[Reach]:
    """Return the windows of the inputs: as many offsets to each side as their senders may fill, as far as the log has
    them and `LEADS_MAX` allows."""
    assert view.bounds is not None, "reading a log needs to know its bounds"
    most, found = max(window, LEADS_MAX // max(1, len(view.inputs))), []
    for tp, sources in sorted(view.inputs.items()):
        if tp in view.recreated:
            continue
        ends = [end.white_end for end in view.senders.get(tp, {}).values()]
        span = max(SPAN_MIN, window * (len(ends) + 1))
        for source in sources:
            low = max(view.log_start(tp), source.position - min(span, most))
            high = max([source.position, *ends]) + span
            found.append(Reach(source, tp, low, high))
    return found


#: What records are near the cut together, by columns.
KIND: Final = ("topic", "partition", "receiver_app", "sender", "side", "received")


class Around:
    """The records near the cut among those of a task.

    Args:
        reaches: the windows.
        window: records of each channel and kind at most.
    """

    def __init__(self, view: CutView, reaches: Collection[Reach], window: int) -> None:
        self._view, self._window = view, window
        self._topics = topics_by_check(source.topic for source in view.captured.inputs)
        self._reaches: dict[TopicPartition, list[Reach]] = defaultdict(list)
        for item in reaches:
            self._reaches[item.tp].append(item)
        self._kinds: dict[tuple[InputCut, int, str, bool], list[Record]] = defaultdict(list)

    def take(self, piece: Piece) -> None:
        """Take in records."""
        for item in self._reaches.get(piece.tp, ()):
            for record in piece.between(item.low, item.high).records():
                if not record.log.marker and not self._view.is_void(record.log):
                    colour = "white" if self._view.sent_before(record.log, item.source) else "red"
                    side = "external" if record.is_external else colour
                    received = not in_flight(item.source, record.offset)
                    kind = item.source, record.log.process, side, received
                    self._kinds[kind].append(record._replace(headers=()))
        for kind, items in self._kinds.items():
            if len(items) > 2 * self._window:
                self._kinds[kind] = sorted(items, key=lambda it: it.offset, reverse=kind[-1])[: self._window]

    def rows(self, decoder: Decoder) -> list[dict[str, Any]]:
        """Return the rows of the nearest records of each kind, and of some more."""
        return [self._row(record, *kind, decoder) for kind, items in self._kinds.items() for record in items]

    def _row(
        self, record: Record, source: InputCut, process: int, side: str, received: bool, decoder: Decoder
    ) -> dict[str, Any]:
        cut = self._view.processes.get(process)
        texts = decoder.texts(source.topic, record.key, record.value, input_codecs(source))
        cause = record.cause if record.cause is not None and record.cause[0] in self._topics else None
        return {
            "sender": None if record.is_external else process,
            "sender_app": None if cut is None else cut.app,
            "receiver_app": source.app,
            "receiver": source.receiver,
            "topic": source.topic,
            "partition": source.partition,
            "offset": record.offset,
            "seq": None if record.is_external else record.log.seq,
            "side": side,
            "received": received,
            "sent_ms": record.timestamp_ms if record.timestamp_ms >= 0 else None,
            "cause_topic": None if cause is None else self._topics[cause[0]],
            "cause_partition": None if cause is None else cause[1],
            "cause_offset": None if cause is None else cause[2],
            "key": None if texts.key is None else texts.key[:PREVIEW_CHARS],
            "value": None if texts.value is None else texts.value[:PREVIEW_CHARS],
            "bytes": record.size,
        }


def nearest(rows: Iterable[dict[str, Any]], window: int) -> Iterator[dict[str, Any]]:
    """Yield the last rows of each kind that were received, and the first of those that were not."""
    kinds: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        kinds[tuple(row[column] for column in KIND)].append(row)
    for items in kinds.values():
        yield from sorted(items, key=lambda row: row["offset"], reverse=items[0]["received"])[:window]
