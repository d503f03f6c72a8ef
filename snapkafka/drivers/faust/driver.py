"""The Faust driver: it feeds the machine, does its actions and feeds back the results. It decides nothing.

One `FaustDriver` stands for one app in one worker process. Its parts are created and wired here, and nowhere else. One
task reads the ledger; another appends what the machine wants written, in that order. No event, send or commit of the
app waits for either. R15 names the exceptions: the start, a rebalance, and a red record whose trigger is not read yet
(R2) wait for the ledger, at most `LEDGER_WAIT_S`.
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
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.kafka.cluster.stopped_app import stopped_app
from snapkafka.kafka.ledger.kafka_ledger import KafkaLedger
from snapkafka.protocol.actions import AskEnds, AskStopped, SendMarkers, StartTimer, TurnedRed
from snapkafka.protocol.events import EndsSeen, Event, InputsRevoked, Joined, StopAsked, TimerExpired
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

from ..ledger_tasks import LedgerTasks
from ..ledger_wait import LEDGER_WAIT_S
from .connection import connection_of
from .describe import in_transactions
from .hello import hello_of, process_hello, report_missing, report_uncaptured
from .host import Host
from .inbound.assignment import AssignmentAnnouncer
from .inbound.conductor import IncomingRecords
from .inbound.membership import Membership
from .inbound.recorder import Recorder
from .inbound.replies import Replies
from .inbound.resume import InputResumption
from .inbound.running_events import Events
from .inbound.sensors import Sensors
from .inbound.streams import watch_streams
from .outbound.fast_path import skip_producer_guard
from .outbound.producer import OutgoingRecords
from .outbound.stamps import Stamps
from .own_headers import OwnHeaders
from .restores import AppliedRestores
from .tables.changelogs import Tables
from .tables.reads import Reads
from .tables.thread_reads import ThreadReads
from .waiting import WorkerWaits

if TYPE_CHECKING:
    from snapkafka.config import Config

logger = logging.getLogger("snapkafka")


class FaustDriver(Host):
    """`app.snapkafka`: this worker as a process of the protocol.

    Args:
        app: the Faust app.
        config: validated settings.
    """

    def __init__(self, app: Any, config: Config) -> None:
        super().__init__(app, config)
        self._cut_at: dict[int, float] = {}  # epoch -> when, until it is closed
        self._hello: Hello | None = None
        self.stamps = Stamps(self.machine, with_cause=config.cause)
        self.own_headers = OwnHeaders(self)
        self.ledger_tasks = LedgerTasks(
            self, self.stamps, restore_read=self._restore_read, other_ledger=self._forget_epochs
        )
        self.waiting = WorkerWaits(self, self.ledger_tasks)
        self.restored = AppliedRestores(self, self.waiting)
        thread_reads = ThreadReads(self)
        self.events = Events(self, thread_reads)
        self.replies = Replies(self, self.events)
        self.reads = Reads(self, self.events, thread_reads)
        self.sensors = Sensors(self, self.events, self.replies, self.reads)
        self.tables = Tables(self, self.reads, self.sensors, self.restored)
        # until Faust has made what they are parts of
        self.recorder: Recorder
        self.incoming: IncomingRecords | None = None
        self.outgoing: OutgoingRecords
        self.membership: Membership | None = None

    # -- Faust makes its own parts ------------------------------------------------------------------------------------

    def app_defined(self) -> None:
        """Patch what may be patched while the app is being defined; nothing of it may be finalised."""
        self.sensors.attach(self.app.sensors)
        watch_streams(self, self.events, self.replies, self.sensors.attach_stream)

    def app_configured(self) -> None:
        """Create the recorder: the app's settings are known."""
        self.recorder = Recorder(self, self._write)

    def producer_made(self, producer: Any) -> None:
        """Patch the producer that Faust has created."""
        self.outgoing = OutgoingRecords(
            self,
            producer,
            stamps=self.stamps,
            events=self.events,
            own_headers=self.own_headers,
            waiting=self.waiting,
            note=self.restored.noted,
        )
        if in_transactions(self.app):
            # See docs/explanation/design-notes.md: a marker would open a transaction, or overtake one.
            self.machine.send_no_markers()
        skip_producer_guard(self.app, producer, self.stand_down)

    def conductor_made(self, conductor: Any) -> None:
        """Patch `app.topics`, which Faust has created."""
        self.incoming = IncomingRecords(
            self,
            conductor,
            events=self.events,
            replies=self.replies,
            tables=self.tables,
            restored=self.restored,
            stamps=self.stamps,
            own_headers=self.own_headers,
            waiting=self.waiting,
            record=self._record,
        )

    def consumer_made(self, consumer: Any) -> None:
        """Patch the consumer that Faust has created."""
        announcing = AssignmentAnnouncer(
            self,
            consumer,
            events=self.events,
            tables=self.tables,
            waiting=self.waiting,
            assigned=self._attachments_assigned,
        )
        self.membership = Membership(
            self,
            consumer,
            join=self._join_as,
            announcing=announcing,
            resuming=InputResumption(consumer, self.stand_down),
            events=self.events,
            restored=self.restored,
            rebalanced=self._transactions_rebalanced,
        )

    def inputs_revoked(self) -> None:
        """Forget all inputs: Faust gives them back."""
        if self.membership is not None:
            self.membership.on_revoked()  # also where we take no part any more: it may hold some
        if self.incoming is not None:
            self.incoming.held.forget()
        if self.absent:
            return
        for part in (self.events, self.replies, self.tables, self.outgoing.attached):
            part.on_revoked()
        self.feed(InputsRevoked())

    def _attachments_assigned(self, inputs: Any) -> None:
        self.outgoing.attached.on_assigned(inputs)

    def _transactions_rebalanced(self, consumer: Any) -> None:
        if self.outgoing.transactions is not None:
            self.outgoing.transactions.on_rebalanced(consumer)

    def _record(self, ended: Any) -> None:
        self.recorder.take(ended)

    def _restore_read(self) -> None:
        self.restored.ledger_read()

    def _forget_epochs(self) -> None:
        self.replies.forget_epochs()
        self.tables.forget_epochs()

    # -- the hooks of the loop ----------------------------------------------------------------------------------------

    def append(self, record: LedgerRecord) -> None:
        """Append to the ledger in the background; what reports on a cut goes through the recorder."""
        if not isinstance(record, CutReport | Closed):
            self._write(record)
            return
        if isinstance(record, Closed) and record.epoch in self._cut_at:
            self.metrics.closing_s.add(time.perf_counter() - self._cut_at.pop(record.epoch))
        self.recorder.take(record)

    def _write(self, record: LedgerRecord) -> None:
        """Append a record; a worker that stood down may only write its `Bye`."""
        if not self.absent or isinstance(record, Bye):
            self.ledger_tasks.append(record)

    def send_markers(self, action: SendMarkers) -> None:
        """Send them soon, and before any red record."""
        self.outgoing.markers.due(action)

    def ask_ends(self, action: AskEnds) -> None:
        """Ask in the background."""
        self.spawn(self._ask_ends(action, self.answering()))

    def ask_stopped(self, action: AskStopped) -> None:
        """Ask in the background."""
        self.spawn(self._ask_stopped(action, self.answering()))

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

    def hold_inputs(self) -> None:
        """Keep what arrives, and what waits for its agent."""
        assert self.incoming is not None
        self.incoming.held.hold_all()

    def let_go(self, epoch: int) -> None:
        """Take in what was kept."""
        if self.incoming is not None:
            self.incoming.held.let_go(epoch)

    def changed(self) -> None:
        """Wake the tasks that wait for the ledger."""
        self.waiting.machine_changed()

    async def _expired(self, timer: StartTimer, answer: Callable[[Event], None]) -> None:
        """Read the ledger to its end first (R12)."""
        if timer.epoch in self.machine.ledger.open:
            with contextlib.suppress(SnapkafkaError):
                await self.waiting.read_to(await self.ledger.end())
        answer(TimerExpired(epoch=timer.epoch, align=timer.align))

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
        """Ask whether the groups of stopped apps are empty. Members may have joined since: the `Hello` of a worker is
        in the ledger before it joins its group."""
        seen = await stopped_app(self.admin, action)
        if seen.members:
            with contextlib.suppress(SnapkafkaError):
                await self.waiting.read_to(await self.ledger.end())
        answer(seen)

    # -- life ---------------------------------------------------------------------------------------------------------

    def app_started(self) -> None:
        """Note the loop and the thread in which the app runs from now on."""
        self.loop, self.thread = asyncio.get_running_loop(), threading.get_ident()

    async def start(self, ledger: KafkaLedger, admin: KafkaTopicAdmin) -> None:
        """Start the tasks of the ledger, before anything is sent. Returns at once."""
        self.app_started()
        self.started = True
        self.ledger, self.admin = ledger, admin
        self.ledger_tasks.start()
        if self.config.every is not None:
            from .timer import run_timer

            self.spawn(
                run_timer(
                    self,
                    quiet_s=self.quiet_s,
                    every=self.config.every,
                    min_pause=self.config.min_pause,
                    tolerable=self.config.tolerable_failures,
                    ttl_ms=self.config.ttl_ms,
                )
            )

    async def begin(self) -> None:
        """Reach the ledger once the app has started, and join if no consumer will subscribe."""
        self.replies.attach(self.app._reply_consumer)
        connection = connection_of(self.app)
        self.metrics.requests = connection.requests
        await self.start(KafkaLedger(connection, self.config.namespace), KafkaTopicAdmin(connection))
        if self.app.producer_only:
            await self.join(process_hello(self))

    async def _join_as(self, topics: Any) -> None:
        """Join as a consumer of these topics."""
        self.tables.attach()
        ours = self.recorder.agent
        report_uncaptured(self, ours)
        hello = await hello_of(self, topics, ours=ours, by_threads=self.reads.by_threads())
        report_missing(self, hello)
        await self.join(hello)

    async def join(self, hello: Hello) -> None:
        """Append `Hello` with the inputs of this worker, and wait for its id, at most `LEDGER_WAIT_S` (R11, R15)."""
        self._hello = hello
        self._append_hello(NOBODY)
        self.spawn(self._warm_up(hello))
        await self.waiting.for_identity()

    async def _warm_up(self, hello: Hello) -> None:
        """Ask for log ends once before a snapshot does: the first time, connections have to be made."""
        await self.admin.log_ends(TopicPartition(source.topic, 0) for source in hello.inputs)

    def _append_hello(self, was: int) -> None:
        assert self._hello is not None
        self._hello = replace(self._hello, n=random.getrandbits(63), was=was)
        self.feed(Joined(hello=self._hello))
        self.append(self._hello)

    def note_stores(self) -> None:
        """Note what the stores of the app's tables hold: the app has stopped."""
        self.tables.leave()

    async def stop(self) -> None:
        """Append `Bye`, so that no snapshot waits for this process. The app has stopped and flushed."""
        if not self.started:
            return
        if self.machine.process is not None or self.machine.stood_down is not None:
            self.feed(StopAsked())
            try:
                await asyncio.wait_for(self.ledger_tasks.written(), LEDGER_WAIT_S)
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
        self.let_go(0)
        try:
            process = self.ledger_tasks.identity
            actions = self.machine.stand_down(self.reason, process)
        except Exception:
            self.machine.lose_identity(process)
        if not self.started:
            return
        try:
            if actions:
                self.do(actions)
            else:
                self.ledger_tasks.append_bye(process)
        except Exception as also:
            self.log_failed("to record in the ledger that it stands down", also)

    def quiet_s(self) -> float:
        """Return for how many seconds no snapshot has been in progress, as far as this worker saw."""
        return 0.0 if self.machine.ledger.open else self.loop.time() - self.ledger_tasks.quiet_since

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
        trigger = await compose_trigger(self.admin, self.machine.ledger, snapshot_id=snapshot_id, **options)
        for unread in self.machine.ledger.unread(trigger.apps):
            logger.warning("snapkafka: %s", unread, extra=self.about(snapshot=trigger.id))
        self.feed(TriggerAppendedEvent(n=trigger.n))
        self.append(trigger)
        return trigger.id
