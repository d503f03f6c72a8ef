"""Consumer groups and the topics that they read.

A group reads the topics to which its members subscribe or are assigned, and those for which it has committed positions
(its members may be away for a moment). Readers without a group are invisible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from aiokafka import errors
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from aiokafka.protocol.admin import DeleteGroupsRequest

from snapkafka.errors import LedgerUnusableError
from snapkafka.ports import Group, Member
from snapkafka.protocol.forking import fork_of, prefixed

from .requests import ConsumerGroupDescribe

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


async def group_members(admin: Any, group: str) -> Sequence[Member]:
    """List the members of a group; empty if there is no such group.

    A group of the new consumer protocol (KIP-848) is unknown to the classic request, and to brokers before Kafka 4.

    Args:
        admin: a connected aiokafka admin client.

    Raises:
        LedgerUnusableError: it is of a kind that cannot be described.
        KafkaError: no broker answers, or a right is missing.
    """
    if found := await _seen(admin, group, await admin.find_coordinator(group)):
        return found.members
    kinds = {kind for name, kind, *_ in await admin.list_consumer_groups() if name == group}
    if kinds - {""}:
        raise LedgerUnusableError(
            f"group {group} is of type {', '.join(sorted(kinds))}, and its members cannot be seen",
            hint="use another name for one of them: an app's id is the name of its consumer group",
        )
    return ()


async def _seen(admin: Any, name: str, coordinator: int) -> Group | None:
    """Describe a group of the classic protocol, or of the new one (KIP-848); None: it is of neither."""
    (response,) = await admin.describe_consumer_groups([name], group_coordinator_id=coordinator)
    ((code, _, state, _, _, members, *_),) = response.groups
    if code and code != GROUP_ID_NOT_FOUND:
        raise errors.for_code(code)(name)
    if not code and state != UNDESCRIBED:
        return Group(name, _topics_of(members), tuple(Member(*it[:3]) for it in members))
    try:
        answer = await admin._client.send(coordinator, ConsumerGroupDescribe([name], False))
    except LedgerUnusableError:
        return None  # the broker is older than such groups
    (new,) = answer.groups
    if new.error == GROUP_ID_NOT_FOUND:
        return None
    if new.error:
        raise errors.for_code(new.error)(new.why or name)
    seen = tuple(Member(it.member, it.client, it.host) for it in new.members)
    return Group(name, frozenset(_topics_of_new(new.members)), seen)


async def list_groups(admin: Any, brokers: Iterable[int]) -> list[Group]:
    """List every group of the cluster. Each broker lists those that it coordinates.

    Args:
        admin: a connected aiokafka admin client.
        brokers: all of the cluster.

    Raises:
        KafkaError: no broker answers, or a right is missing.
    """
    gate = asyncio.Semaphore(CONCURRENCY)

    async def describe(broker: int, name: str, kind: str) -> Group:
        async with gate:
            return await _describe(admin, name, kind, broker)

    listed = [
        (broker, name, kind)
        for broker in brokers
        for name, kind, *_ in sorted(await admin.list_consumer_groups([broker]))
    ]
    return list(await asyncio.gather(*(describe(*each) for each in listed)))


async def _describe(admin: Any, name: str, kind: str, coordinator: int) -> Group:
    """Describe a group; its positions are asked for first, for a broker does not report there that it coordinates the
    group no more. One group at a time: aiokafka cannot read an answer about several."""
    found = await admin.list_consumer_group_offsets(name, group_coordinator_id=coordinator)
    committed = frozenset(tp.topic for tp in found)
    seen = await _seen(admin, name, coordinator) or Group(name, None)
    topics = committed if kind not in READING else None
    if kind in CLASSIC and seen.topics is not None:
        topics = seen.topics | committed
    return replace(seen, topics=topics)


async def delete_group(admin: Any, group: str) -> None:
    """Delete a group, if there is one.

    Args:
        admin: a connected aiokafka admin client.

    Raises:
        KafkaError: it has members, no broker answers, or a right is missing.
    """
    answer = await admin._client.send(await admin.find_coordinator(group), DeleteGroupsRequest([group]))
    for name, code in answer.results:
        if code not in (0, GROUP_ID_NOT_FOUND):
            raise errors.for_code(code)(name)


def _topics_of(members: Iterable[Any]) -> frozenset[str] | None:
    """Return the topics to which members subscribe or are assigned; None if a member cannot be read."""
    topics: set[str] = set()
    try:
        for _, _, _, subscription, assignment in members:
            if subscription:
                topics.update(ConsumerProtocolMemberMetadata.decode(subscription).subscription or ())
            if assignment:
                given = ConsumerProtocolMemberAssignment.decode(assignment).assignment
                topics.update(topic for topic, _ in given or ())
    except (ValueError, UnicodeDecodeError):
        return None
    return frozenset(topics)


def _topics_of_new(members: Iterable[Any]) -> set[str]:
    """Return the topics to which members subscribe, or which they were or are to be assigned: those of a pattern."""
    topics: set[str] = set()
    for member in members:
        topics.update(member.topics or ())
        topics.update(each.topic for given in (member.assigned, member.target) for each in given.partitions)
    return topics


def positions_group(namespace: str, app: str) -> str:
    """Return the consumer group that shows in any Kafka tool where an app stood in the latest verified snapshot.

    In a fork its name has the fork's prefix, like all names there: removal and access rights depend on it.
    """
    name, fork = f"snapkafka.{namespace}.{app}", fork_of(namespace)
    return prefixed(fork, name) if fork else name
