"""Consumer groups and the topics that they read.

A group reads the topics to which its members subscribe or are assigned, and those for which it has committed positions
(its members may be away for a moment). Readers without a group are invisible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from io import BytesIO
from typing import Any, Final

from aiokafka import errors

from snapkafka.errors import LedgerUnusableError
from snapkafka.ports import Group, Member
from snapkafka.protocol.forking import fork_of, prefixed

from .asking_again import COORDINATOR_MOVES
from .requests import ConsumerGroupDescribe, form

#: The head of a member's subscription, and of its assignment, that all versions of Kafka's consumers share.
SUBSCRIPTION: Final = form("version:i16 topics:[str] data:bytes")
_ASSIGNMENT: Final = form("version:i16 assigned:[topic:str partitions:[i32]]")
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


async def _describe_new(admin: Any, group: str) -> Any:
    """Describe a group of the new consumer protocol (KIP-848); None: there is none of that name."""
    coordinator = await admin.find_coordinator(group)
    try:
        answer = await admin._client.send(coordinator, ConsumerGroupDescribe([group], False))
    except LedgerUnusableError:
        return None  # the broker is older than such groups
    (found,) = answer.groups
    if found.error == GROUP_ID_NOT_FOUND:
        return None
    if found.error:
        raise errors.for_code(found.error)(found.why or group)
    return found


def _members(found: Iterable[Any]) -> tuple[Member, ...]:
    return tuple(Member(*it[:3]) for it in found)


def _members_of_new(found: Iterable[Any]) -> tuple[Member, ...]:
    return tuple(Member(it.member, it.client, it.host) for it in found)


async def list_groups(admin: Any, brokers: list[int], coordinators: dict[str, int]) -> list[Group]:
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


async def _described(admin: Any, listed: list[tuple[str, str]], coordinators: dict[str, int]) -> list[Group]:
    gate = asyncio.Semaphore(CONCURRENCY)

    async def describe(name: str, kind: str) -> Group:
        async with gate:
            if name not in coordinators:
                coordinators[name] = await admin.find_coordinator(name)
            return await _describe(admin, name, kind, coordinators[name])

    return list(await asyncio.gather(*(describe(name, kind) for name, kind in listed)))


async def _describe(admin: Any, name: str, kind: str, coordinator: int) -> Group:
    """Describe a group; its positions are asked for first, for a broker does not report there that it coordinates the
    group no more. One group at a time: aiokafka cannot read an answer about several."""
    found = await admin.list_consumer_group_offsets(name, group_coordinator_id=coordinator)
    committed = {tp.topic for tp in found}
    topics: frozenset[str] | None
    (response,) = await admin.describe_consumer_groups([name], group_coordinator_id=coordinator)
    ((code, _, state, _, _, members, *_),) = response.groups
    if code and code != GROUP_ID_NOT_FOUND:
        raise errors.for_code(code)(name)
    if kind in CLASSIC and (code or state == UNDESCRIBED) and (new := await _describe_new(admin, name)):
        topics = frozenset(_topics_of_new(new.members) | committed)
        return Group(name, topics, _members_of_new(new.members), new.state)
    if kind not in READING:
        topics = frozenset(committed)
    elif kind not in CLASSIC or state == UNDESCRIBED or (subscribed := _topics_of(members)) is None:
        topics = None
    else:
        topics = frozenset(subscribed | committed)
    return Group(name, topics, _members(members), state)


def _topics_of(members: Iterable[Any]) -> set[str] | None:
    """Return the topics to which members subscribe or are assigned; None if a member cannot be read."""
    topics: set[str] = set()
    try:
        for _, _, _, subscription, assignment in members:
            if subscription:
                topics.update(SUBSCRIPTION.decode(BytesIO(subscription)).topics or ())
            if assignment:
                topics.update(each.topic for each in _ASSIGNMENT.decode(BytesIO(assignment)).assigned or ())
    except (ValueError, UnicodeDecodeError):
        return None
    return topics


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
