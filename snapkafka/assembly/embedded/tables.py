"""The tables of messages and channels, row by row, as `spark.tables.tables` gives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from snapkafka.assembly.rows import UNIX_EPOCH, input_rows
from snapkafka.assembly.schemas import LAST_MS, TIMESTAMP_TYPE_NAMES
from snapkafka.checks import CutView
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire.headers import HEADER

from .log import Record
from .values import Decoder, text_in, why_undecoded

#: The inputs of each partition, as `rows.input_rows` gives them.
Inputs = Mapping[TopicPartition, Sequence[Mapping[str, Any]]]


def inputs_of(view: CutView) -> Inputs:
    """Return the inputs whose topics were not recreated, by partition."""
    found: dict[TopicPartition, list[Mapping[str, Any]]] = {}
    for row in input_rows(view):
        tp = TopicPartition(row["topic"], row["partition"])
        if tp not in view.recreated:
            found.setdefault(tp, []).append(row)
    return found


def is_void(view: CutView, record: Record) -> bool:
    """Return whether a process that is older than a restore appended it to the restored log: workers skip it."""
    base = view.bases.get(record.tp) if view.bases else None
    return base is not None and record.process in view.before_restore and record.offset >= base.end


def still_to_start(source: Mapping[str, Any], offset: int) -> bool:
    """Return whether some agent of the input has still to start `offset`."""
    return offset >= source["position"] and offset not in source["done"]


def message_rows(
    view: CutView, records: Iterable[Record], inputs: Inputs, decoded: Decoder
) -> Iterator[dict[str, Any]]:
    """Yield the messages in flight, decoded: one row per message and app that had still to start it (R8)."""
    for record in records:
        if record.process is None or record.process >= view.epoch or record.marker or is_void(view, record):
            continue
        cut = view.processes.get(record.process)
        if cut is None:
            continue
        white_end = view.white_end(record.process, record.tp)
        for source in inputs.get(record.tp, ()):
            end = source["log_end"] if cut.left else white_end
            white = cut.left or record.epoch < view.epoch
            if white and record.offset < end and still_to_start(source, record.offset):
                yield _message(record, cut.app, source, decoded)


def _message(record: Record, app: str, source: Mapping[str, Any], decoded: Decoder) -> dict[str, Any]:
    key, value = decoded.key(record, source["key_codec"]), decoded.value(record, source["value_codec"])
    at_ms = record.timestamp_ms
    return {
        "sender": record.process,
        "sender_app": app,
        "receiver_app": source["app"],
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "seq": record.seq,
        "key": key.text,
        "value": value.text,
        "key_raw": record.key,
        "value_raw": record.value,
        "headers": (headers := other_headers(record)),
        "headers_text": [
            (it["key"], text_in(it["value"])) for it in {it["key"]: it for it in headers}.values()
        ],
        "timestamp": UNIX_EPOCH + timedelta(milliseconds=at_ms) if 0 <= at_ms <= LAST_MS else None,
        "timestamp_ms": at_ms,
        "timestamp_type": TIMESTAMP_TYPE_NAMES[record.timestamp_type],
        "why_undecoded": why_undecoded(key, value),
    }


def other_headers(record: Record) -> list[dict[str, Any]]:
    """Return the headers that are not ours: order, repeated keys and null values stay."""
    return [{"key": name, "value": value} for name, value in record.headers if name != HEADER]


def channel_rows(
    view: CutView, messages: Iterable[Mapping[str, Any]], inputs: Inputs
) -> Iterator[dict[str, Any]]:
    """Yield every channel (sender, partition, receiving app) with its content, empty ones too; see
    `spark.tables.tables.channels`."""
    found: dict[tuple[int, str, str, str, int], list[int | None]] = {}
    for tp, sources in inputs.items():
        for source in sources:
            for end in view.senders.get(tp, {}).values():
                key = (end.process, view.processes[end.process].app, source["app"], tp.topic, tp.partition)
                found[key] = [view.white_end(end.process, tp), 0, 0]
    for row in messages:
        key = tuple(row[name] for name in ("sender", "sender_app", "receiver_app", "topic", "partition"))
        channel = found.setdefault(key, [None, 0, 0])
        channel[1] = (channel[1] or 0) + 1
        channel[2] = (channel[2] or 0) + len(row["key_raw"] or b"") + len(row["value_raw"] or b"")
    for (sender, sender_app, app, topic, partition), (white_end, held, size) in found.items():
        for source in inputs[TopicPartition(topic, partition)]:
            if source["app"] == app:
                upto = source["log_end"] if white_end is None else white_end
                yield {
                    "sender": sender,
                    "sender_app": sender_app,
                    "receiver_app": app,
                    "receiver": source["receiver"],
                    "topic": topic,
                    "partition": partition,
                    "start_offset": source["position"],
                    "end_offset": max(upto, source["position"]),
                    "messages": held,
                    "bytes": size,
                }
