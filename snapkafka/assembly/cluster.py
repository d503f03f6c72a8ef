"""Facts about the cluster that are needed before anything is read: the existing offsets, and the topics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from snapkafka.checks import CutView, Keeping
from snapkafka.errors import LedgerUnusableError, OffsetsGoneError, TimedOutError
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.kafka.cluster.restorable import keeping, log_bounds
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import TopicEntry
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.records import Retention, TopicPartition
from snapkafka.topic_config import promised_by
from snapkafka.until import Tries

ISOLATIONS: Final = ("read_uncommitted", "read_committed")
#: What was aborted is no message and no state, whoever sent it; where there are no transactions it makes no difference.
DEFAULT_ISOLATION: Final = "read_committed"
#: Records of a channel about the cut that the table `around` holds, on each side of it; no picture shows more than
#: `AROUND_MAX`.
AROUND_RECORDS: Final = 50
AROUND_MAX: Final = 10_000
#: A transaction that was open at the cut is over by then, or its producer is dead: the broker's own limit is 60 s.
STABLE_TIMEOUT_S: Final = 70.0
STABLE_POLL_S: Final = 0.2

_T = TypeVar("_T")


async def ask_once(connection: Connection, question: Callable[[KafkaTopicAdmin], Awaitable[_T]]) -> _T:
    """Ask the cluster by an administrator of its own."""
    async with KafkaTopicAdmin(connection) as admin:
        return await question(admin)


async def look(admin: KafkaTopicAdmin, captured: Captured, *, isolation: str, age_ms: int) -> CutView:
    """Return the snapshot with the present bounds of its log.

    Args:
        age_ms: of the cut, as far as known; a very long time: unknown. Settings vouch for nothing where it is negative.
        isolation: "read_committed" waits until every end of the snapshot can be read: past the last stable offset
            Spark fails.

    Raises:
        TimedOutError: a transaction that was open at the cut is still open.
        BrokerUnavailableError, LedgerUnusableError: the cluster does not answer, or a right is missing.
    """
    unbound = CutView(captured)
    bounds = await log_bounds(admin, {*unbound.inputs, *unbound.changelogs})
    there = {tp.topic for tp in bounds.keys() & unbound.changelogs.keys()}
    promised = [it for it in captured.retention if it.topic in there]
    kept = dict(await asyncio.gather(*(_keeping(admin, it, age_ms) for it in promised)))
    ends = {tp: now.end for tp, now in bounds.items()}
    if isolation == "read_committed":
        needed = {tp: min(unbound.closed_end(tp), end) for tp, end in ends.items()}
        ends = await _stable_ends(admin, needed)
    return CutView(
        captured,
        {tp: replace(now, end=ends[tp], keeping=kept.get(tp.topic)) for tp, now in bounds.items()},
    )


async def require_same_topics(admin: KafkaTopicAdmin, view: CutView) -> None:
    """Refuse what was read of a topic that was deleted or recreated since `look`: offsets belong to one topic id.

    Raises:
        OffsetsGoneError: there is such a topic.
        BrokerUnavailableError, LedgerUnusableError: the topics cannot be described.
    """
    known = {tp.topic: now.topic_id for tp, now in (view.bounds or {}).items() if now.topic_id}
    found = await admin.describe_topics(known)
    others = sorted(name for name, of in known.items() if name not in found or found[name].topic_id != of)
    if others:
        raise OffsetsGoneError(
            f"topic {others[0]} was deleted or recreated while its log was read",
            hint="assemble it again: the log may still hold what it needs",
        )


async def look_at_topics(admin: KafkaTopicAdmin, captured: Captured) -> tuple[TopicEntry, ...]:
    """Describe the inputs, changelogs and outputs of a snapshot, by name; those that are deleted are left out.

    Unauthorized settings are left out, without an error: a manifest with some of them is better than none.
    """
    parts: list[Any] = [*captured.inputs, *captured.changelogs, *captured.senders]

    async def settings(topic: str) -> Mapping[str, str]:
        try:
            return (await admin.topic_settings(topic))[1]
        except LedgerUnusableError:
            return {}

    found = sorted((await admin.describe_topics({part.topic for part in parts})).items())
    own = await asyncio.gather(*(settings(name) for name, _ in found))
    return tuple(
        TopicEntry(name=name, topic_id=it.topic_id, partitions=it.partitions, settings=of_it)
        for (name, it), of_it in zip(found, own, strict=True)
    )


async def _keeping(admin: KafkaTopicAdmin, then: Retention, age_ms: int) -> tuple[str, Keeping | None]:
    """Return the retention of a changelog since the cut; None if its settings are unauthorized."""
    try:
        holding, _ = await admin.topic_settings(then.topic)
    except LedgerUnusableError:
        return then.topic, None
    return then.topic, keeping(then, promised_by(then.topic, holding), age_ms=age_ms)


async def _stable_ends(
    admin: KafkaTopicAdmin, needed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the last stable offsets, as soon as each has reached the needed offset."""
    async for _ in Tries(STABLE_TIMEOUT_S, STABLE_POLL_S):
        ends = await admin.log_ends(needed, stable=True)
        late = sorted(tp for tp in needed if ends[tp] < needed[tp])
        if not late:
            return ends
    raise TimedOutError(
        f"an open transaction on {late[0]} ends the readable log at {ends[late[0]]}, "
        f"the snapshot needs {needed[late[0]]}",
        hint="end or abort it (kafka-transactions.sh --find-hanging)",
    )
