"""What a remote process is in values: its bounds, its notices, its inputs, and what it states of them (R9, R11)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from snapkafka.errors import BadInputError, OffsetsGoneError, TriggerRefusedError
from snapkafka.ports import Topic
from snapkafka.protocol.ledger_view import LedgerView
from snapkafka.protocol.records import (
    REMOTE,
    REMOTE_STATE,
    RESTORE,
    InputTopic,
    TopicPartition,
)

from ..hello import input_of

#: The one agent of a remote process: all of it.
READER: Final = "remote"
#: The one table that its state is; the changelog of that is named after the process.
TABLE: Final = "remote"
CODECS: Final = ("raw", "json")
NODE: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
#: Of a channel's name; the empty one stands for the process itself.
CHANNEL_CHARS_MAX: Final = 200
CHUNK_NUMBERS: Final = range(1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds for one process."""

    chunk_bytes_max: int = 512 * 1024  # of one piece of state, a Kafka record
    state_bytes_max: int = 64 * 1024 * 1024  # of all pieces of one snapshot
    chunks_max: int = 10_000
    record_bytes_max: int = 512 * 1024  # of a record that it sends, key and value
    #: Of a record that it receives: clients of gRPC accept messages of 4 MiB unless set otherwise.
    receive_bytes_max: int = 4 * 1024 * 1024 - 64 * 1024
    ahead_bytes_max: int = 8 * 1024 * 1024  # of the records that are read ahead for it
    causes_max: int = 100_000  # unprocessed records that are causes of sends
    sends_max: int = 1_000  # in flight
    call_s: float = 30.0  # how long a call may wait for Kafka
    grace_s: float = 10.0  # how long the end of a process may take
    look_s: float = 2.0  # between two checks of its inputs


class Marker(NamedTuple):
    """The request to the process to record its state for this snapshot. `timestamp_ns`: when it was asked for."""

    snapshot_id: str
    epoch: int
    timestamp_ns: int


class Left(NamedTuple):
    """The last notice: the process no longer takes part, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A topic that the process reads. `positions`: first unprocessed offset, for some of its partitions."""

    topic: str
    positions: Mapping[int, int] = field(default_factory=dict)
    key_codec: str = ""
    value_codec: str = ""


class Starts(NamedTuple):
    """The inputs as the cluster has them, and the offset at which each partition starts."""

    topics: tuple[InputTopic, ...] = ()
    positions: Mapping[TopicPartition, int] = {}


async def resolve(admin: Any, node: str, inputs: Sequence[Input]) -> Starts:
    """Find every partition of these topics and its start: the named position, the committed offset, or the start of
    the log.

    Raises:
        SnapkafkaError: a topic, a position or a codec cannot be, or the group `node` has members.
    """
    if not inputs:
        return Starts()
    names = [item.topic for item in inputs]
    if len(set(names)) < len(names):
        raise BadInputError("an input is named twice", hint="name each topic once")
    if unknown := {c for i in inputs for c in (i.key_codec, i.value_codec) if c} - set(CODECS):
        raise BadInputError(
            f"codec {min(unknown)[:20]!r} of an input is unknown", hint=f"use {' or '.join(CODECS)}"
        )
    if members := len(await admin.group_members(node)):
        raise TriggerRefusedError(
            f"consumer group {node} has {members} members: an app that speaks Kafka runs under that name",
            hint="join by another node_id: its positions are committed by the group of that name",
        )
    described = await admin.describe_topics(names)
    if missing := sorted(set(names) - described.keys()):
        raise BadInputError(f"there is no topic {missing[0][:100]}", hint="create it first")
    topics = tuple(
        input_of(it.topic, described[it.topic], it.key_codec or CODECS[0], it.value_codec or CODECS[0])
        for it in inputs
    )
    return Starts(topics, await _positions(admin, node, inputs, topics))


async def _positions(
    admin: Any, node: str, inputs: Sequence[Input], topics: Collection[InputTopic]
) -> dict[TopicPartition, int]:
    tps = [TopicPartition(found.topic, number) for found in topics for number in range(found.partitions)]
    given = {
        TopicPartition(i.topic, number): offset for i in inputs for number, offset in i.positions.items()
    }
    if unknown := sorted(given.keys() - set(tps)):
        raise BadInputError(f"there is no partition {unknown[0]}", hint="leave it out")
    begins, ends = await admin.log_starts(tps), await admin.log_ends(tps)
    commits = {tp: offset for tp, (offset, _) in (await admin.committed(node)).items() if offset >= 0}
    found: dict[TopicPartition, int] = {}
    for tp in tps:
        begin, end = begins.get(tp, 0), ends.get(tp, 0)
        position = found[tp] = given.get(tp, commits.get(tp, begin))
        whose = "given" if tp in given else "committed"
        if position > end or position < 0:
            raise BadInputError(
                f"the {whose} position {position} of {tp} is not in its log, which ends at {end}",
                hint="give a position in its log; was the topic recreated?",
            )
        if position < begin:
            raise OffsetsGoneError(
                f"the records at the {whose} position {position} of {tp} were deleted: its log begins at {begin}",
                hint=f"give position {begin} to go on without them; raise retention.ms of the topic",
            )
    return found


def require_alone(node: str, ledger: LedgerView) -> None:
    """Refuse a name under which an app speaks Kafka, if it runs, or snapshots still hold it."""
    for view in ledger.processes.values():
        if view.hello.app != node or view.hello.mode in (REMOTE, RESTORE):
            continue
        if view.left is None:
            raise TriggerRefusedError(f"an app {node} runs that speaks Kafka", hint="join by another node_id")
        if ledger.unretired(view):
            raise TriggerRefusedError(
                f"an app {node} that speaks Kafka is stopped, and snapshots still hold it",
                hint=f"join by another node_id, or retire it: snapkafka retire {node}",
            )


def changed_input(known: Mapping[str, InputTopic], described: Mapping[str, Topic]) -> str:
    """Return which of these topics is no longer the input that it was, and why; empty: none."""
    for name, was in known.items():
        found = described.get(name)
        if found is None:
            return f"its input {name} was deleted"
        if found.topic_id != was.topic_id:
            return f"its input {name} was recreated"
        if found.partitions > was.partitions:
            return f"its input {name} has new partitions"
    return ""


def require_node(node: str) -> None:
    """Refuse a name that cannot be part of a topic name."""
    if not NODE.fullmatch(node) or node in (".", ".."):
        raise BadInputError(
            f"node_id {node[:40]!r} is invalid", hint="use 1 to 100 letters, digits and any of . _ -"
        )


def changelog_of(namespace: str, node: str) -> str:
    """Return the name of the topic that holds the state of a process."""
    return f"{REMOTE_STATE}{namespace}.{node}"


def key_of(channel: str, chunk: int) -> bytes:
    """Encode the key of a piece of state as JSON."""
    if len(channel) > CHANNEL_CHARS_MAX:
        raise BadInputError(
            f"channel_id has {len(channel)} characters", hint=f"use at most {CHANNEL_CHARS_MAX}"
        )
    if chunk not in CHUNK_NUMBERS:
        raise BadInputError(f"chunk must be 0 to {CHUNK_NUMBERS[-1]}, got {chunk}")
    return json.dumps({"channel": channel, "chunk": chunk}).encode()
