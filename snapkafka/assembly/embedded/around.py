"""The table `around`, row by row, as `spark.tables.around` gives it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from snapkafka.assembly.reaches import PREVIEW_CHARS, Reach
from snapkafka.assembly.rows import Inputs
from snapkafka.assembly.values.decoder import Decoder
from snapkafka.checks import CutView
from snapkafka.wire.headers import topics_by_check

from .log import Record
from .tables import is_void, still_to_start

#: A place: app, topic, partition, offset.
_Place = tuple[str, str, int, int]


def around_rows(
    view: CutView,
    records: Sequence[Record],
    inputs: Inputs,
    window: int,
    reaches: Sequence[Reach],
    decoded: Decoder,
) -> Iterator[dict[str, Any]]:
    """Yield the records around the cut, with the times of their receipts.

    Args:
        records: of the reading ranges and the `leads`.
        window: records of each channel and kind at most.
        reaches: the windows (`reaches.reach`).
    """
    topics = topics_by_check(source.topic for source in view.captured.inputs)
    receipts = _receipts(view, records, reaches, {topic: check for check, topic in topics.items()})
    for record, source, side, received, more in _nearest(_near(view, records, inputs, reaches), window):
        cut = None if record.process is None else view.processes.get(record.process)
        codecs = source["key_codec"], source["value_codec"]
        texts = decoded.texts(record.topic, record.key, record.value, codecs)
        place = (source["app"], record.topic, record.partition, record.offset)
        cause = record.cause if record.cause is not None and record.cause[0] in topics else None
        times = receipts.get(place, [])
        yield {
            "sender": record.process,
            "sender_app": None if cut is None else cut.app,
            "receiver_app": source["app"],
            "receiver": source["receiver"],
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "seq": record.seq,
            "side": side,
            "received": received,
            "sent_ms": record.timestamp_ms if record.timestamp_ms >= 0 else None,
            "received_ms": min((at for at in times if at >= 0), default=None),
            "effects": len(times),
            "cause_topic": None if cause is None else topics[cause[0]],
            "cause_partition": None if cause is None else cause[1],
            "cause_offset": None if cause is None else cause[2],
            "key": None if texts.key is None else texts.key[:PREVIEW_CHARS],
            "value": None if texts.value is None else texts.value[:PREVIEW_CHARS],
            "bytes": len(record.key or b"") + len(record.value or b""),
            "more": more,
        }


def _within(item: Reach, offset: int) -> bool:
    return item.low <= offset < item.middle or (item.late is not None and item.late <= offset < item.high)


def _near(
    view: CutView, records: Iterable[Record], inputs: Inputs, reaches: Sequence[Reach]
) -> Iterator[tuple[Record, Mapping[str, Any], str, bool]]:
    """Yield the records near the cut with the input, their side, and whether every agent had received them."""
    of_input = {(item.app, item.topic, item.partition): item for item in reaches}
    for record in records:
        if record.marker or is_void(view, record):
            continue
        for source in inputs.get(record.tp, ()):
            if _within(of_input[source["app"], record.topic, record.partition], record.offset):
                yield record, source, _side(view, record, source), not still_to_start(source, record.offset)


def _side(view: CutView, record: Record, source: Mapping[str, Any]) -> str:
    if record.process is None:
        return "external"
    cut = view.processes.get(record.process)
    if cut is None or record.process >= view.epoch:
        return "red"
    if cut.left:
        return "white" if record.offset < source["log_end"] else "red"
    white_end = view.white_end(record.process, record.tp)
    return "white" if record.epoch < view.epoch and record.offset < white_end else "red"


def _nearest(
    near: Iterable[tuple[Record, Mapping[str, Any], str, bool]], window: int
) -> Iterator[tuple[Record, Mapping[str, Any], str, bool, bool]]:
    """Keep the last received ones of each kind, and the first of the others; and whether there are farther ones than
    the farthest that is kept."""
    kinds = defaultdict(list)
    for item in near:
        record, source, side, received = item
        kinds[record.tp, source["app"], record.process, side, received].append(item)
    for (*_, received), items in kinds.items():
        items.sort(key=lambda item: item[0].offset, reverse=received)
        for nth, item in enumerate(items[:window], 1):
            yield *item, nth == window and len(items) > window


def _receipts(
    view: CutView, records: Iterable[Record], reaches: Sequence[Reach], checks: Mapping[str, int]
) -> dict[_Place, list[int]]:
    """Return by app and place of a record the times of what its event sent."""
    causes: dict[tuple[int, int], list[Reach]] = defaultdict(list)
    for item in reaches:
        if item.topic in checks:
            causes[checks[item.topic], item.partition].append(item)
    found: dict[_Place, list[int]] = defaultdict(list)
    for record in records:
        if record.marker or record.cause is None:
            continue
        check, partition, offset = record.cause
        cut = None if record.process is None else view.processes.get(record.process)
        for item in causes.get((check, partition), ()):
            if (cut is None or cut.app == item.app) and _within(item, offset):
                found[item.app, item.topic, partition, offset].append(record.timestamp_ms)
    return found
