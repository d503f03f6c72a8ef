"""Waits for the ledger: R15 allows a short one at a start, at a rebalance, and before a red record whose trigger is
not read yet (R2). What the app did without an answer is made up for later; until then the machine is absent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from snapkafka.errors import SnapkafkaError
from snapkafka.protocol.actions import HoldRecord
from snapkafka.protocol.events import CameBack, MarkerMet, RecordMet, WentAbsent

if TYPE_CHECKING:
    from snapkafka.kafka.ledger.gulps import Gulps
    from snapkafka.protocol.worker import WorkerProtocol


logger = logging.getLogger("snapkafka")

#: Between two attempts to reach a ledger that is not there.
RETRY_S: Final = 1.0
#: A start, a rebalance or a red record waits for the ledger no longer than this, and once per outage.
LEDGER_WAIT_S: Final = 2.0


class LedgerWaits:
    """The waits for the ledger of one process.

    Args:
        host: the `Process`, which imports this module; it calls `machine_changed` after each event.
    """

    def __init__(self, host: Any) -> None:
        self._host = host
        self._machine: WorkerProtocol = host.machine
        self._gulps: Gulps | None = None  # of the reader
        self._without_since: float | None = None  # the app has gone on without an id
        self._waiters: list[asyncio.Future[None]] = []
        self._hurried = 0  # how many of them hurry the reader
        self._missed: list[Callable[[], bool]] = []  # see `_miss`
        self._wanted: int | None = None  # an offset that is wanted; how far to read for it is not asked yet
        self._goal = 0  # so far the ledger has to be read for what was wanted
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

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for a condition that only the machine can change."""
        while not holds():
            await self.changed()

    async def meet(self, event: RecordMet | MarkerMet) -> bool:
        """Feed the machine; if it wants the ledger read first, do that and feed it again (R2). If the ledger does not
        answer, the record is taken in all the same (R15), and the machine vouches for nothing meanwhile.

        Returns:
            whether the record has to be held back (R16).
        """
        try:
            asked = self._host.feed(event)
            if asked is None or isinstance(asked, HoldRecord):
                return asked is not None
            if not await self._ledger_to(asked.offset):
                return False
            asked = self._host.feed(event)
            if asked is not None and not isinstance(asked, HoldRecord):
                self._host.metrics.count(
                    "ignored", "no-such-trigger"
                )  # the ledger holds no such trigger: forged, or of another ledger
            return isinstance(asked, HoldRecord)
        except Exception as error:
            self._host.stand_down("to handle a record from after a cut", error)
            return False

    async def _ledger_to(self, offset: int) -> bool:
        """Return whether the ledger has been read up to and including `offset`, or ends below it (R2). Wait a little
        (R15), unless the machine is doing without the ledger already: so there is one wait per outage."""
        if self._host.absent or not self._host.started:
            return False
        if offset >= self._goal:
            self._wanted = max(offset, self._wanted or 0)
            if not self._asking:
                self._asking = True
                self._host.spawn(self._ask_goal())
        if not self._machine.absent and await self._within(LEDGER_WAIT_S, self._has_read):
            return True
        self._miss(self._has_read)
        return False

    async def _ask_goal(self) -> None:
        """Ask for the end of the ledger as it is now, for a header may be forged; again if more is wanted
        meanwhile."""
        try:
            while (wanted := self._wanted) is not None:
                self._wanted, ledger, end = None, self._host.ledgers, -1
                while end < 0:
                    try:
                        end = await self._host.ledger.end()
                    except SnapkafkaError:
                        await asyncio.sleep(RETRY_S)
                if ledger == self._host.ledgers:
                    self._goal = max(self._goal, min(wanted + 1, end))
        finally:
            self._asking = False
        self.machine_changed()

    def _has_read(self) -> bool:
        return self._wanted is None and not self._asking and self._machine.ledger.end >= self._goal

    async def read_to(self, end: int) -> bool:
        """Return whether the ledger has been read up to `end`. Wait a little."""
        return await self._within(LEDGER_WAIT_S, lambda: self._machine.ledger.end >= end)

    async def for_identity(self) -> bool:
        """Return whether this process has an id. Wait for it once, at most `LEDGER_WAIT_S` (R15); without an id the
        app goes on."""
        if self._host.absent or not self._host.started:
            return False
        wait_s = LEDGER_WAIT_S if self._without_since is None else 0.0
        if await self._within(wait_s, lambda: self._machine.process is not None):
            return True
        self.without_identity()
        return False

    def without_identity(self) -> None:
        """Note that the app goes on before this process has an id (R15)."""
        if self._without_since is None and self._host.started:
            self._without_since = self._host.loop.time()

    async def for_inputs(
        self, *, asked: Callable[[], bool] = lambda: True, moved_on: Callable[[], bool] = lambda: False
    ) -> bool:
        """Return whether the inputs just assigned are announced, and the ledger is read up to that record (R9). Wait a
        little, unless the machine is doing without the ledger already.

        Args:
            asked: whether the broker has answered what had to be known of them before.
            moved_on: whether Faust has other inputs by now; then there is nothing to wait for.
        """
        wait_s = 0.0 if self._machine.absent else LEDGER_WAIT_S
        if await self._within(wait_s, lambda: moved_on() or self._announced(), asked):
            return True
        self.without_inputs()
        return False

    def without_inputs(self) -> None:
        """Resume the inputs unannounced."""
        self._miss(self._announced)

    def _announced(self) -> bool:
        return self._machine.inputs.ready

    async def _within(
        self, seconds: float, condition: Callable[[], bool], asked: Callable[[], bool] = lambda: True
    ) -> bool:
        """Return whether the condition comes to hold within so many seconds; it is checked after each event."""
        until = self._host.loop.time() + seconds
        with self._hurrying():
            while not condition():
                left = until - self._host.loop.time()
                if left <= 0:
                    if seconds:
                        ledger = self._host.ledger.topic
                        who = (
                            f"the ledger {ledger}" if asked() else "the broker, asked where the inputs start,"
                        )
                        logger.warning(
                            "snapkafka: %s did not answer within %.0f s; this worker runs without snapshots",
                            who,
                            seconds,
                            extra=self._host.about(),
                        )
                    return False
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.changed(), left)
        return True

    @contextlib.contextmanager
    def _hurrying(self) -> Iterator[None]:
        """Read without rests inside this block: something waits for what stands in the ledger."""
        self._hurried += 1
        self._hurry()
        try:
            yield
        finally:
            self._hurried -= 1

    def _hurry(self) -> None:
        if self._gulps is not None:
            self._gulps.hurry()

    def _miss(self, made_up_for: Callable[[], bool]) -> None:
        """Resume without an answer of the ledger that the machine should have had: until that is made up for, it
        vouches for nothing."""
        if made_up_for not in self._missed:
            self._missed.append(made_up_for)
        if not self._machine.absent:
            self._host.feed(WentAbsent())
