"""Consumer groups and the topics that they read.

A group reads the topics to which its members subscribe or are assigned, and those for which it has committed positions
(its members may be away for a moment). Readers without a group are invisible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final, NamedTuple

from aiokafka import errors
from aiokafka.protocol.types import (
    Array,
    Boolean,
    Bytes,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    String,
    TaggedFields,
)

from snapkafka.errors import LedgerUnusableError
from snapkafka.protocol.forking import fork_of, prefixed

from .asking_again import COORDINATOR_MOVES
from .wire_requests import OwnRequest, uuid_type

#: The head of a member's subscription, and of its assignment, that all versions of Kafka's consumers share.
_SUBSCRIPTION: Final = Schema(("version", Int16), ("topics", Array(String("utf-8"))), ("user_data", Bytes))
_ASSIGNMENT: Final = Schema(
    ("version", Int16), ("assignment", Array(("topic", String("utf-8")), ("partitions", Array(Int32))))
)
#: Groups asked for at the same time.
CONCURRENCY: Final = 8
#: What `ListGroups` calls groups that read topics. Those of share and streams consumers are not described by the
#: requests that we have; others (Connect's, ...) read no topics.
READING: Final = frozenset({"consumer", "share", "streams", ""})
CLASSIC: Final = frozenset({"consumer", ""})
#: Kafka's error code of a group that does not exist, or is of another type.
GROUP_ID_NOT_FOUND: Final = 69
#: The state of a listed group that the classic `DescribeGroups` does not know.
UNDESCRIBED: Final = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group: its id, the client's own name, and the host from which it connects."""

    member: str
    client: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """A consumer group. `topics`: those that it reads or has read; None: unknown."""

    name: str
    state: str
    members: tuple[Member, ...]
    topics: frozenset[str] | None


_PARTITIONS: Final = Schema(
    (
        "topic_partitions",
        CompactArray(
            ("topic_id", uuid_type),
            ("topic_name", CompactString("utf-8")),
            ("partitions", CompactArray(Int32)),
            ("tags", TaggedFields),
        ),
    ),
    ("tags", TaggedFields),
)


