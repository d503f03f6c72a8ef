"""Bounds for a remote process, and the values of its calls."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from snapkafka.errors import BadInputError
from snapkafka.protocol.records import REMOTE_STATE

#: The one table that the state of a remote process is; its changelog is named after the process.
TABLE: Final = "remote"
CODECS: Final = ("raw", "json")
NODE: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
#: Of a channel's name; the empty one stands for the process itself.
CHANNEL_CHARS_MAX: Final = 200
CHUNK_NUMBERS: Final = range(1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds for one process.

    Args:
        chunk_bytes_max: size of one piece of state, a Kafka record.
        state_bytes_max, chunks_max: size and number of pieces of one snapshot.
        record_bytes_max: size of a record that it sends, key and value.
        receive_bytes_max: size of a record that it receives: clients of gRPC accept messages of 4 MiB unless set
            otherwise.
        ahead_bytes_max: size of the records that are read ahead for it.
        causes_max: number of unprocessed records that are causes of sends.
        sends_max: number of sends in flight.
        call_s: how long a call may wait for Kafka.
        grace_s: how long the end of a process may take.
        look_s: time between two checks of its inputs.
    """

    chunk_bytes_max: int = 512 * 1024
    state_bytes_max: int = 64 * 1024 * 1024
    chunks_max: int = 10_000
    record_bytes_max: int = 512 * 1024
    receive_bytes_max: int = 4 * 1024 * 1024 - 64 * 1024
    ahead_bytes_max: int = 8 * 1024 * 1024
    causes_max: int = 100_000
    sends_max: int = 1_000
    call_s: float = 30.0
    grace_s: float = 10.0
    look_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Marker:
    """The request to the process to record its state for this snapshot. `timestamp_ns`: when the trigger was
    appended."""

    snapshot_id: str
    epoch: int
    timestamp_ns: int


@dataclass(frozen=True, slots=True)
class Left:
    """The last notice: the process no longer takes part, and why."""

    reason: str


def require_node(node: str) -> None:
    """Refuse a name that cannot be part of a topic name.

    Raises:
        BadInputError: the name is invalid.
    """
    if not NODE.fullmatch(node) or node in (".", ".."):
        raise BadInputError(
            f"node_id {node[:40]!r} is invalid", hint="use 1 to 100 letters, digits and any of . _ -"
        )


def changelog_of(namespace: str, node: str) -> str:
    """Return the name of the topic that holds the state of a process."""
    return f"{REMOTE_STATE}{namespace}.{node}"


def key_of(channel: str, chunk: int) -> bytes:
    """Encode the key of a piece of state as JSON.

    Raises:
        BadInputError: the channel's name is too long, or the number is out of range.
    """
    if len(channel) > CHANNEL_CHARS_MAX:
        raise BadInputError(
            f"channel_id has {len(channel)} characters", hint=f"use at most {CHANNEL_CHARS_MAX}"
        )
    if chunk not in CHUNK_NUMBERS:
        raise BadInputError(f"chunk must be 0 to {CHUNK_NUMBERS[-1]}, got {chunk}")
    return json.dumps({"channel": channel, "chunk": chunk}).encode()
