"""The ledger as a worker follows it: one task reads, another one writes what the machine wants written, in its order.

Neither gives up: a ledger that is not there is asked for again, and one that was recreated is joined; one that has lost
its tail is refused, and that is written to it. R15 allows a short wait for it at a start, at a rebalance, and before a
red record whose trigger is not read yet (R2). What the app did without an answer is made up for later; until then the
machine is absent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from snapkafka.errors import InstallError, SnapkafkaError
from snapkafka.kafka.cluster.group_hold import HOLDER
from snapkafka.kafka.ledger.kafka_ledger import RecordTooLargeError
from snapkafka.kafka.ledger.reader import Gulps, LedgerRecreatedError
from snapkafka.kafka.ledger.tail_marks import LedgerCutShortError
from snapkafka.ports import Entry
from snapkafka.protocol.actions import Hold, ReadLedgerTo
from snapkafka.protocol.events import (
    Absence,
    Event,
    LedgerRead,
    LedgerRecreated,
    MarkerMet,
    RanWithout,
    RecordMet,
)
from snapkafka.protocol.records import Checkpoint, Hello, LedgerRecord, Restore, TailLost, Trigger
from snapkafka.protocol.worker import WorkerProtocol

#: Between two attempts to reach a ledger that is not there.
RETRY_S: Final = 1.0
#: A start, a rebalance or a red record waits for the ledger no longer than this, and once per outage.
LEDGER_WAIT_S: Final = 2.0
#: So long an app waits for a restore that is open, and so often it looks whether its group is let go.
RESTORED_WITHIN_S: Final = 600.0
HELD_LOOK_S: Final = 0.2
#: Of so many snapshots a worker that joins late remembers when they were captured: as many as its fold remembers.
CAPTURED_MAX: Final = 64
#: Between two gulps, while snapshots are under way; by chance, so that not all workers read at once.
GULP_S: Final = (0.05, 0.25)
#: After these a record is not written any more.
LOST: Final = (RecordTooLargeError, LedgerRecreatedError, LedgerCutShortError)


class LedgerFollower:
    """The reader and the writer of the ledger, from `start` on, and the waits for it."""

    def __init__(self, host: Any) -> None:  # the `Process`, which imports this module
        self._host = host
        self._machine: WorkerProtocol = host.machine
        self._appended_hello: float | None = None  # the latest Hello was acknowledged
        self._unread = ""  # why the ledger could not be read last, as it was logged
        self._captured: deque[tuple[int, int]] = deque(maxlen=CAPTURED_MAX)  # when and where snapshots were
        self._gulps = Gulps(self._rest_s)
        self._without_since: float | None = None  # the app has gone on without an id
        self._news = asyncio.Event()  # the machine was fed an event
        self._hurried = 0  # how many of them hurry the reader
        self._missed: list[Callable[[], bool]] = []  # see `_miss`
        self._announced: Callable[[], bool] = lambda: self._machine.inputs.ready
        self._wanted: int | None = None  # an offset that is wanted, while it is asked how far to read for it
        self._goal = 0  # so far the ledger has to be read for what was wanted
        #: With the number of the ledger.
        self._outbox: asyncio.Queue[tuple[int, LedgerRecord]] = asyncio.Queue()
        self._opened = asyncio.Event()

    def start(self) -> None:
        self._host.spawn(self._read())
        self._host.spawn(self._write())

    # -- reading ----------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while True:
                await self._read_on(self._host, self._machine)
        except Exception as error:
            self._host.stand_down("to read the ledger", error)

    async def _read_on(self, host: Any, machine: WorkerProtocol) -> None:
        try:
            await host.ledger.open()
            if host.ledger_id != host.ledger.ledger_id:
                host.ledger_id = host.ledger.ledger_id
                host.other_ledger()
            self._opened.set()
            async for read in host.ledger.read(machine.ledger.end, rest=self._gulps.rest):
                self.take(read)
                if isinstance(read.record, Hello | Restore | Checkpoint):
                    host.membership_read()
        except LedgerRecreatedError:
            host.log("the ledger %s was deleted and recreated; joining the new one", host.ledger.topic)
            self._join_again(LedgerRecreated())
        except LedgerCutShortError as error:
            host.metrics.count("ledger_cut_short")
            host.ledgers += 1  # what waits to be written has numbers that are used once more
            self.append(TailLost(n=random.getrandbits(63), since=error.since))
            raise
        except SnapkafkaError as error:
            if str(error) != self._unread:
                self._unread = str(error)
                host.log("%s; this worker tries again (%s)", error, error.hint)
            await asyncio.sleep(RETRY_S)

    def _rest_s(self) -> float:
        """Return for how long nothing has to be read. While this process aligns (R16), it waits for the others to
        close."""
        machine = self._machine
        rests = machine.process is not None and not machine.absent and machine.ledger.open
        return random.uniform(*GULP_S) if rests and not self._hurried and not machine.aligning else 0.0

    def _join_again(self, why: Event) -> None:
        """Join again: the ledger is another one than that which was read so far."""
        self._opened.clear()
        self._captured.clear()
        self._host.ledgers += 1
        self._host.metrics.triggered_ms.clear()
        self._wanted, self._goal = None, 0  # in another ledger an offset of this one stands for nothing
        self._host.feed(why)
        self._host.membership_read()

    def take(self, read: Entry) -> None:
        """Feed the next record of the ledger; count the snapshots that it decides."""
        ledger, metrics, process = self._machine.ledger, self._host.metrics, self._machine.process
        before = list(ledger.open.values())
        self._host.feed(LedgerRead(offset=read.offset, record=read.record))
        if self._unread and self._machine.process is not None:
            self._unread = ""
            self._host.log("the ledger is read, and process %s takes part", self._machine.process)
        if self._machine.process not in (None, process):
            self._joined(read)
        metrics.count("ignored", "ledger-garbage", read.record is None)
        if (view := ledger.snapshots.get(read.offset + 1)) is not None:
            if process is not None and process < read.offset:  # else it is history
                metrics.triggered_ms[view.epoch] = read.timestamp_ms
            before.append(view)  # a pause fails it at once
        for view in before:
            if not view.open:
                metrics.decided(view, read.timestamp_ms)
                if view.captured_at is not None:
                    self._captured.append((read.timestamp_ms, view.captured_at))
                if self._machine.process is not None:  # of what was before it joined, others have told
                    why = view.failure
                    what = "captured" if why is None else f"failed ({why.code}): {why.reason}"
                    told = "snapshot %s %s", view.trigger.id, what
                    self._host.log(*told, level=logging.INFO, epoch=view.epoch)

    def _joined(self, hello: Entry) -> None:
        """Report since when the app ran before its `Hello`, as an offset. The time between the two is measured here
        and subtracted from the broker's time of the `Hello`: no two clocks are compared."""
        since, said = self._without_since, self._appended_hello
        self._without_since = self._appended_hello = None
        if since is None or (said is not None and said <= since):
            return
        late_ms = ((self._host.loop.time() if said is None else said) - since) * 1_000
        later = (at for ms, at in self._captured if ms >= hello.timestamp_ms - late_ms)
        self._host.feed(RanWithout(since=min(later, default=hello.offset)))

    # -- writing ----------------------------------------------------------------------------------------------------

    def append(self, record: LedgerRecord) -> None:
        """Append in the background, in the order of the calls, from any thread."""
        if isinstance(record, Hello):
            self._appended_hello = None
        self._host.loop.call_soon_threadsafe(self._outbox.put_nowait, (self._host.ledgers, record))

    async def written(self) -> None:
        """Wait until nothing is left to be written, also of what other threads have just asked for."""
        await asyncio.sleep(0)
        await self._outbox.join()

    async def _write(self) -> None:
        while True:
            ledger, record = await self._outbox.get()
            try:
                await self._write_one(ledger, record)
            except Exception as error:
                self._host.stand_down("to write the ledger", error)
            finally:
                self._outbox.task_done()

    async def _write_one(self, ledger: int, record: LedgerRecord) -> None:
        """Write a record as soon as possible: only snapshots wait for it, and readers drop duplicates. Nothing is
        written before `open` has checked the topic, nor to a later ledger than the record was meant for: there our old
        process id is another process. A trigger that is late is dropped: nobody waits for it any more."""
        said = False
        while True:
            await self._opened.wait()
            if ledger != self._host.ledgers:
                return
            try:
                await self._host.ledger.append(record)
            except SnapkafkaError as error:
                lost = isinstance(record, Trigger) or isinstance(error, LOST)
                if lost or not said:
                    what = f"{type(record).__name__} was not written to the ledger{'' if lost else ' yet'}"
                    epoch, snapshot = getattr(record, "epoch", None), getattr(record, "id", "")
                    self._host.log("%s: %s", what, error, epoch=epoch, snapshot=snapshot)
                if lost:
                    return
                said = True
                await asyncio.sleep(RETRY_S)
                continue
            if ledger != self._host.ledgers:
                return
            if isinstance(record, Trigger):
                self._gulps.hurry()
            elif isinstance(record, Hello):
                self._appended_hello = self._host.loop.time()
            return

    # -- waiting ----------------------------------------------------------------------------------------------------

    def machine_changed(self) -> None:
        """Wake all waiters: the machine was fed an event."""
        news, self._news = self._news, asyncio.Event()
        news.set()
        if self._missed and all(made_up_for() for made_up_for in self._missed):
            self._missed = []
            self._host.feed(Absence(over=True))

    async def changed(self) -> None:
        """Wait until the machine is fed an event."""
        await self._news.wait()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for a condition that only the machine can change."""
        while not holds():
            await self.changed()

    async def meet(self, event: RecordMet | MarkerMet, hold: Callable[[], object] = lambda: None) -> bool:
        """Feed the machine; if it wants the ledger read first, do that and feed it again (R2). If the ledger does not
        answer, the record is taken in all the same (R15), and the machine vouches for nothing meanwhile. Return whether
        the record has to be held back (R16); `hold` is called in the instant in which that is decided."""
        try:
            asked = self._ask(event, hold)
            if isinstance(asked, ReadLedgerTo) and await self._ledger_to(asked.offset):
                asked = self._ask(event, hold)
                forged = isinstance(asked, ReadLedgerTo)  # or of another ledger
                self._host.metrics.count("ignored", "no-such-trigger", forged)
            return isinstance(asked, Hold)
        except Exception as error:
            self._host.stand_down("to handle a record from after a cut", error)
            return False

    def _ask(self, event: RecordMet | MarkerMet, hold: Callable[[], object]) -> Hold | ReadLedgerTo | None:
        with self._host.lock:
            asked: Hold | ReadLedgerTo | None = self._host.feed(event)
            if isinstance(asked, Hold):
                hold()
        return asked

    async def _ledger_to(self, offset: int) -> bool:
        """Return whether the ledger has been read up to and including `offset`, or ends below it (R2). Wait a little
        (R15), unless the machine is doing without the ledger already: so there is one wait per outage."""
        if self._host.absent or not self._host.started:
            return False
        if offset >= self._goal:
            asking, self._wanted = self._wanted is not None, max(offset, self._wanted or 0)
            if not asking:
                self._host.spawn(self._ask_goal())
        if not self._machine.absent and await self._within(LEDGER_WAIT_S, self._has_read):
            return True
        self._miss(self._has_read)
        return False

    async def _ask_goal(self) -> None:
        """Ask for the end of the ledger as it is now, for a header may be forged; again if more is wanted meanwhile."""
        while (wanted := self._wanted) is not None:
            ledger = self._host.ledgers
            try:
                end = await self._host.ledger.end()
            except SnapkafkaError:
                await asyncio.sleep(RETRY_S)
                continue
            if ledger == self._host.ledgers:
                self._goal = max(self._goal, min(wanted + 1, end))
            if self._wanted == wanted:
                self._wanted = None
        self.machine_changed()

    def _has_read(self) -> bool:
        return self._wanted is None and self._machine.ledger.end >= self._goal

    async def read_to(self, end: int) -> None:
        """Wait a little until the ledger has been read up to `end`."""
        await self._within(LEDGER_WAIT_S, lambda: self._machine.ledger.end >= end)

    async def for_identity(self) -> None:
        """Wait once for the id of this process, at most `LEDGER_WAIT_S` (R15); without an id the app goes on."""
        if self._host.absent or not self._host.started:
            return
        wait_s = LEDGER_WAIT_S if self._without_since is None else 0.0
        if not await self._within(wait_s, lambda: self._machine.process is not None):
            self.without_identity()

    def without_identity(self) -> None:
        """Note that the app goes on before this process has an id (R15)."""
        if self._without_since is None and self._host.started:
            self._without_since = self._host.loop.time()

    async def for_inputs(self, moved_on: Callable[[], bool] = lambda: False) -> None:
        """Wait a little until the inputs just assigned are announced, and the ledger is read up to that record (R9),
        unless the machine is doing without the ledger already. `moved_on`: there are others by now."""
        wait_s = 0.0 if self._machine.absent else LEDGER_WAIT_S
        if not await self._within(wait_s, lambda: moved_on() or self._announced()):
            self.without_inputs()

    def without_inputs(self) -> None:
        """Resume the inputs unannounced."""
        self._miss(self._announced)

    async def for_restore(self, app: str) -> None:
        """Wait until no restore of an app is open, or holds its group: what runs meanwhile would run on half a state.

        Raises:
            InstallError: that takes too long.
        """
        logged = ""
        try:
            async with asyncio.timeout(RESTORED_WITHIN_S):
                while reason := await self._restoring(app):
                    if reason != logged:
                        logged = reason
                        self._host.log(
                            "app %s waits: %s, and no input is read before it is done", app, reason
                        )
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(HELD_LOOK_S):
                            await self.changed()
        except TimeoutError as error:
            raise InstallError(
                f"app {app} has waited for {RESTORED_WITHIN_S / 60:.0f} min: {logged}",
                hint="`snapkafka restore` of that snapshot finishes it; then start it again",
            ) from error
        if logged:
            self._host.log("that is done, app %s continues", app)

    async def _restoring(self, app: str) -> str:
        """Describe the restore for which an app has to wait; empty: none."""
        restores = self._machine.ledger.restores
        if (view := restores.holds(app)) is not None:
            return f"{view} is {view.stage}"
        with contextlib.suppress(SnapkafkaError):  # who may not ask is not held up
            if restores.views and any(
                it.client == HOLDER for it in await self._host.admin.group_members(app)
            ):
                return "a restore that is over has not let go of its group yet"
        return ""

    async def _within(self, seconds: float, condition: Callable[[], bool]) -> bool:
        """Return whether the condition comes to hold within so many seconds; it is checked after each event. The ledger
        is read without rests meanwhile."""
        self._hurried += 1
        self._gulps.hurry()
        try:
            async with asyncio.timeout(seconds):
                await self.until(condition)
        except TimeoutError:
            if seconds:
                told = "the cluster of ledger %s is silent for %.0f s; this worker runs without snapshots"
                self._host.log(told, self._host.ledger.topic, seconds)
            return False
        finally:
            self._hurried -= 1
        return True

    def _miss(self, made_up_for: Callable[[], bool]) -> None:
        """Resume without an answer of the ledger that the machine should have had: until that is made up for, it
        vouches for nothing."""
        if made_up_for not in self._missed:
            self._missed.append(made_up_for)
        if not self._machine.absent:
            self._host.feed(Absence())