class ConsumerGroupDescribeRequest(OwnRequest):
    """The request to describe a group of the new consumer protocol (KIP-848), which aiokafka lacks."""

    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION = 69, 0
    SCHEMA = Schema(
        ("group_ids", CompactArray(CompactString("utf-8"))),
        ("include_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )
    ANSWER = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            CompactArray(
                ("error_code", Int16),
                ("error_message", CompactString("utf-8")),
                ("group_id", CompactString("utf-8")),
                ("group_state", CompactString("utf-8")),
                ("group_epoch", Int32),
                ("assignment_epoch", Int32),
                ("assignor_name", CompactString("utf-8")),
                (
                    "members",
                    CompactArray(
                        ("member_id", CompactString("utf-8")),
                        ("instance_id", CompactString("utf-8")),
                        ("rack_id", CompactString("utf-8")),
                        ("member_epoch", Int32),
                        ("client_id", CompactString("utf-8")),
                        ("client_host", CompactString("utf-8")),
                        ("subscribed_topic_names", CompactArray(CompactString("utf-8"))),
                        ("subscribed_topic_regex", CompactString("utf-8")),
                        ("assignment", _PARTITIONS),
                        ("target_assignment", _PARTITIONS),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )

    def __init__(self, group: str) -> None:
        super().__init__([group], False, {})


async def group_members(admin: Any, group: str) -> tuple[Member, ...]:
    """List the members of a group; empty if there is no such group.

    A group of the new consumer protocol (KIP-848) is unknown to the classic request, and to brokers before Kafka 4.

    Args:
        admin: a connected aiokafka admin client.

    Raises:
        LedgerUnusableError: it is of a kind that cannot be described.
        KafkaError: no broker answers, or a right is missing.
    """
    (response,) = await admin.describe_consumer_groups([group])
    ((code, _, state, _, _, members, *_),) = response.groups
    if code and code != GROUP_ID_NOT_FOUND:
        raise errors.for_code(code)(group)
    if not code and state != UNDESCRIBED:
        return _members(members)
    found = await _describe_new(admin, group)
    if found is None:
        kinds = {kind for name, kind, *_ in await admin.list_consumer_groups() if name == group}
        if kinds - {""}:
            raise LedgerUnusableError(
                f"group {group} is of type {', '.join(sorted(kinds))}, and its members cannot be seen",
                hint="use another name for one of them: an app's id is the name of its consumer group",
            )
        return ()
    return _members_of_new(found.members)


class _NewGroup(NamedTuple):
    """A group of the new consumer protocol, as the broker describes it."""

    state: str
    members: list[Any]


async def _describe_new(admin: Any, group: str) -> _NewGroup | None:
    """Describe a group of the new consumer protocol (KIP-848); None: there is none of that name."""
    coordinator = await admin.find_coordinator(group)
    try:
        answer = await admin._client.send(coordinator, ConsumerGroupDescribeRequest(group))
    except LedgerUnusableError:
        return None  # the broker is older than such groups
    ((code, message, _, state, _, _, _, members, *_),) = answer.groups
    if code == GROUP_ID_NOT_FOUND:
        return None
    if code:
        raise errors.for_code(code)(message or group)
    return _NewGroup(state, members)


def _members(found: Iterable[Any]) -> tuple[Member, ...]:
    return tuple(Member(member=it[0], client=it[1], host=it[2]) for it in found)


def _members_of_new(found: Iterable[Any]) -> tuple[Member, ...]:
    return tuple(Member(member=it[0], client=it[4], host=it[5]) for it in found)


async def list_groups(admin: Any, brokers: list[int], coordinators: dict[str, int]) -> list[ConsumerGroup]:
    """List every group of the cluster, by name.

    Args:
        admin: a connected aiokafka admin client.
        brokers: all of the cluster.
        coordinators: the broker of each group, as far as it was found before; what is found is added.

    Raises:
        KafkaError: no broker answers, or a right is missing.
    """
    listed = sorted({(name, kind) for name, kind, *_ in await admin.list_consumer_groups(brokers)})
    try:
        return await _described(admin, listed, coordinators)
    except (*COORDINATOR_MOVES, errors.NodeNotReadyError, errors.KafkaConnectionError):
        coordinators.clear()
        return await _described(admin, listed, coordinators)


async def _described(
    admin: Any, listed: list[tuple[str, str]], coordinators: dict[str, int]
) -> list[ConsumerGroup]:
    gate = asyncio.Semaphore(CONCURRENCY)

    async def describe(name: str, kind: str) -> ConsumerGroup:
        async with gate:
            if name not in coordinators:
                coordinators[name] = await admin.find_coordinator(name)
            return await _describe(admin, name, kind, coordinators[name])

    return list(await asyncio.gather(*(describe(name, kind) for name, kind in listed)))


async def _describe(admin: Any, name: str, kind: str, coordinator: int) -> ConsumerGroup:
    """Describe a group; its positions are asked for first, for a broker does not report there that it coordinates the
    group no more. One group at a time: aiokafka cannot read an answer about several."""
    found = await admin.list_consumer_group_offsets(name, group_coordinator_id=coordinator)
    committed = {tp.topic for tp in found}
    (response,) = await admin.describe_consumer_groups([name], group_coordinator_id=coordinator)
    ((code, _, state, _, _, members, *_),) = response.groups
    if code and code != GROUP_ID_NOT_FOUND:
        raise errors.for_code(code)(name)
    if kind in CLASSIC and (code or state == UNDESCRIBED) and (new := await _describe_new(admin, name)):
        return ConsumerGroup(
            name=name,
            state=new.state,
            members=_members_of_new(new.members),
            topics=frozenset(_topics_of_new(new.members) | committed),
        )
    topics: frozenset[str] | None
    if kind not in READING:
        topics = frozenset(committed)
    elif kind not in CLASSIC or state == UNDESCRIBED or (subscribed := _topics_of(members)) is None:
        topics = None
    else:
        topics = frozenset(subscribed | committed)
    return ConsumerGroup(
        name=name,
        state=state,
        members=_members(members),
        topics=topics,
    )


def _topics_of(members: Iterable[Any]) -> set[str] | None:
    """Return the topics to which members subscribe or are assigned; None if a member cannot be read."""
    topics: set[str] = set()
    try:
        for _, _, _, subscription, assignment in members:
            if subscription:
                topics.update(_SUBSCRIPTION.decode(BytesIO(subscription))[1] or ())
            if assignment:
                topics.update(topic for topic, _ in _ASSIGNMENT.decode(BytesIO(assignment))[1] or ())
    except (ValueError, UnicodeDecodeError):
        return None
    return topics


def _topics_of_new(members: Iterable[Any]) -> set[str]:
    """Return the topics to which members subscribe, or which they were or are to be assigned: those of a pattern."""
    topics: set[str] = set()
    for *_, subscribed, _, assignment, target, _ in members:
        topics.update(subscribed or ())
        topics.update(name for partitions, _ in (assignment, target) for _, name, *_ in partitions)
    return topics


def positions_group(namespace: str, app: str) -> str:
    """Return the consumer group that shows in any Kafka tool where an app stood in the latest verified snapshot.

    In a fork its name has the fork's prefix, like all names there: removal and access rights depend on it.
    """
    name, fork = f"snapkafka.{namespace}.{app}", fork_of(namespace)
    return prefixed(fork, name) if fork else name
