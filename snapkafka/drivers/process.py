"""One process that speaks Kafka, in the protocol: the hooks of its loop, how it joins, stands down and leaves, and the
one place that contains faults of ours (R15): the app goes on, and this worker withdraws in the ledger.

Faust, asyncio and the app's own code call us in many places. Each of these hooks is one `try`, or begins with one, and
falls back to what Faust does by itself. The fault goes to `stand_down`, which reports it once: in the log, in `absent`
and in a `Bye` with the reason, which fails the open snapshots and lets `doctor` name the worker. From then on every
hook only passes its arguments on. The test of this (tests/driver/test_every_hook.py) raises in each function that a
snapshot calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, TypeVar

from aiokafka.errors import KafkaError

from snapkafka.config import Config
from snapkafka.errors import SnapkafkaError, TriggerRefusedError
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.kafka.ledger.kafka_ledger import KafkaLedger
from snapkafka.logs import about
from snapkafka.protocol.actions import Action, StartTimer, TurnedRed
from snapkafka.protocol.captured_snapshot import WHY_UNREAD
from snapkafka.protocol.events import Event, Joined, StopAsked, TimerExpired
from snapkafka.protocol.records import (
    NOBODY,
    Bye,
    Hello,
    LedgerRecord,
    Report,
    Skipped,
    TopicPartition,
    WhyUnread,
)
from snapkafka.protocol.worker import WorkerProtocol

from .ledger import LEDGER_WAIT_S, LedgerFollower
from .machine_driver import First, MachineDriver
from .metrics import Metrics
from .patches import contained

logger = logging.getLogger("snapkafka")

T = TypeVar("T")

#: Errors that may pass, and are no faults of ours.
CLUSTER_AT_FAULT: Final = (SnapkafkaError, KafkaError, OSError, TimeoutError)
GOES_ON: Final = "this worker runs without snapshots"
#: Of a fault's text, this much goes into the ledger.
REASON_CHARS_MAX: Final = 500


class Process(MachineDriver):
    """One process in the ledger, as the parts of its driver see it.

    Args:
        config: validated settings.
        app: the Faust app, where it is one.

    Attributes:
        machine: this process in the protocol; it is fed here, and the parts call its hot path.
        ledger, admin: our own clients, once the app has started.
        follower: of the ledger.
        started: whether it has started.
        absent: why this worker takes no part in any snapshot, if it is for good.
        loop, thread: the app's loop once it has started, and the thread that it runs in.
    """

    #: Does the app hand over its state before it cuts?
    asks_state: ClassVar[bool] = False
    ledger: KafkaLedger
    admin: KafkaTopicAdmin

    def __init__(self, config: Config, app: Any = None) -> None:
        asks = self.asks_state
        super().__init__(WorkerProtocol(asks_state=asks))
        self.config, self.app = config, app
        self.absent = ""
        #: Covers every call of the machine, where the app runs in threads.
        self.lock: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        self.loop: Any = None
        self.thread: int | None = None
        self.metrics = Metrics()
        self.ledger_id = 0
        self.started = False
        self.ledgers = 0  # how often the ledger was recreated, or cut short
        self._tasks: set[asyncio.Task[Any]] = set()
        self.follower = LedgerFollower(self)
        self._cut_at: dict[int, float] = {}  # epoch -> when, until it is reported
        self._hello: Hello | None = None

    # -- containment --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def failing_open(self, what: str, *, for_good: bool = False, then: str = GOES_ON) -> Iterator[None]:
        """Contain a fault of ours: the app goes on, and snapshots fail by the name of what they miss.

        Args:
            what: the work that is about to be done, for the log.
            for_good: after a fault this worker never takes part; otherwise it may again if the cluster was at fault.
            then: the consequence, for the log, where it is harmless.
        """
        try:
            yield
        except Exception as error:
            if for_good or (then == GOES_ON and not isinstance(error, CLUSTER_AT_FAULT)):
                self.stand_down(what, error)
            else:
                self.log_failed(what, error, then)

    def stand_down(self, what: str, error: Exception) -> None:
        """Stand down, as the machine's knowledge may be wrong from here on: this process has no identity any more, and
        its `Bye` states that the app runs on without it, and why (R10). To be called while `error` is handled. Never
        raises."""
        if self.absent:
            return
        self.absent = f"failed {what} ({error!r})"
        self.log_failed(what, error)
        self.in_loop(self.withdraw)

    def note(self, what: str, function: Callable[..., T], *args: Any) -> T | None:
        """Call a function of ours in the midst of the app's own work; None after a fault, when this worker stands
        down."""
        try:
            return function(*args)
        except Exception as error:
            self.stand_down(what, error)
        return None

    def log(self, text: str, *args: object, level: int = logging.WARNING, **subject: Any) -> None:
        """Log a line about this worker, or about a snapshot (see `about`)."""
        logger.log(level, f"snapkafka: {text}", *args, extra=self.about(**subject), stacklevel=2)

    def log_failed(self, what: str, error: Exception, then: str = GOES_ON) -> None:
        """Log a fault on one line, with the place where it was raised."""
        try:
            extra = self.about()
        except Exception:
            extra = None
        logger.error("snapkafka: failed %s (%r); %s", what, error, then, exc_info=error, extra=extra)

    # -- the loop, which never raises -------------------------------------------------------------------------------

    @contained("to feed the protocol")
    def feed(self, event: Event) -> First | None:
        """Feed the machine an event, and do what it asks for. Never raises."""
        with self.lock:
            return super().feed(event)

    @contained("to carry out what the protocol asks for")
    def do(self, actions: Sequence[Action], *, us: int = 0) -> First | None:
        """Do the actions, in their order: the app's own code is on the call stack (R15). Never raises."""
        with self.lock:
            return super().do(actions, us=us)

    @contained("to note which records are never read")
    def reading_moved(self, tp: TopicPartition, start: int | None, end: int, why: WhyUnread) -> None:
        """Note that reading an input goes on at `end`, and not at `start`: see `reading.Moved`."""
        start = self.machine.positions.reads_at(tp) if start is None else start
        moved = Skipped(topic=tp.topic, partition=tp.partition, start=start, end=end, reason=why)
        with self.lock:
            self.machine.positions.moved(moved)
        if start < end:
            self.metrics.count("never_read", why, 1 if start < 0 else end - start)
            first = "up" if start < 0 else start
            self.log("records %s to %d of %s are never read: %s", first, end - 1, tp, WHY_UNREAD[why])

    def answering(self) -> Callable[[Event], None]:
        """Return a function that feeds the answer to a question asked now. An answer that arrives after the ledger was
        recreated is dropped: its ids and epochs belong to the old one."""
        asked_of = self.ledgers

        def answer(event: Event) -> None:
            if asked_of == self.ledgers:
                self.feed(event)

        return answer

    # -- tasks in the background ------------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that outlives a cancelled callback of Faust's; a failure is never raised into the app. A fault
        of ours in it (anything but an error of the cluster) makes this worker stand down."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    @contained("to check how a task ended")
    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        name = getattr(task.get_coro(), "__qualname__", "a task")
        if isinstance(error, Exception) and not isinstance(error, CLUSTER_AT_FAULT):
            self.stand_down(f"in {name}", error)
        elif error is not None:
            self.log("%s failed: %r", name, error, level=logging.ERROR)

    async def end_tasks(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- this worker ------------------------------------------------------------------------------------------------

    def runs_here(self) -> bool:
        """Return whether this is the thread of the app's loop. Before the app starts there is no other."""
        return self.loop is None or threading.get_ident() == self.thread

    def in_loop(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function in the thread of the app's loop: at once, if that is this one."""
        if self.runs_here():
            function(*args)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: the app has stopped
            self.loop.call_soon_threadsafe(function, *args)

    @property
    def participating(self) -> bool:
        """Whether this worker takes part: it has an id, and its inputs are announced."""
        return self.machine.process is not None and self.machine.inputs.ready

    def about(self, epoch: int | None = None, snapshot: str = "") -> dict[str, Any]:
        """Return `extra=` for a log line: the worker, and the snapshot if the line is about one."""
        view = None if epoch is None else self.machine.ledger.snapshots.get(epoch)
        return about(
            snapshot=snapshot or ("" if view is None else view.trigger.id),
            epoch=epoch,
            namespace=self.config.namespace,
            process=self.machine.process,
        )

    # -- the hooks of the loop ----------------------------------------------------------------------------------------

    def append(self, record: LedgerRecord) -> None:
        """Append to the ledger in the background; what reports on a cut goes through `report`."""
        if not isinstance(record, Report):
            self.write(record)
            return
        if (since := self._cut_at.pop(record.epoch, None)) is not None:
            self.metrics.observe("closing", time.perf_counter() - since)
        self.report(record)

    def write(self, record: LedgerRecord) -> None:
        """Append a record; a worker that stood down may only write its `Bye`."""
        if not self.absent or isinstance(record, Bye):
            self.follower.append(record)

    def report(self, record: Report) -> None:
        """Append a report on a cut: the Faust driver's recorder does."""
        self.write(record)

    def start_timer(self, action: StartTimer) -> None:
        """Answer in this ledger only."""
        answer = self.answering()
        expires = lambda: self.spawn(self._expired(action, answer))  # noqa: E731
        self.loop.call_soon_threadsafe(self.loop.call_later, action.ttl_ms / 1000, expires)

    def append_hello(self, was: int) -> None:
        if not self.absent:
            self.log("joining again as a new process")
            self._append_hello(was)

    def turned_red(self, action: TurnedRed, us: int) -> None:
        self.metrics.count("cuts")
        self.metrics.observe("cut", us / 1_000_000)
        self._cut_at = {action.epoch: time.perf_counter()}  # no older one is worth measuring
        text, debug = "turned red for epoch %d (%s) in %d us", logging.DEBUG
        self.log(text, action.epoch, action.heard, us, level=debug, epoch=action.epoch)

    def membership_read(self) -> None:
        """Note that a record was read that may change who takes part, or what a restore asks; or another ledger."""

    def other_ledger(self) -> None:
        """Note that the epochs that were met are of another ledger."""

    def changed(self) -> None:
        """Wake the tasks that wait for the ledger, which only its reader changes."""
        if self.runs_here():
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
        self._hello = hello
        self._append_hello(NOBODY)

    def _append_hello(self, was: int) -> None:
        assert self._hello is not None
        self._hello = replace(self._hello, n=random.getrandbits(63), was=was)
        self.feed(Joined(hello=self._hello))
        self.append(self._hello)

    async def stop(self, *, in_order: bool = True) -> None:
        """Append `Bye`, so that no snapshot waits for this process, and close our own clients. The app has stopped.
        `in_order`: all that it sent is acknowledged; otherwise the next snapshot finds out that it is gone (R12)."""
        if not self.started:
            return
        if in_order and (self.machine.process is not None or self.machine.stood_down is not None):
            self.feed(StopAsked())
            try:
                await asyncio.wait_for(self.follower.written(), LEDGER_WAIT_S)
            except TimeoutError:
                self.log("could not announce that this worker stops; the next snapshot may wait for it")
        await self.end_tasks()
        await self.ledger.close()
        await self.admin.close()

    def withdraw(self) -> None:
        """Let go what is held back, give up the identity and write that to the ledger. Runs in the loop's thread. Never
        raises."""
        try:
            with self.lock:
                self.let_go()
                actions = self.machine.stand_down(self.absent[:REASON_CHARS_MAX])
            if self.started:
                self.do(actions)
        except Exception as also:  # others find out that this process is gone (R12)
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
            self.log("%s", unread, snapshot=trigger.id)
        self.append(replace(trigger, process=self.machine.author))
        return trigger.id

    async def _catch_up(self) -> None:
        await self.follower.read_to(await self.ledger.end())
