"""One process that speaks Kafka, in the protocol: the hooks of its loop, and how it joins, stands down and leaves.

Drivers of such processes (Faust workers, plain clients) add how records come in and leave.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from snapkafka.errors import SnapkafkaError, TriggerRefusedError
from snapkafka.protocol.actions import StartTimer, TurnedRed
from snapkafka.protocol.events import Event, Joined, StopAsked, TimerExpired
from snapkafka.protocol.events import TriggerAppended as TriggerAppendedEvent
from snapkafka.protocol.records import (
    NOBODY,
    Bye,
    Hello,
    LedgerRecord,
    Report,
)

from .host import Host
from .ledger import LedgerFollower
from .waiting import LEDGER_WAIT_S

if TYPE_CHECKING:
    from snapkafka.config import Config
    from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
    from snapkafka.kafka.ledger.kafka_ledger import KafkaLedger

logger = logging.getLogger("snapkafka")


class Process(Host):
    """One process in the ledger. Arguments: see `Host`.

    Attributes:
        follower: of the ledger.
    """

    def __init__(self, config: Config, app: Any = None) -> None:
        super().__init__(config, app)
        self.follower = LedgerFollower(
            self, membership_read=self.membership_read, other_ledger=self.other_ledger
        )
        self._cut_at: dict[int, float] = {}  # epoch -> when, until it is closed
        self._hello: Hello | None = None

    # -- the hooks of the loop ----------------------------------------------------------------------------------------

    def append(self, record: LedgerRecord) -> None:
        """Append to the ledger in the background; what reports on a cut goes through `report`."""
        if not isinstance(record, Report):
            self.write(record)
            return
        if record.epoch in self._cut_at:
            self.metrics.observe("closing", time.perf_counter() - self._cut_at.pop(record.epoch))
        self.report(record)

    def write(self, record: LedgerRecord) -> None:
        """Append a record; a worker that stood down may only write its `Bye`."""
        if not self.absent or isinstance(record, Bye):
            self.follower.append(record)

    def report(self, record: Report) -> None:
        """Append a report on a cut."""
        self.write(record)

    def start_timer(self, action: StartTimer) -> None:
        """Answer in this ledger only."""
        answer = self.answering()
        self.loop.call_later(action.ttl_ms / 1000, lambda: self.spawn(self._expired(action, answer)))

    def append_hello(self, was: int) -> None:
        """Join again as a new process."""
        if not self.absent:
            logger.warning("snapkafka: joining again as a new process", extra=self.about())
            self._append_hello(was)

    def turned_red(self, action: TurnedRed, us: int) -> None:
        """Measure the cut."""
        self.metrics.count("cuts")
        self.metrics.observe("cut", us / 1_000_000)
        self._cut_at = {action.epoch: time.perf_counter()}  # no older one is worth measuring
        logger.debug(
            "turned red for epoch %d (%s) in %d us",
            action.epoch,
            action.heard,
            us,
            extra=self.about(action.epoch),
        )

    def membership_read(self) -> None:
        """Note that a record was read that may change who takes part, or what a restore asks; or the ledger is another
        one."""

    def other_ledger(self) -> None:
        """Note that the epochs that were met are of another ledger."""

    def changed(self) -> None:
        """Wake the tasks that wait for the ledger."""
        self.follower.machine_changed()

    async def _expired(self, timer: StartTimer, answer: Callable[[Event], None]) -> None:
        """Read the ledger to its end first (R12)."""
        if timer.epoch in self.machine.ledger.open:
            with contextlib.suppress(SnapkafkaError):
                await self._catch_up()
        answer(TimerExpired(epoch=timer.epoch))

    # -- life ---------------------------------------------------------------------------------------------------------

    def connected(self, ledger: KafkaLedger, admin: KafkaTopicAdmin) -> None:
        """Start the tasks of the ledger by these clients, in the loop that runs here."""
        self.loop, self.thread = asyncio.get_running_loop(), threading.get_ident()
        self.started = True
        self.ledger, self.admin = ledger, admin
        self.follower.start()

    async def join_ledger(self, hello: Hello) -> None:
        """Append `Hello` with the inputs of this worker, and wait for its id, at most `LEDGER_WAIT_S` (R11, R15)."""
        self.say_hello(hello)
        await self.follower.for_identity()

    def say_hello(self, hello: Hello) -> None:
        """Append `Hello` with the inputs of this worker."""
        self._hello = hello
        self._append_hello(NOBODY)

    def _append_hello(self, was: int) -> None:
        assert self._hello is not None
        self._hello = replace(self._hello, n=random.getrandbits(63), was=was)
        self.feed(Joined(hello=self._hello))
        self.append(self._hello)

    async def stop(self) -> None:
        """Append `Bye`, so that no snapshot waits for this process. The app has stopped and flushed."""
        if not self.started:
            return
        if self.machine.process is not None or self.machine.stood_down is not None:
            self.feed(StopAsked())
            try:
                await asyncio.wait_for(self.follower.written(), LEDGER_WAIT_S)
            except TimeoutError:
                logger.warning(
                    "snapkafka: could not announce that this worker stops; the next snapshot may wait for it",
                    extra=self.about(),
                )
        await self.end_tasks()
        await self.ledger.close()
        await self.admin.close()

    def withdraw(self) -> None:
        """Give up the identity and write that to the ledger. Runs in the loop's thread. Never raises."""
        process, actions = None, []
        try:
            process = self.follower.identity
            actions = self.machine.stand_down(self.reason, process)
        except Exception:
            self.machine.lose_identity(process)
        if not self.started:
            return
        try:
            if actions:
                self.do(actions)
            else:
                self.follower.append_bye(process)
        except Exception as also:
            self.log_failed("to record in the ledger that it stands down", also)

    # -- for the app --------------------------------------------------------------------------------------------------

    async def trigger(self, snapshot_id: str = "", **options: Any) -> str:
        """Request a snapshot from inside the service; return its id at once (R1).

        Raises:
            TriggerRefusedError: this worker has not started, or takes no part.
        """
        from snapkafka.kafka.preflight import compose_trigger

        if self.absent or not self.started:
            raise TriggerRefusedError(
                f"this worker takes no part in snapshots: it {self.absent or 'has not started'}",
                hint="`snapkafka trigger` asks for a snapshot from anywhere; the worker's log has more",
            )
        options.setdefault("ttl_ms", self.config.ttl_ms)
        trigger = await compose_trigger(
            self.admin, self.machine.ledger, snapshot_id=snapshot_id, catch_up=self._catch_up, **options
        )
        for unread in self.machine.ledger.unread(trigger.apps):
            logger.warning("snapkafka: %s", unread, extra=self.about(snapshot=trigger.id))
        self.feed(TriggerAppendedEvent(n=trigger.n))
        self.append(trigger)
        return trigger.id

    async def _catch_up(self) -> None:
        await self.follower.read_to(await self.ledger.end())
