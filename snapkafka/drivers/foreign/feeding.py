"""Feed the machine of one foreign process, take its actions, do them: nothing is decided here."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, assert_never

from snapkafka.errors import SnapkafkaError
from snapkafka.kafka.cluster.stopped_app import stopped_app
from snapkafka.protocol.actions import (
    Action,
    AppendToLedger,
    AskEnds,
    AskStopped,
    ReadLedgerTo,
    SayHello,
    SendMarkers,
    StartTimer,
    TurnedRed,
)
from snapkafka.protocol.events import CutTimed, EndsSeen, Event
from snapkafka.protocol.records import LedgerRecord, LogEnd
from snapkafka.protocol.worker import WorkerProtocol

__all__ = ["Feeding"]


class Feeding:
    """See the top of this file.

    Args:
        admin: the cluster.
        append: appends to the ledger, in the order asked.
        expire: hears that the time of a snapshot is over.
        leave: hears why the process takes part no more.
    """

    def __init__(
        self,
        machine: WorkerProtocol,
        *,
        admin: Any,
        append: Callable[[LedgerRecord], None],
        expire: Callable[[int], None],
        leave: Callable[[str], None],
    ) -> None:
        self.machine = machine
        self._admin, self._append, self._expire, self._leave = admin, append, expire, leave
        self._background: set[asyncio.Task[None]] = set()

    def feed(self, event: Event) -> None:
        """Feed one event, and do what it calls for."""
        started = time.perf_counter_ns()
        actions = self.machine.handle(event)
        us = (time.perf_counter_ns() - started) // 1_000
        self.do(actions)
        for action in actions:
            if isinstance(action, TurnedRed):
                self._tear()
                self.feed(CutTimed(epoch=action.epoch, us=us))

    def _tear(self) -> None:
        """R6: the process has one state, which every event of it sees: one that runs across a cut is torn by it."""
        for event in list(self.machine.colours.running):
            self.do(self.machine.worked_off(event, None))

    def do(self, actions: Sequence[Action]) -> None:
        """Do the actions of the machine, in their order."""
        for action in actions:
            match action:
                case AppendToLedger(record=record):
                    self._append(record)
                case AskEnds():
                    self.spawn(self._ask_ends(action))
                case AskStopped():
                    self.spawn(self._ask_stopped(action))
                case StartTimer():
                    asyncio.get_running_loop().call_later(action.ttl_ms / 1_000, self._expire, action.epoch)
                case SayHello():
                    self._leave("its id is void: it was taken for dead, or the ledger is another one")
                case TurnedRed() | ReadLedgerTo() | SendMarkers():
                    pass  # `Gate` waits for the ledger, and no marker is asked for
                case _:
                    assert_never(action)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task in the background, until it is done or `close`."""
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _ask_ends(self, action: AskEnds) -> None:
        try:
            ends = await self._admin.log_ends(action.tps)
        except SnapkafkaError:
            return  # unanswered, that snapshot fails by its time to live
        self.feed(
            EndsSeen(
                report=action.report,
                ends=tuple(
                    LogEnd(topic=tp.topic, partition=tp.partition, end=end) for tp, end in ends.items()
                ),
            )
        )

    async def _ask_stopped(self, action: AskStopped) -> None:
        with contextlib.suppress(SnapkafkaError):  # unanswered, that snapshot fails by its time to live
            self.feed(await stopped_app(self._admin, action))

    def close(self) -> None:
        """Cancel what runs in the background."""
        for task in list(self._background):
            task.cancel()
