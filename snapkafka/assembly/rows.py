"""Rows of a record, of a changelog, and of the tables that follow from the captured snapshot alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from snapkafka.checks import CutView
from snapkafka.manifest import LedgerEntry
from snapkafka.protocol.captured_snapshot import Captured, ChangelogCut, InputCut
from snapkafka.protocol.offsets import TornEvent
from snapkafka.protocol.records import Position, TopicPartition
from snapkafka.wire.headers import HEADER

from .records import Record
from .schemas import LAST_MS, TIMESTAMP_TYPE_NAMES, UNIX_EPOCH
from .values.decoder import JSON_CODECS, TEXT_CODECS, Codecs, Decoder


class Channel(NamedTuple):
    """A channel, by the columns of the tables `messages` and `channels`."""

    sender: int
    sender_app: str
    receiver_app: str
    topic: str
    partition: int


def input_codecs(source: InputCut) -> Codecs:
    """Return the codecs of an input as far as they show more than JSON or text does: others than ours write to it, as
    they like."""
    key, value = (
        None if codec in (*JSON_CODECS, *TEXT_CODECS) else codec
        for codec in (source.key_codec, source.value_codec)
    )
    return key, value


def message_row(view: CutView, record: Record, source: InputCut, decoder: Decoder) -> dict[str, Any]:
    """Return the row of a message in flight to the app of an input."""
    texts = decoder.texts(record.log.topic, record.key, record.value, input_codecs(source))
    row, at_ms = input_row(record), record.timestamp_ms
    last = {it["key"]: it["value"] for it in row["headers"]}
    return row | {
        "sender": record.log.process,
        "sender_app": view.processes[record.log.process].app,
        "receiver_app": source.app,
        "seq": record.log.seq,
        "key": texts.key,
        "value": texts.value,
        "headers_text": [(name, _text_in(value)) for name, value in last.items()],
        "timestamp": UNIX_EPOCH + timedelta(milliseconds=at_ms) if 0 <= at_ms <= LAST_MS else None,
        "why_undecoded": texts.why_undecoded,
    }


def input_row(record: Record) -> dict[str, Any]:
    """Return the row of a record in the table `inputs`, byte by byte: of headers that are not ours the order, repeated
    keys and null values stay."""
    return {
        "topic": record.log.topic,
        "partition": record.log.partition,
        "offset": record.offset,
        "key_raw": record.key,
        "value_raw": record.value,
        "headers": [{"key": name, "value": value} for name, value in record.headers if name != HEADER],
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": TIMESTAMP_TYPE_NAMES.get(record.timestamp_type),
    }


def _text_in(raw: bytes | None) -> str | None:
    """Return bytes as text; None if they are not UTF-8."""
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return None


def changelogs_by_place(captured: Captured) -> dict[tuple[str, str, str, int], ChangelogCut]:
    """Return the changelogs by app, table, topic and partition: one that several processes write (a global table's) is
    reported by each, and the highest end counts."""
    cuts = sorted(captured.changelogs, key=lambda cut: cut.end)
    return {(cut.app, cut.table, cut.topic, cut.partition): cut for cut in cuts}


def channel_rows(view: CutView, held: Mapping[tuple[Channel, str], int]) -> list[dict[str, Any]]:
    """Return every channel (sender, partition, receiving app) with its content, empty ones too.

    Offsets `[start_offset, end_offset)` go from the receiver's position to the sender's end; both are the position if
    nothing was in flight. Channels of senders that left are listed if they hold something.

    Args:
        held: the `messages` in flight in a channel, and the `bytes` of their keys and values.
    """
    ends: dict[Channel, int | None] = {of: None for of, _ in held}
    inputs = {tp: sources for tp, sources in view.inputs.items() if tp not in view.recreated}
    for tp, sources in inputs.items():
        for source in sources:
            for end in view.senders.get(tp, {}).values():
                of = Channel(end.process, view.processes[end.process].app, source.app, *tp)
                ends[of] = view.white_end(end.process, tp)
    return [
        {
            **of._asdict(),
            "receiver": source.receiver,
            "start_offset": source.position,
            "end_offset": max(source.log_end if end is None else end, source.position),
            **{what: held.get((of, what), 0) for what in ("messages", "bytes")},
        }
        for of, end in ends.items()
        for source in inputs[TopicPartition(of.topic, of.partition)]
        if source.app == of.receiver_app
    ]


def process_rows(view: CutView, ledger: LedgerEntry) -> list[dict[str, Any]]:
    """Return the participants: the source from which each learned of the snapshot, its running and torn events (R6),
    the duration of its cut (microseconds); and when the ledger had the trigger and its report."""
    times = {entry.offset: entry.at_ms for entry in ledger.appended}
    return [
        asdict(cut)
        | {
            "triggered_at": _at(ledger.triggered_ms),
            "reported_at": _at(times.get(cut.report, 0)),
            "torn": [_torn(event) for event in cut.torn],
        }
        for cut in view.captured.processes
    ]


def _torn(event: TornEvent) -> dict[str, Any]:
    found = asdict(event)
    return found | {"table_name": found.pop("table")}


def _at(ms: int) -> datetime | None:
    """Convert a time of the ledger; None if it is unknown, or beyond what readers of Parquet files support."""
    return UNIX_EPOCH + timedelta(milliseconds=ms) if 0 < ms <= LAST_MS else None


def position_rows(view: CutView) -> list[dict[str, Any]]:
    """Return the position of every agent: the first offset that it had not started, and later ones that it had; events
    below `replay_until` may have had effects in the state before (R10), 0: none have."""
    never_read: Counter[tuple[str, str, int]] = Counter()
    for item in view.captured.never_read:
        never_read[item.app, item.topic, item.partition] += item.records
    return [
        {
            "app": source.app,
            "agent": agent.agent,
            "topic": source.topic,
            "partition": source.partition,
            "position": agent.offset,
            "started_above": list(agent.started_above),
            "replay_until": agent.replay_until,
            "process": source.receiver,
            "never_read": never_read[source.app, source.topic, source.partition],
        }
        for source in view.captured.inputs
        for agent in source.agents
        or (Position(agent="", topic=source.topic, partition=source.partition, offset=source.position),)
    ]
