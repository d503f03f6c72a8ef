"""The inputs of a remote process: where each partition starts, and what it states of them when it joins (R9, R11)."""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from snapkafka.errors import (
    BadInputError,
    OffsetsGoneError,
    TriggerRefusedError,
)
from snapkafka.ports import Topic
from snapkafka.protocol.events import AssignedInput, InputsAssigned
from snapkafka.protocol.ledger_view import LedgerView
from snapkafka.protocol.records import (
    REMOTE,
    RESTORE,
    ChangelogEnd,
    Hello,
    InputTopic,
    Retention,
    Table,
    TopicPartition,
)

from .settings import CODECS, TABLE

#: The one agent of a remote process: all of it.
READER: Final = "remote"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A topic that the process reads. `positions`: first unprocessed offset, for some of its partitions."""

    topic: str
    positions: Mapping[int, int] = field(default_factory=dict)
    key_codec: str = ""
    value_codec: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """The inputs as the cluster has them, and the offset at which each partition starts."""

    topics: tuple[InputTopic, ...] = ()
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)


async def resolve(admin: Any, node: str, inputs: Sequence[Input]) -> Starts:
    """Find every partition of these topics and its start: the named position, the committed offset, or the start of
    the log.

    Raises:
        BadInputError: there is no such topic, partition or codec, or a position is beyond the end of the log.
        OffsetsGoneError: the records at a position were deleted.
        TriggerRefusedError: the consumer group `node` has members.
        SnapkafkaError: Kafka cannot be used.
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
    if members := await admin.members(node):
        raise TriggerRefusedError(
            f"consumer group {node} has {members} members: an app that speaks Kafka runs under that name",
            hint="join by another node_id: its positions are committed by the group of that name",
        )
    described = await admin.describe_topics(names)
    if missing := sorted(set(names) - described.keys()):
        raise BadInputError(f"there is no topic {missing[0][:100]}", hint="create it first")
    topics = tuple(
        InputTopic(
            topic=item.topic,
            partitions=described[item.topic].partitions,
            topic_id=described[item.topic].topic_id,
            key_codec=item.key_codec or CODECS[0],
            value_codec=item.value_codec or CODECS[0],
        )
        for item in inputs
    )
    return Starts(topics=topics, positions=await _positions(admin, node, inputs, topics))


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
        position = given.get(tp, commits.get(tp, begin))
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
        found[tp] = position
    return found


def hello_of(node: str, starts: Starts, table: Table, retention: Retention, *, hostname: str) -> Hello:
    """Compose the `Hello` of a process.

    Args:
        table, retention: of its state.
    """
    return Hello(
        n=0,
        app=node,
        host=hostname or socket.gethostname(),
        mode=REMOTE,
        inputs=starts.topics,
        tables=(table,),
        retention=(retention,),
        reset="earliest" if starts.topics else "",
    )


def assigned_at(process: int, starts: Starts, changelog: str, end: int) -> InputsAssigned:
    """Return the assignment of its inputs. Of two processes of one name the later has the higher id, so that is the
    generation: what the earlier one announces before it reads of the later moves nothing.

    Args:
        end: of its changelog.
    """
    return InputsAssigned(
        generation=process,
        inputs=tuple(
            AssignedInput(tp=tp, agents=(READER,), position=at) for tp, at in starts.positions.items()
        ),
        changelogs=(ChangelogEnd(table=TABLE, topic=changelog, partition=0, end=end),),
    )


def require_alone(node: str, ledger: LedgerView) -> None:
    """Refuse a name under which an app speaks Kafka.

    Raises:
        TriggerRefusedError: it runs, or snapshots still hold it.
    """
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
    for name, found in sorted(described.items()):
        if found.topic_id != known[name].topic_id:
            return f"its input {name} was recreated"
        if found.partitions > known[name].partitions:
            return f"its input {name} has new partitions"
    return ""
