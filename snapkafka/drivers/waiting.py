"""Waits for the ledger: R15 allows a short one at a start, at a rebalance, and before a red record whose trigger is
not read yet (R2). What the app did without an answer is made up for later; until then the machine is absent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from snapkafka.errors import SnapkafkaError
from snapkafka.protocol.actions import HoldRecord
from snapkafka.protocol.events import CameBack, MarkerMet, RecordMet, WentAbsent

from .ledger_tasks import RETRY_S

if TYPE_CHECKING:
    from .host import KafkaHost
    from .ledger_tasks import LedgerTasks

logger = logging.getLogger("snapkafka")

#: A start, a rebalance or a red record waits for the ledger no longer than this, and once per outage.
LEDGER_WAIT_S: Final = 2.0
NO_ANSWER: Final = "snapkafka: the ledger %s did not answer within %.0f s; this worker runs without snapshots"
NO_POSITIONS: Final = (
    "snapkafka: the broker did not report within %.0f s where the inputs start; this worker runs without snapshots"
    " until it does"
)


class WorkerWaits:
    """Waits for events of the machine.

    Args:
        host: calls `machine_changed` after each event.
        ledger_tasks: notified when the app goes on without an id.
    """

    def __init__(self, host: KafkaHost, ledger_tasks: LedgerTasks) -> None:
        self._host, self._ledger_tasks = host, ledger_tasks
        self._waiters: list[asyncio.Future[None]] = []
        self._missed: list[Callable[[], bool]] = []  # see `_miss`
        self._wanted, self._wanted_of = -1, 0  # an offset of the ledger, and of which one
        self._wants = 0  # how often one was
        self._goal: int | None = 0  # so far it has to be read for that; None: it is being asked
        self._asking = False

    def machine_changed(self) -> None:
        """Wake all waiters: the machine was fed an event."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        if self._missed and all(made_up_for() for made_up_for in self._missed):
            self._missed = []
            self._host.feed(CameBack())

    async def changed(self) -> None:
        """Wait until the machine is fed an event."""
        waiter = self._host.loop.create_future()
        self._waiters.append(waiter)
        await waiter

    async def ledger_to(self, offset: int) -> bool:
        """Return whether the ledger has been read up to and including `offset`, or ends below it (R2). Wait a little
        (R15), unless the machine is doing without the ledger already: so there is one wait per outage."""
        if self._host.absent or not self._host.started:
            return False
        self._want(offset)
        if not self._host.machine.absent and await self._within(LEDGER_WAIT_S, self._has_read):
            return True
        self._miss(self._has_read)
        return False

    def _want(self, offset: int) -> None:
        """Request that the ledger be read up to here, or to its end as reported from now on: a header may be forged."""
        if self._wanted_of != self._host.metrics.ledgers:
            self._wanted_of, self._goal = self._host.metrics.ledgers, 0
        if self._goal is not None and offset < self._goal:
            return
        self._wanted = offset if self._goal is not None else max(offset, self._wanted)
        self._goal, self._wants = None, self._wants + 1
        if not self._asking:
            self._asking = True
            self._host.spawn(self._ask_goal())

    async def _ask_goal(self) -> None:
        """Ask for the end of the ledger as soon as possible, and once more if more was wanted meanwhile."""
        try:
            while self._goal is None:
                wants = self._wants
                try:
                    end = await self._host.ledger.end()
                except SnapkafkaError:
                    await asyncio.sleep(RETRY_S)
                    continue
                if wants == self._wants:
                    self._goal = min(self._wanted + 1, end)
        finally:
            self._asking = False
        self.machine_changed()

    def _has_read(self) -> bool:
        if self._wanted_of != self._host.metrics.ledgers:
            return True  # in another ledger an offset of this one stands for nothing
        return self._goal is not None and self._host.machine.ledger.end >= self._goal

    async def read_to(self, end: int) -> bool:
        """Return whether the ledger has been read up to `end`. Wait a little."""
        return await self._within(LEDGER_WAIT_S, lambda: self._host.machine.ledger.end >= end)

    async def for_identity(self) -> bool:
        """Return whether this process has an id. Wait for it once, at most `LEDGER_WAIT_S` (R15); without an id the
        app goes on."""
        if self._host.absent or not self._host.started:
            return False
        wait_s = 0.0 if self._ledger_tasks.without_id else LEDGER_WAIT_S
        if await self._within(wait_s, lambda: self._host.machine.process is not None):
            return True
        self._ledger_tasks.goes_on_without()
        return False

    async def for_inputs(
        self, *, asked: Callable[[], bool] = lambda: True, moved_on: Callable[[], bool] = lambda: False
    ) -> bool:
        """Return whether the inputs just assigned are announced, and the ledger is read up to that record (R9). Wait a
        little, unless the machine is doing without the ledger already.

        Args:
            asked: whether the broker has answered what had to be known of them before.
            moved_on: whether Faust has other inputs by now; then there is nothing to wait for.
        """
        wait_s = 0.0 if self._host.machine.absent else LEDGER_WAIT_S
        if await self._within(wait_s, lambda: moved_on() or self._announced(), asked):
            return True
        self.without_inputs()
        return False

    def without_inputs(self) -> None:
        """Resume the inputs unannounced."""
        self._miss(self._announced)

    def _announced(self) -> bool:
        return self._host.machine.inputs.ready

    async def _within(
        self, seconds: float, condition: Callable[[], bool], asked: Callable[[], bool] = lambda: True
    ) -> bool:
        """Return whether the condition comes to hold within so many seconds; it is checked after each event."""
        until = self._host.loop.time() + seconds
        with self._ledger_tasks.awaited():
            while not condition():
                left = until - self._host.loop.time()
                if left <= 0:
                    if seconds:
                        self._log_in_vain(seconds, asked())
                    return False
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.changed(), left)
        return True

    def _log_in_vain(self, seconds: float, asked: bool) -> None:
        if asked:
            logger.warning(NO_ANSWER, self._host.ledger.topic, seconds, extra=self._host.about())
        else:
            logger.warning(NO_POSITIONS, seconds, extra=self._host.about())

    def _miss(self, made_up_for: Callable[[], bool]) -> None:
        """Resume without an answer of the ledger that the machine should have had: until that is made up for, it
        vouches for nothing."""
        if made_up_for not in self._missed:
            self._missed.append(made_up_for)
        if not self._host.machine.absent:
            self._host.feed(WentAbsent())


async def meet(host: KafkaHost, waiting: WorkerWaits, event: RecordMet | MarkerMet) -> bool:
    """Feed the machine; if it wants the ledger read first, do that and feed it again (R2). If the ledger does not
    answer, the record is taken in all the same (R15), and the machine vouches for nothing meanwhile.

    Returns:
        whether the record has to be held back (R16).
    """
    try:
        asked = host.feed(event)
        if asked is None or isinstance(asked, HoldRecord):
            return asked is not None
        if not await waiting.ledger_to(asked.offset):
            return False
        asked = host.feed(event)
        if asked is not None and not isinstance(asked, HoldRecord):
            host.metrics.disbelieved += 1  # the ledger holds no such trigger: forged or foreign
        return isinstance(asked, HoldRecord)
    except Exception as error:
        host.stand_down("to handle a record from after a cut", error)
        return False
