"""The ledger as a worker follows it: one task reads, another one writes what the machine wants written, in its order.

Neither gives up: a ledger that is not there is asked for again, and one that was recreated, or has lost its tail, is
joined.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from snapkafka.errors import SnapkafkaError
from snapkafka.kafka.ledger.gulps import Gulps
from snapkafka.kafka.ledger.kafka_ledger import RecordTooLargeError
from snapkafka.kafka.ledger.reader import LedgerRecreatedError
from snapkafka.kafka.ledger.tail_marks import LedgerCutShortError
from snapkafka.protocol.events import (
    CheckpointGoesOn,
    Event,
    LedgerBegins,
    LedgerCutShort,
    LedgerRead,
    LedgerRecreated,
    RanWithout,
)
from snapkafka.protocol.records import Bye, Checkpoint, Hello, LedgerRecord, Restore, Trigger

from .waiting import RETRY_S, LedgerWaits

if TYPE_CHECKING:
    from snapkafka.ports import Entry
    from snapkafka.protocol.ledger_state import SnapshotView


logger = logging.getLogger("snapkafka")

#: Of so many snapshots a worker that joins late remembers when they were captured: as many as its fold remembers.
CAPTURED_MAX: Final = 64
#: Of the records that a checkpoint stands for so many are folded before the host has its turn: some three milliseconds.
FOLD_AT_ONCE: Final = 50
#: Between two gulps, while snapshots are under way; by chance, so that not all workers read at once.
GULP_S: Final = (0.05, 0.25)


class LedgerFollower(LedgerWaits):
    """The reader and the writer of the ledger, from `start` on, and the waits for it.

    Args:
        host: the `Process`, which imports this module; its machine is fed what is read.

    Attributes:
        reads: whether the ledger is read, or will be.
        quiet_since: since when no snapshot has been in progress, by the clock of the loop.
    """

    def __init__(self, host: Any) -> None:
        super().__init__(host)
        self.quiet_since = float("-inf")  # no snapshot under way
        self.reads = True
        self._appended_hello: float | None = None  # the latest Hello was acknowledged
        self._hello_at: int | None = None  # and where it stands
        self._unread = ""  # why the ledger could not be read last, as it was logged
        self._captured: deque[tuple[int, int]] = deque(maxlen=CAPTURED_MAX)  # when and where snapshots were
        self._outbox: asyncio.Queue[tuple[int, LedgerRecord]]  # with the number of the ledger
        self._opened: asyncio.Event

    def start(self) -> None:
        self._outbox = asyncio.Queue()
        self._opened = asyncio.Event()
        self._host.spawn(self._read())
        self._host.spawn(self._write())

    # -- reading ----------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while True:
                await self._read_on()
        except Exception as error:
            self.reads = False
            self._host.stand_down("to read the ledger", error)

    async def _read_on(self) -> None:
        host, machine = self._host, self._machine
        try:
            await host.ledger.open()
            start = await host.ledger.start()
            if host.stamps.ledger_id != host.ledger.ledger_id:
                host.stamps.ledger_id = host.ledger.ledger_id
                self._host.other_ledger()
            host.feed(LedgerBegins(start=start))
            self._opened.set()
            self._gulps = Gulps(self._rest_s)
            async for read in host.ledger.read(max(start, machine.ledger.end), gulps=self._gulps):
                self.take(read)
                if machine.ledger.resuming:
                    await self._resume()
        except LedgerRecreatedError:
            logger.warning(
                "snapkafka: the ledger %s was deleted and recreated; joining the new one",
                host.ledger.topic,
                extra=host.about(),
            )
            self._join_again(LedgerRecreated())
        except LedgerCutShortError as error:
            logger.warning(
                "snapkafka: %s; this worker joins again as a new process", error, extra=host.about()
            )
            host.metrics.count("ledger_cut_short")
            self._host.other_ledger()
            self._join_again(LedgerCutShort(since=error.since, upto=error.upto, n=random.getrandbits(63)))
        except SnapkafkaError as error:
            if str(error) != self._unread:
                self._unread = str(error)
                logger.warning(
                    "snapkafka: %s; this worker tries again (%s)", error, error.hint, extra=host.about()
                )
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
        self._host.metrics.forget_open()
        self._wanted, self._goal = None, 0  # in another ledger an offset of this one stands for nothing
        self._host.feed(why)
        self._host.membership_read()

    async def _resume(self) -> None:
        """Fold the records that a checkpoint stands for, in pieces: the host has its turn between two of them."""
        while self._machine.ledger.resuming:
            await asyncio.sleep(0)
            self._host.feed(CheckpointGoesOn(at_once=FOLD_AT_ONCE))
        self._host.membership_read()

    def take(self, read: Entry) -> None:
        """Feed the next record of the ledger; count the snapshots that it decides."""
        self._unread = ""
        ledger, metrics, process = self._machine.ledger, self._host.metrics, self._machine.process
        before = list(ledger.open.values())
        self._host.feed(LedgerRead(offset=read.offset, record=read.record, at_once=FOLD_AT_ONCE))
        if isinstance(read.record, Hello | Restore | Checkpoint) and not ledger.resuming:
            self._host.membership_read()
        if self._machine.process not in (None, process):
            self._joined(read)
        metrics.count("ignored", "ledger-garbage", read.record is None)
        if (view := ledger.snapshots.get(read.offset + 1)) is not None:
            if process is not None and process < read.offset:  # else it is history
                metrics.triggered(view, read.timestamp_ms)
            before.append(view)  # a pause fails it at once
        for view in before:
            if not view.open:
                metrics.decided(view, read.timestamp_ms)
                if view.captured_at is not None:
                    self._captured.append((read.timestamp_ms, view.captured_at))
                self._log_decided(view)
        if before and not ledger.open:
            self.quiet_since = self._host.loop.time()

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

    def _log_decided(self, view: SnapshotView) -> None:
        if self._machine.process is None:
            return  # of what was before this worker joined, others have told
        what = "captured" if view.failure is None else f"failed ({view.failure.code}): {view.failure.reason}"
        logger.info("snapkafka: snapshot %s %s", view.trigger.id, what, extra=self._host.about(view.epoch))

    # -- writing ----------------------------------------------------------------------------------------------------

    def append(self, record: LedgerRecord) -> None:
        """Append in the background, in the order of the calls."""
        if isinstance(record, Hello):
            self._appended_hello = self._hello_at = None
        self._outbox.put_nowait((self._host.ledgers, record))

    @property
    def identity(self) -> int | None:
        """Return the id of this process, also one that it no longer uses."""
        process = self._machine.process
        return process if process is not None or self.reads else self._hello_at

    def append_bye(self, process: int | None) -> None:
        """Append the `Bye` that the machine would, if it could."""
        self._machine.lose_identity(process)
        if process is not None:
            n, since = random.getrandbits(63), self._machine.ledger.end
            self.append(Bye(process=process, n=n, goes_on=True, since=since, reason=self._host.reason))

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
                offset = await self._host.ledger.append(record)
            except SnapkafkaError as error:
                lost = isinstance(record, Trigger) or isinstance(
                    error, RecordTooLargeError | LedgerRecreatedError | LedgerCutShortError
                )
                if lost or not said:
                    logger.warning(
                        "snapkafka: %s was not written to the ledger%s: %s",
                        type(record).__name__,
                        "" if lost else " yet",
                        error,
                        extra=self._host.about(getattr(record, "epoch", None), getattr(record, "id", "")),
                    )
                if lost:
                    return
                said = True
                await asyncio.sleep(RETRY_S)
            else:
                if ledger == self._host.ledgers:
                    self._appended(record, offset)
                return

    def _appended(self, record: LedgerRecord, offset: int) -> None:
        """Note where a record stands."""
        if isinstance(record, Trigger):
            self._hurry()
        elif isinstance(record, Hello):
            self._appended_hello, self._hello_at = self._host.loop.time(), offset
            if self._host.absent and not self.reads:
                self.append_bye(offset)  # it has stood down meanwhile, and reads that record no more
