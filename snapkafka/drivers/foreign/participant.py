"""One foreign process in the protocol: calls in, records on Kafka and notices to the process out.

The process and this object are one process of the protocol. Its cut is the call `cut`, in which the machine turns red:
all that was sent and given before that call is white, all after it red, by the order of the calls alone. The trigger is
fed to the machine in that very instant and not before (`ledger_task`), so nothing of the protocol is decided here.

    trigger read ──> Marker to the process ──> it records its state, gives it by `flush` ──> `cut`: old keys are
        deleted, the trigger is fed: cut (R3), CutReport, Closed when all that is white is acknowledged (R7)

A process that does not answer within the snapshot's time to live fails that snapshot by name: an `Abort` enters the
ledger before the trigger is fed, so that no `Closed` can make a state count that was never given.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, assert_never

from snapkafka.checks.lasting import promised_by
from snapkafka.errors import (
    BadInputError,
    BrokerUnavailableError,
    SnapkafkaError,
    TimedOutError,
    TriggerRefusedError,
)
from snapkafka.kafka.stopped_app import stopped_app
from snapkafka.kafka.writer import UnsettledError
from snapkafka.ports import Entry, Ledger
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
    InputsGiven,
    Joined,
    LedgerBegins,
    LedgerRead,
    StopAsked,
    TimerExpired,
)
from snapkafka.protocol.records import (
    FOREIGN,
    NOT_GIVEN,
    Abort,
    ChangelogEnd,
    Hello,
    LogEnd,
    Table,
    TopicPartition,
)
from snapkafka.protocol.worker import WorkerProtocol
from snapkafka.wire import headers as wire

from .ledger_task import LedgerTask
from .settings import TABLE, Bounds, Left, Marker, changelog_of, key_of, require_node

__all__ = ["NOT_GIVEN", "Participant", "Writer"]

#: Of the topic with the state: nobody has to look after it, and a snapshot can be assembled for a week.
CHANGELOG_SETTINGS: Final = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(7 * 24 * 3_600_000)}


class Writer(Protocol):
    """Where records are appended (`kafka.writer.KafkaWriter`)."""

    async def partition_of(self, topic: str, key: bytes | None) -> int: ...

    async def append(
        self, tp: TopicPartition, key: bytes | None, value: bytes | None, header: bytes
    ) -> Awaitable[int]: ...

    async def standing_keys(self, tp: TopicPartition) -> set[bytes]: ...


@dataclass(slots=True)
class _Due:
    """A snapshot that waits for the state of the process, and what was given of it."""

    marker: Marker
    timer: asyncio.TimerHandle | None = None
    given: dict[bytes, int] = field(default_factory=dict)  # key -> bytes


class Participant:
    """See the top of this file.

    Args:
        node: the name of the process; its app in the ledger.
        ledger, admin: connections of its own.
        writer: may serve several processes.
        codec: of its state, "raw" or "json".
    """

    def __init__(
        self,
        *,
        namespace: str,
        node: str,
        ledger: Ledger,
        admin: Any,
        writer: Writer,
        codec: str = "raw",
        host: str = "",
        bounds: Bounds | None = None,
    ) -> None:
        require_node(node)
        self.node, self.bounds = node, bounds or Bounds()
        self.notices: asyncio.Queue[Marker | Left] = asyncio.Queue()
        self.left = ""  # why it takes part no more
        self._admin, self._writer, self._codec, self._host = admin, writer, codec, host
        self._ledger = ledger
        self._state = TopicPartition(changelog_of(namespace, node), 0)
        self._machine = WorkerProtocol()
        self._machine.marks = False  # the headers do it: nobody may send here but this object
        self._task = LedgerTask(ledger, feed=self._fed, asks=self._asks, seen=self._seen, failed=self._leave)
        self._due: _Due | None = None
        self._standing: set[bytes] = set()  # keys of the state whose last record is no tombstone
        self._locks: dict[TopicPartition, asyncio.Lock] = {}
        self._sends = asyncio.Semaphore(self.bounds.sends_max)
        self._expired: set[int] = set()  # timers that went off while the machine was not fed
        self._background: set[asyncio.Task[None]] = set()

    # -- joining and leaving ----------------------------------------------------------------------------------

    @property
    def process(self) -> int | None:
        """Its id, once its `Hello` is read."""
        return self._machine.process

    async def join(self) -> int:
        """Append `Hello`, and wait for the id (R11).

        Raises:
            TriggerRefusedError: an app of that name runs that speaks Kafka.
            SnapkafkaError: Kafka cannot be used.
        """
        await self._admin.create_topic(self._state.topic, settings=CHANGELOG_SETTINGS)
        described = (await self._admin.describe_topics([self._state.topic]))[self._state.topic]
        self._standing = await self._writer.standing_keys(self._state)
        holding, _ = await self._admin.topic_settings(self._state.topic)
        end = (await self._admin.log_ends([self._state]))[self._state]
        await self._task.start(lambda start: self._feed(LedgerBegins(start=start)))
        table = Table(
            name=TABLE,
            changelog=self._state.topic,
            partitions=1,
            key_codec="json",
            value_codec=self._codec,
            topic_id=described.topic_id,
        )
        hello = Hello(
            n=random.getrandbits(63),
            app=self.node,
            host=self._host or socket.gethostname(),
            mode=FOREIGN,
            tables=(table,),
            retention=(promised_by(self._state.topic, holding),),
        )
        self._feed(Joined(hello=hello))
        self._task.append(hello)
        given = ChangelogEnd(table=TABLE, topic=self._state.topic, partition=0, end=end)
        self._feed(InputsGiven(generation=1, inputs=(), changelogs=(given,)))
        ready = self._task.until(lambda: bool(self.left) or self._machine.inputs.assigned >= 0)
        try:
            await asyncio.wait_for(ready, self.bounds.call_s)
        except TimeoutError:
            raise TimedOutError(
                f"{self.node} got no id within {self.bounds.call_s:g} s", hint="check the broker; join again"
            ) from None
        self._require_here()
        self._require_alone()
        assert self.process is not None
        return self.process

    def _require_alone(self) -> None:
        others = [v for v in self._machine.ledger.living() if v.hello.app == self.node]
        if any(view.hello.mode != FOREIGN for view in others):
            raise TriggerRefusedError(
                f"an app {self.node} runs that speaks Kafka", hint="join by another node_id"
            )

    async def leave(self, reason: str) -> None:
        """Append `Bye`: no snapshot waits for it any more, and no state of it is in the next one."""
        self._give_up_due(f"{self.node} left before it gave its state")
        if not self.left:
            self._feed(StopAsked())
            self._leave(reason)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._task.written(), self.bounds.grace_s)
        for task in list(self._background):
            task.cancel()
        await self._task.close()
        await self._admin.close()

    def _leave(self, reason: str) -> None:
        if not self.left:
            self.left = reason
            self.notices.put_nowait(Left(reason))

    def _require_here(self) -> None:
        if self.left:
            raise TriggerRefusedError(f"{self.node} takes part no more: {self.left}", hint="join again")

    # -- calls of the process ---------------------------------------------------------------------------------

    async def send(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int | None = None
    ) -> tuple[int, int]:
        """Append a record in the name of the process, in the colour that it has when this is called (R5).

        Returns:
            its partition and offset.

        Raises:
            BadInputError: it is too large, or there is no such topic.
            BrokerUnavailableError: whether it is in the log is unknown.
        """
        size = len(key or b"") + len(value or b"")
        if size > self.bounds.record_bytes_max:
            raise BadInputError(
                f"a record of {size:,} bytes is too large", hint=f"at most {self.bounds.record_bytes_max:,}"
            )
        self._require_here()
        async with self._sends:
            if partition is None:
                partition = await self._writer.partition_of(topic, key)
            offset = await self._append(TopicPartition(topic, partition), key, value)
        return partition, offset

    async def flush(self, snapshot_id: str, channel: str, chunk: int, data: bytes) -> bool:
        """Write down a piece of the state for the snapshot that waits for it; given again, it replaces itself.

        Args:
            channel: whose messages were in flight to the process; empty: its own state.

        Returns:
            False: that snapshot does not wait for this process (any more).

        Raises:
            BadInputError: it is above a bound.
            BrokerUnavailableError: give it again.
        """
        key, most = key_of(channel, chunk), self.bounds
        if len(data) > most.chunk_bytes_max:
            raise BadInputError(
                f"state_data has {len(data):,} bytes",
                hint=f"give it in chunks of at most {most.chunk_bytes_max:,}",
            )
        self._require_here()
        due = self._due_for(snapshot_id)
        if due is None:
            return False
        others = {k: size for k, size in due.given.items() if k != key}
        if sum(others.values()) + len(data) > most.state_bytes_max or len(others) >= most.chunks_max:
            raise BadInputError(
                f"the state of {self.node} is above {most.state_bytes_max:,} bytes or {most.chunks_max:,} chunks",
                hint="keep what is large elsewhere, and give a reference to it",
            )
        due.given[key] = len(data)
        self._standing.add(key)
        try:
            await self._append(self._state, key, data)
        except BaseException:
            due.given.pop(key, None)  # if it is not given again, whatever stands there is deleted by `cut`
            raise
        return self._due is due

    async def cut(self, snapshot_id: str) -> bool:
        """Turn red: the state is given, and what is sent from here on is after the cut.

        Returns:
            False: that snapshot does not wait for this process (any more).

        Raises:
            BrokerUnavailableError: call it again.
        """
        self._require_here()
        due = self._due_for(snapshot_id)
        if due is None:
            return False
        for key in sorted(self._standing - due.given.keys()):
            await self._append(self._state, key, None)
            self._standing.discard(key)
        if self._due is not due:
            return False  # its time was over meanwhile
        self._settle(due)
        return True

    def _due_for(self, snapshot_id: str) -> _Due | None:
        due = self._due
        return due if due is not None and due.marker.snapshot_id == snapshot_id else None

    @property
    def due(self) -> Marker | None:
        """The snapshot that waits for the state of the process; None: none does."""
        return None if self._due is None else self._due.marker

    async def _append(self, tp: TopicPartition, key: bytes | None, value: bytes | None) -> int:
        """Enter, stamp, append, settle (R5, R7)."""
        machine, process = self._machine, self._machine.process
        if process is None:
            raise TriggerRefusedError(f"{self.node} takes part no more", hint="join again")
        effect = machine.send_entered(None)
        lock = self._locks.setdefault(tp, asyncio.Lock())
        try:
            await lock.acquire()
        except BaseException:
            self._do(machine.send_withdrawn(effect))
            raise
        try:
            seq = machine.send_stamped(effect, tp)
            header = wire.stamp(
                self._ledger_id, wire.tp_check(tp.topic, tp.partition), effect.epoch, process, seq
            )
            # Not cancelled with its caller: what may be in the log has to be settled.
            appended = await asyncio.shield(self._appended(tp, key, value, header, effect, seq))
        finally:
            lock.release()
        return await asyncio.shield(self._settled(appended, tp, effect, seq))

    async def _appended(
        self, tp: TopicPartition, key: bytes | None, value: bytes | None, header: bytes, effect: Any, seq: int
    ) -> Awaitable[int]:
        try:
            appended = await self._writer.append(tp, key, value, header)
        except BaseException:
            self._machine.send_unstamped(effect, tp, seq)
            self._do(self._machine.send_withdrawn(effect))
            raise
        self._do(self._machine.send_appended(effect))
        return appended

    async def _settled(self, appended: Awaitable[int], tp: TopicPartition, effect: Any, seq: int) -> int:
        try:
            offset = await appended
        except UnsettledError as error:
            self._do(self._machine.send_unsettled(effect, tp, seq, str(error)))
            raise BrokerUnavailableError(f"whether a record is in {tp} is unknown: {error}") from error
        self._do(self._machine.send_acked(effect, tp, seq, offset))
        return offset

    @property
    def _ledger_id(self) -> int:
        return int(getattr(self._ledger, "ledger_id", 0))

    # -- the ledger -------------------------------------------------------------------------------------------

    def _asks(self, epoch: int, entry: Entry) -> bool:
        """Does the snapshot of this trigger wait for the state of the process? Then the process is asked for it."""
        view = self._task.ahead.open.get(epoch)
        if view is None or self.process is None or self.process not in view.required or self.left:
            return False
        marker = Marker(view.trigger.id, epoch, entry.timestamp_ms * 1_000_000)
        self._due = due = _Due(marker)
        what = f"{self.node} did not give its state within {view.trigger.ttl_ms} ms"
        loop = asyncio.get_running_loop()
        due.timer = loop.call_later(view.trigger.ttl_ms / 1_000, self._expire_due, due, what)
        self.notices.put_nowait(marker)
        return True

    def _fed(self, entry: Entry) -> None:
        self._feed(LedgerRead(offset=entry.offset, record=entry.record))

    def _seen(self) -> None:
        process, ahead = self.process, self._task.ahead
        if process is not None and not ahead.lives(process):
            self._leave("it was taken for dead")
        if self._due is not None and self._due.marker.epoch not in ahead.open:
            self._settle(self._due)  # decided without it: aborted

    def _settle(self, due: _Due) -> None:
        """The trigger is fed: at once, so nothing comes between this and the cut."""
        if due.timer is not None:
            due.timer.cancel()
        self._due = None
        self._task.go_on()
        if self.due is None:
            expired, self._expired = self._expired, set()
            for epoch in sorted(expired):
                self._expire(epoch)

    def _expire_due(self, due: _Due, what: str) -> None:
        if self._due is due:
            self._give_up_due(what)

    def _give_up_due(self, what: str) -> None:
        """Fail the snapshot that waits for a state, before the machine reports a cut without one."""
        due = self._due
        if due is None:
            return
        culprit = f"process {self.process}"
        self._task.append(
            Abort(
                n=random.getrandbits(63), epoch=due.marker.epoch, code=NOT_GIVEN, reason=what, culprit=culprit
            )
        )
        self._settle(due)

    # -- feed, take actions, do them --------------------------------------------------------------------------

    def _feed(self, event: Event) -> None:
        started = time.perf_counter_ns()
        actions = self._machine.handle(event)
        us = (time.perf_counter_ns() - started) // 1_000
        self._do(actions)
        for action in actions:
            if isinstance(action, TurnedRed):
                self._feed(CutTimed(epoch=action.epoch, us=us))

    def _do(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case AppendToLedger(record=record):
                    self._task.append(record)
                case AskEnds():
                    self._spawn(self._ask_ends(action))
                case AskStopped():
                    self._spawn(self._ask_stopped(action))
                case StartTimer():
                    asyncio.get_running_loop().call_later(action.ttl_ms / 1_000, self._expire, action.epoch)
                case SayHello():
                    self._leave("its id is void: it was taken for dead, or the ledger is another one")
                case TurnedRed() | ReadLedgerTo() | SendMarkers():
                    pass  # no record is taken in here, and no marker is asked for
                case _:
                    assert_never(action)

    def _expire(self, epoch: int) -> None:
        """The machine judges by what it was fed: while a trigger waits it would take others for late."""
        if self._due is not None:
            self._expired.add(epoch)
        elif epoch in self._task.ahead.open and not self.left:
            self._feed(TimerExpired(epoch=epoch))

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _ask_ends(self, action: AskEnds) -> None:
        try:
            ends = await self._admin.log_ends(action.tps)
        except SnapkafkaError:
            return  # unanswered, that snapshot fails by its time to live
        self._feed(
            EndsSeen(
                report=action.report,
                ends=tuple(
                    LogEnd(topic=tp.topic, partition=tp.partition, end=end) for tp, end in ends.items()
                ),
            )
        )

    async def _ask_stopped(self, action: AskStopped) -> None:
        with contextlib.suppress(SnapkafkaError):  # unanswered, that snapshot fails by its time to live
            self._feed(await stopped_app(self._admin, action))
