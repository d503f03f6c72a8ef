"""What the author of a trigger, and later assembly, see of apps that do not run: they ask this broker (R10)."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from snapkafka.checks import stopped_app
from snapkafka.errors import TriggerRefusedError
from snapkafka.ports import TopicAdmin
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.records import LogEnd, StoppedApp, TopicPartition
from snapkafka.wire.headers import HEADER

if TYPE_CHECKING:
    from .process import Process
    from .surroundings import Surroundings

T = TypeVar("T")


class SimAdmin:
    """The cluster, as `stopped_app` asks for it."""

    def __init__(self, world: Surroundings[Process]) -> None:
        self._world = world

    async def members(self, group: str) -> int:
        return sum(p.app.name == group and p.connected for p in self._world.processes)

    async def committed(self, group: str) -> dict[TopicPartition, tuple[int, str]]:
        committed = self._world.broker.committed
        return {tp: (offset, "") for (app, tp), offset in committed.items() if app == group}

    async def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    async def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: len(self._world.broker.log(tp)) for tp in partitions}

    async def record_headers(
        self, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[tuple[str, bytes | None], ...]]:
        places = ((tp, at, self._world.broker.log(tp)) for tp, at in positions.items())
        return {
            tp: ((HEADER, b""),) if log[at].process >= 0 else () for tp, at, log in places if at < len(log)
        }


def look(
    world: Surroundings[Process], ends: tuple[LogEnd, ...]
) -> tuple[int, tuple[LogEnd, ...], tuple[StoppedApp, ...]] | None:
    """Return what the author of a trigger sees: how far the ledger is written, the ends of the inputs, and the stopped
    apps; None: one of those has members, so it is refused."""
    admin, known = _admin(world), {TopicPartition(end.topic, end.partition): end.end for end in ends}
    try:
        found = tuple(
            _answer(stopped_app.stopped_app(admin, world.fold, view, known))
            for view in world.fold.stopped(world.plan.scope)
        )
    except TriggerRefusedError:
        return None
    world.counts["stopped_apps"] += len(found)
    return len(world.broker.ledger), ends, found


def ran_since(world: Surroundings[Process], captured: Captured) -> str:
    """Return what assembly finds out when it follows the capture at once."""
    return _answer(stopped_app.ran_since(_admin(world), world.fold, captured))


def _admin(world: Surroundings[Process]) -> TopicAdmin:
    return cast(TopicAdmin, SimAdmin(world))


def _answer(question: Coroutine[Any, Any, T]) -> T:
    """Run a question whose answers are there."""
    try:
        question.send(None)
    except StopIteration as answer:
        return cast(T, answer.value)
    raise AssertionError("nothing here waits")
