"""The table of messages, row by row, as `spark.tables.tables` gives it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from snapkafka.assembly.rows import Channel, Held, Inputs
from snapkafka.assembly.schemas import LAST_MS, TIMESTAMP_TYPE_NAMES, UNIX_EPOCH
from snapkafka.assembly.values.decoder import Decoder
from snapkafka.checks import CutView
from snapkafka.wire.headers import HEADER

from .log import Record


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
    codecs = source["key_codec"], source["value_codec"]
    texts = decoded.texts(record.topic, record.key, record.value, codecs)
    at_ms = record.timestamp_ms
    return {
        "sender": record.process,
        "sender_app": app,
        "receiver_app": source["app"],
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "seq": record.seq,
        "key": texts.key,
        "value": texts.value,
        "key_raw": record.key,
        "value_raw": record.value,
        "headers": (headers := other_headers(record)),
        "headers_text": [
            (it["key"], _text_in(it["value"])) for it in {it["key"]: it for it in headers}.values()
        ],
        "timestamp": UNIX_EPOCH + timedelta(milliseconds=at_ms) if 0 <= at_ms <= LAST_MS else None,
        "timestamp_ms": at_ms,
        "timestamp_type": TIMESTAMP_TYPE_NAMES[record.timestamp_type],
        "why_undecoded": texts.why_undecoded,
    }


def _text_in(raw: bytes | None) -> str | None:
    """Return bytes as text; None if they are not UTF-8."""
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return None


def other_headers(record: Record) -> list[dict[str, Any]]:
    """Return the headers that are not ours: order, repeated keys and null values stay."""
    return [{"key": name, "value": value} for name, value in record.headers if name != HEADER]


def held_in(messages: Iterable[Mapping[str, Any]]) -> dict[Channel, Held]:
    """Return the content of the channels that hold something."""
    found: dict[Channel, Held] = {}
    for row in messages:
        of = Channel(*(row[name] for name in Channel._fields))
        held = found.get(of, Held(0, 0))
        size = len(row["key_raw"] or b"") + len(row["value_raw"] or b"")
        found[of] = Held(held.messages + 1, held.bytes + size)
    return found
