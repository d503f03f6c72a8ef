"""The Faust driver: feeds the machine, does its actions, feeds back what came of them. It decides nothing.

One `FaustDriver` stands for one app in one worker process. The ledger is read by a task of its own; what the machine
wants written is appended by another, in the order asked. No event, send or commit of the app waits for either, but for
R15: the start, a rebalance, and a red record whose trigger is not read yet (R2) wait for the ledger, at most
`LEDGER_WAIT_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from snapkafka.errors import SnapkafkaError, TriggerRefusedError
from snapkafka.kafka.admin import KafkaTopicAdmin
from snapkafka.kafka.ledger import KafkaLedger
from snapkafka.kafka.stopped_app import stopped_app
from snapkafka.logs import about
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
from snapkafka.protocol.events import (
    CutTimed,
    EndsSeen,
    Event,
    Joined,
    StopAsked,
    TimerExpired,
)
from snapkafka.protocol.events import TriggerAppended as TriggerAppendedEvent
from snapkafka.protocol.exact import exact
from snapkafka.protocol.records import (
    NOBODY,
    Bye,
    Closed,
    CutReport,
    Hello,
    LedgerRecord,
    LogEnd,
    TopicPartition,
)
from snapkafka.protocol.worker import WorkerProtocol

from .events import Events
from .guard import CLUSTER_AT_FAULT, GOES_ON, Guard
from .looks import Looks
from .metrics import Metrics
from .own_headers import OwnHeaders
from .patience import LEDGER_WAIT_S
from .replies import Replies
from .restored import Restored
from .scribe import Scribe
from .sensors import Sensors
from .stamps import Stamps
from .tables import Tables
from .waiting import Waiting

if TYPE_CHECKING:
    from snapkafka.config import Config

    from .announcing import Announcing
    from .outgoing import Outgoing
    from .recorder import Recorder
    from .resuming import Resuming

__all__ = ["FaustDriver"]

logger = logging.getLogger("snapkafka")

T = TypeVar("T")


class FaustDriver(Guard):
    """`app.snapkafka`: this worker in the protocol.

    Args:
        app: the Faust app.
        config: validated settings.
    """

    def __init__(self, app: Any, config: Config) -> None:
        self.app = app
        self.config = config
        self.metrics = Metrics()
        self.own_headers = OwnHeaders(self)
        self.outgoing: Outgoing
        self.recorder: Recorder
        self.resuming: Resuming | None = None  # until there is a consumer
        self.announcing: Announcing | None = None
        self.ledger: KafkaLedger
        self.admin: KafkaTopicAdmin
        self.waiting = Waiting(self)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cut_at: dict[int, float] = {}  # epoch -> when, until it is closed
        self._hello: Hello | None = None
        self.scribe = Scribe(self)
        self.machine = WorkerProtocol(hear=self.config.hear, classic=self.config.classic)
        self.stamps = Stamps(self.machine, with_cause=self.config.cause)
        self.events = Events(self)
        self.replies = Replies(self)
        self.restored = Restored(self)
        self.tables = Tables(self)
        self.looks = Looks(self)
        self.sensors = Sensors(self)

    # -- feed, take actions, do them --------------------------------------------------------------------------

    def feed(self, event: Event) -> None:
        """Feed the machine an event that cannot ask for the ledger to be read. Never raises."""
        try:
            asked = self.tell(event)
            assert asked is None, "only what is about to be taken in asks for the ledger"
        except Exception as error:
            self.stand_down(f"to take in {type(event).__name__}", error)

    def answering(self) -> Callable[[Event], None]:
        """Feeds the answer to what is asked for now, whenever it comes. In a ledger that has become another one
        meanwhile its ids and epochs stand for something else, and it is dropped."""
        asked_of = self.metrics.ledgers

        def answer(event: Event) -> None:
            try:
                if asked_of == self.metrics.ledgers:
                    self.feed(event)
            except Exception as error:
                self.stand_down(f"to take in {type(event).__name__}", error)

        return answer

    def tell(self, event: Event) -> ReadLedgerTo | None:
        """Feed the machine, do what it asks; what must be awaited before the event counts is given back."""
        started = time.perf_counter_ns()
        actions = self.machine.handle(event)
        us = (time.perf_counter_ns() - started) // 1000
        asked = None
        for action in actions:
            if isinstance(action, ReadLedgerTo):
                asked = action
        self.do(actions)
        for action in actions:
            if isinstance(action, TurnedRed):
                self.metrics.cuts += 1
                self.metrics.cut_s.add(us / 1_000_000)
                self._cut_at = {action.epoch: time.perf_counter()}  # no older one is worth measuring
                logger.debug(
                    "turned red for epoch %d (%s) in %d us",
                    action.epoch,
                    action.heard,
                    us,
                    extra=self.about(action.epoch),
                )
                self.feed(CutTimed(epoch=action.epoch, us=us))
        self.waiting.told()
        return asked

    def do(self, actions: Sequence[Action]) -> None:
        """Do the actions, in their order. Called in the midst of the app's own work: what goes wrong is ours (R15).
        Never raises."""
        try:
            self._do(actions)
        except Exception as error:
            self.stand_down("to do what its machine asks for", error)

    def _do(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case AppendToLedger(record=CutReport() | Closed() as record):
                    if isinstance(record, Closed) and record.epoch in self._cut_at:
                        self.metrics.closing_s.add(time.perf_counter() - self._cut_at.pop(record.epoch))
                    self.recorder.take(record)
                case AppendToLedger(record=record):
                    self.append(record)
                case SendMarkers():
                    self.outgoing.markers.due(action)
                case AskEnds():
                    self.spawn(self._ask_ends(action, self.answering()))
                case AskStopped():
                    self.spawn(self._ask_stopped(action, self.answering()))
                case StartTimer():
                    expired = TimerExpired(epoch=action.epoch)
                    self.loop.call_later(action.ttl_ms / 1000, self.answering(), expired)
                case SayHello() if self.absent:
                    pass
                case SayHello():
                    logger.warning("snapkafka: joining again as a new process", extra=self.about())
                    self.spawn(self._say_hello(action.was))
                case TurnedRed() | ReadLedgerTo():
                    pass
        if actions:
            self.waiting.told()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task that outlives a cancelled callback of Faust's; a failure is never raised into the app. A fault of ours
        in it (all but what the cluster answers) makes this worker stand down."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        try:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is None:
                return
            name = getattr(task.get_coro(), "__qualname__", "a task")
            if isinstance(error, Exception) and not isinstance(error, CLUSTER_AT_FAULT):
                self.stand_down(f"in {name}", error)
            else:
                logger.error("snapkafka: %s failed: %r", name, error, extra=self.about())
        except Exception as error:
            self.stand_down("to see how a task ended", error)

    def append(self, record: LedgerRecord) -> None:
        """Append to the ledger in the background, in the order asked. Anyone who stood down has but its `Bye` to
        write."""
        if not self.absent or isinstance(record, Bye):
            self.scribe.append(record)

    # -- R15: see `guard` -------------------------------------------------------------------------------------

    def withdraw(self, why: str) -> None:
        """Take no part from here on: the machine has found that nobody would count it."""
        if not self.absent:
            self.absent = why
            logger.error("snapkafka: this worker %s; %s", why, GOES_ON, extra=self.about())

    # -- life -------------------------------------------------------------------------------------------------

    def runs_here(self) -> bool:
        """Is this the thread of the app's loop? Before the app starts there is not other."""
        if self.loop is None:
            return True
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    async def start(self, ledger: KafkaLedger, admin: KafkaTopicAdmin) -> None:
        """Called when the app starts, before anything is sent. Returns at once."""
        self.loop, self.thread = asyncio.get_running_loop(), threading.get_ident()
        self.started = True
        self.ledger, self.admin = ledger, admin
        self.scribe.start()
        if self.config.every is not None:
            from .timer import run_timer

            self.spawn(
                run_timer(
                    self,
                    every=self.config.every,
                    min_pause=self.config.min_pause,
                    tolerable=self.config.tolerable_failures,
                    ttl_ms=self.config.ttl_ms,
                )
            )

    async def join(self, hello: Hello) -> None:
        """Print who we are and what we read, and wait for our id, at most `LEDGER_WAIT_S` (R11, R15)."""
        self._hello = hello
        await self._say_hello()
        self.spawn(self._warm_up(hello))
        await self.waiting.for_identity()

    async def _warm_up(self, hello: Hello) -> None:
        """Ask for log ends once before a snapshot does: the first time, connections have to be made."""
        await self.admin.log_ends(TopicPartition(source.topic, 0) for source in hello.inputs)

    async def stop(self) -> None:
        """The app has stopped and flushed: send `Bye`, so that nobody waits for this process."""
        if not self.started:
            return
        if self.machine.process is not None or self.machine.stood_down is not None:
            self.feed(StopAsked())
            try:
                await asyncio.wait_for(self.scribe.written(), LEDGER_WAIT_S)
            except TimeoutError:
                logger.warning(
                    "snapkafka: could not send Bye; the next snapshot may wait for this worker in vain",
                    extra=self.about(),
                )
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.ledger.close()
        await self.admin.close()

    async def _say_hello(self, was: int = NOBODY) -> None:
        assert self._hello is not None
        self._hello = replace(self._hello, n=random.getrandbits(63), was=was)
        self.feed(Joined(hello=self._hello))
        self.append(self._hello)

    async def _ask_ends(self, action: AskEnds, answer: Callable[[Event], None]) -> None:
        ends = await self.admin.log_ends(action.tps)
        answer(
            EndsSeen(
                report=action.report,
                ends=exact(
                    LogEnd(topic=tp.topic, partition=tp.partition, end=end) for tp, end in ends.items()
                ),
            )
        )

    async def _ask_stopped(self, action: AskStopped, answer: Callable[[Event], None]) -> None:
        """Note groups whose members may have joined since: a worker's `Hello` is in the ledger before it joins its
        group."""
        seen = await stopped_app(self.admin, action)
        if seen.members:
            with contextlib.suppress(SnapkafkaError):
                await self.waiting.read_to(await self.ledger.end())
        answer(seen)

    @property
    def participating(self) -> bool:
        """Does this worker take part: has it an id, and are its inputs announced?"""
        return self.machine.process is not None and self.machine.inputs.ready

    def quiet_s(self) -> float:
        """For how long no snapshot has been under way, in seconds, as far as this worker saw."""
        return 0.0 if self.machine.ledger.open else self.loop.time() - self.scribe.quiet_since

    # -- what lines of the log are about ----------------------------------------------------------------------

    def about(self, epoch: int | None = None, snapshot: str = "") -> dict[str, Any]:
        """`extra=` of a line of the log: which worker, and which snapshot where it is about one."""
        view = None if epoch is None else self.machine.ledger.snapshots.get(epoch)
        return about(
            snapshot=snapshot or ("" if view is None else view.trigger.id),
            epoch=epoch,
            namespace=self.config.namespace,
            process=self.machine.process,
        )

    # -- for the app ------------------------------------------------------------------------------------------

    async def trigger(self, snapshot_id: str = "", **options: Any) -> str:
        """Ask for a snapshot from inside the service; returns its id at once (R1).

        Raises:
            TriggerRefusedError: this worker has not started, or takes no part.
        """
        from snapkafka.kafka.triggering import (
            compose_trigger,
        )  # few workers ever ask; importing it takes 5 ms

        if self.absent or not self.started:
            raise TriggerRefusedError(
                f"this worker takes no part in snapshots: it {self.absent or 'has not started'}",
                hint="`snapkafka trigger` asks for a snapshot from anywhere; the worker's log has more",
            )
        options.setdefault("ttl_ms", self.config.ttl_ms)
        trigger = await compose_trigger(self.admin, self.machine.ledger, snapshot_id=snapshot_id, **options)
        for unread in self.machine.ledger.unread(trigger.apps):
            logger.warning("snapkafka: %s", unread, extra=self.about(snapshot=trigger.id))
        self.feed(TriggerAppendedEvent(n=trigger.n))
        self.append(trigger)
        return trigger.id
