"""Rows that follow from the captured snapshot alone: what engines join records with, and whole tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from snapkafka.checks import CutView, in_flight
from snapkafka.manifest import LedgerEntry
from snapkafka.protocol.offsets import TornEvent
from snapkafka.protocol.records import Position, TopicPartition

from .schemas import LAST_MS, UNIX_EPOCH
from .values.decoding import JSON_CODECS, TEXT_CODECS, normal_name

#: The inputs of each partition, as `input_rows` gives them.
Inputs: TypeAlias = Mapping[TopicPartition, Sequence[Mapping[str, Any]]]


class Channel(NamedTuple):
    """A channel, by the columns of the tables `messages` and `channels`."""

    sender: int
    sender_app: str
    receiver_app: str
    topic: str
    partition: int


class Held(NamedTuple):
    """The messages in flight in a channel, and the bytes of their keys and values."""

    messages: int
    bytes: int


def input_rows(view: CutView) -> list[dict[str, Any]]:
    """Return the inputs, with the progress of their agents. Codecs are those that show more than JSON or text does:
    others than ours write to an input, as they like."""
    return [
        {
            "app": source.app,
            "topic": source.topic,
            "partition": source.partition,
            "log_end": source.log_end,
            "receiver": source.receiver,
            "key_codec": _needed(source.key_codec),
            "value_codec": _needed(source.value_codec),
            "position": source.position,
            "done": sorted(
                {at for agent in source.agents for at in agent.started_above if not in_flight(source, at)}
            ),
        }
        for source in view.captured.inputs
    ]


def inputs_of(view: CutView) -> Inputs:
    """Return the inputs whose topics were not recreated, by partition."""
    found: dict[TopicPartition, list[Mapping[str, Any]]] = {}
    for row in input_rows(view):
        tp = TopicPartition(row["topic"], row["partition"])
        if tp not in view.recreated:
            found.setdefault(tp, []).append(row)
    return found


def _needed(codec: str) -> str | None:
    return None if codec in (*JSON_CODECS, *TEXT_CODECS) else normal_name(codec)


def changelog_rows(view: CutView) -> list[dict[str, Any]]:
    """Return the changelogs, one row each: one that several processes write (a global table's) is reported by each, and
    the highest end counts."""
    by_end = sorted(view.captured.changelogs, key=lambda cut: cut.end)
    cuts = {(cut.app, cut.table, cut.topic, cut.partition): cut for cut in by_end}
    return [
        {
            "app": cut.app,
            "table_name": cut.table,
            "topic": cut.topic,
            "partition": cut.partition,
            "place": place,
            "end": cut.end,
            "key_codec": normal_name(cut.key_codec),
            "value_codec": normal_name(cut.value_codec),
            "sets": cut.sets,
            "windowed": cut.windowed,
        }
        for place, cut in enumerate(cuts.values())
    ]


def channel_rows(view: CutView, held: Mapping[Channel, Held]) -> list[dict[str, Any]]:
    """Return every channel (sender, partition, receiving app) with its content, empty ones too.

    Offsets `[start_offset, end_offset)` go from the receiver's position to the sender's end; both are the position if
    nothing was in flight. Channels of senders that left are listed if they hold something.
    """
    inputs = inputs_of(view)
    ends: dict[Channel, int | None] = dict.fromkeys(held)
    for tp, sources in inputs.items():
        for source in sources:
            for end in view.senders.get(tp, {}).values():
                of = Channel(end.process, view.processes[end.process].app, source["app"], *tp)
                ends[of] = view.white_end(end.process, tp)
    return [
        {
            **of._asdict(),
            "receiver": source["receiver"],
            "start_offset": source["position"],
            "end_offset": max(source["log_end"] if end is None else end, source["position"]),
            **held.get(of, Held(0, 0))._asdict(),
        }
        for of, end in ends.items()
        for source in inputs[TopicPartition(of.topic, of.partition)]
        if source["app"] == of.receiver_app
    ]


def process_rows(view: CutView, ledger: LedgerEntry) -> list[dict[str, Any]]:
    """Return the participants: the source from which each learned of the snapshot, its running and torn events (R6),
    the duration of its cut (microseconds); and when the ledger had the trigger, its report and its closing."""
    times = {entry.offset: entry.at_ms for entry in ledger.appended}
    return [
        asdict(cut)
        | {
            "triggered_at": _at(ledger.triggered_ms),
            "reported_at": _at(times.get(cut.report, 0)),
            "closed_at": _at(times.get(cut.closed, 0)),
            "running": [asdict(event) for event in cut.running],
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
