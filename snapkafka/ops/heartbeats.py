"""The Kafka sessions of processes: those in the ledger, compared with the members of their consumer groups.

A group's coordinator drops a member whose heartbeats are missing for the session's time (`broker_session_timeout` of
an app). The ledger learns of such a death only from the next snapshot that waits in vain; this shows it before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from snapkafka.errors import SnapkafkaError
from snapkafka.ports import TopicAdmin
from snapkafka.protocol.snapshots import ProcessView


class HeartbeatSession(StrEnum):
    """The session of a process, as the coordinator of its group sees it."""

    HELD = "held"
    OVER = "over"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A living process of the ledger with its session. `why`: the reason why its session is unknown."""

    process: int
    session: HeartbeatSession
    why: str = ""


async def heartbeats(admin: TopicAdmin, processes: Iterable[ProcessView]) -> dict[int, Heartbeat]:
    """Look up the sessions of the processes that the ledger counts as living.

    A member that no process has announced may be one of them with a new id, which it announces once its tables are
    recovered: until then no process of its app counts as lost.
    """
    by_app: dict[str, list[ProcessView]] = {}
    for view in processes:
        if view.left is None:
            by_app.setdefault(view.hello.app, []).append(view)
    found = await asyncio.gather(*(_of_app(admin, app, views) for app, views in sorted(by_app.items())))
    return {beat.process: beat for beats in found for beat in beats}


async def _of_app(admin: TopicAdmin, app: str, views: list[ProcessView]) -> list[Heartbeat]:
    announced = {view.member for view in views if view.member}
    if not announced:
        return [_unknown(view, "it is in no consumer group") for view in views]
    try:
        members = set(await admin.member_ids(app))
    except SnapkafkaError as error:
        return [_unknown(view, error.message) for view in views]
    return [_of(view, members, members - announced) for view in views]


def _of(view: ProcessView, members: set[str], unannounced: set[str]) -> Heartbeat:
    if not view.member:
        return _unknown(view, "it is in no consumer group")
    if view.member in members:
        return Heartbeat(process=view.process, session=HeartbeatSession.HELD)
    if unannounced:
        return _unknown(view, "its group has a member that has not announced its inputs yet")
    return Heartbeat(process=view.process, session=HeartbeatSession.OVER)


def _unknown(view: ProcessView, why: str) -> Heartbeat:
    return Heartbeat(process=view.process, session=HeartbeatSession.UNKNOWN, why=why)
