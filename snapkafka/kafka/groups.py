"""Who reads what: consumer groups and their topics.

A group reads the topics that its members subscribe to or are assigned, and those that it has committed positions for
(its members may be away just now). Readers without a group cannot be seen by anybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

from aiokafka import errors
from aiokafka.protocol.types import Array, Bytes, Int16, Int32, Schema, String

__all__ = ["ConsumerGroup", "Member", "list_groups"]

#: The head of a member's subscription, and of its assignment, that all versions of Kafka's consumers share.
_SUBSCRIPTION: Final = Schema(("version", Int16), ("topics", Array(String("utf-8"))), ("user_data", Bytes))
_ASSIGNMENT: Final = Schema(
    ("version", Int16), ("assignment", Array(("topic", String("utf-8")), ("partitions", Array(Int32))))
)
#: Groups asked for at the same time.
CONCURRENCY: Final = 8
#: What `ListGroups` calls groups that read topics. Those of share and streams consumers, and of the new consumer
#: protocol (KIP-848), are not described by the requests that we have; others (Connect's, ...) read no topics.
READING: Final = frozenset({"consumer", "share", "streams", ""})
CLASSIC: Final = frozenset({"consumer", ""})
#: What a group is said to be that the classic `DescribeGroups` does not know, though it was listed.
UNDESCRIBED: Final = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group: its id, the client's own name, and the host it connects from."""

    member: str
    client: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """A consumer group. `topics`: what it reads or has read, None where that cannot be told."""

    name: str
    state: str
    members: tuple[Member, ...]
    topics: frozenset[str] | None


async def list_groups(admin: Any) -> list[ConsumerGroup]:
    """Every group of the cluster, by name.

    Args:
        admin: a connected aiokafka admin client.

    Raises:
        KafkaError: nobody answers, or a right is missing.
    """
    listed = sorted({(name, kind) for name, kind, *_ in await admin.list_consumer_groups()})
    gate = asyncio.Semaphore(CONCURRENCY)

    async def describe(name: str, kind: str) -> ConsumerGroup:
        async with gate:
            return await _describe(admin, name, kind)

    return list(await asyncio.gather(*(describe(name, kind) for name, kind in listed)))


async def _describe(admin: Any, name: str, kind: str) -> ConsumerGroup:
    committed = {tp.topic for tp in await admin.list_consumer_group_offsets(name)}
    (response,) = await admin.describe_consumer_groups([name])
    ((code, _, state, _, _, members, *_),) = response.groups
    if code:
        raise errors.for_code(code)(name)
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
        members=tuple(Member(member=m[0], client=m[1], host=m[2]) for m in members),
        topics=topics,
    )


def _topics_of(members: Iterable[Any]) -> set[str] | None:
    """Topics that members subscribe to or are assigned; None where a member cannot be read."""
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
