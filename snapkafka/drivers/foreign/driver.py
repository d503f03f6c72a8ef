"""One foreign process in the protocol: it turns calls into records on Kafka, and the ledger into notices to the
process.

The process and this object are one process of the protocol. Its cut is the call `cut`, in which the machine turns red:
what was sent before that call is white, what is sent after it is red, by the order of the calls alone. The trigger is
fed to the machine in that instant and not before (`ledger_task`), so nothing of the protocol is decided here.

    trigger read ──> Marker to the process ──> it records its state, gives it by `flush` ──> `cut`: old keys are
        deleted, the trigger is fed: cut (R3), CutReport, Closed when all that is white is acknowledged (R7)

All records that it receives before that call are white, as any redder one waits (`conductor`). The positions in that
call belong to the state, and the machine has them when it is fed the trigger (`running_events`).

A process that does not answer within the snapshot's time to live fails that snapshot by name: an `Abort` enters the
ledger before the trigger is fed, so that no `Closed` can vouch for a state that was never handed over.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from snapkafka.errors import BadInputError, SnapkafkaError, TimedOutError, TriggerRefusedError
from snapkafka.kafka.records.read import Record
from snapkafka.ports import Entry, Ledger
from snapkafka.protocol.events import (
    Joined,
    LedgerBegins,
    LedgerCutShort,
    LedgerRead,
    StopAsked,
)
from snapkafka.protocol.records import (
    RESTORE,
    TopicPartition,
)
from snapkafka.protocol.snapshots import ProcessView
from snapkafka.topic_config import promised_by

from ..waiting import LEDGER_WAIT_S
from .assignment import Input, resolve
from .due import StateDue
from .hello import assigned_at, hello_of, require_alone
from .host import ForeignHost
from .input_watch import InputWatch
from .ledger_task import LedgerTask
from .producer import ForeignSends, Writer
from .running_events import Consumer, HandedOutRecords
from .settings import Bounds, Left, Marker, changelog_of, key_of, require_node
from .state import State

#: A partition, and the first offset of it that is not processed.
Place = tuple[TopicPartition, int]

#: Of the topic with the state: nobody has to look after it, and a snapshot can be assembled for a week.
CHANGELOG_SETTINGS: Final = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(7 * 24 * 3_600_000)}


class Participant:
    """One foreign process, as the service calls it.

    Args:
        node: the name of the process; its app in the ledger.
        ledger, admin: connections of its own.
        writer: may serve several processes.
        consumer: its own; used where it has inputs.
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
        consumer: Consumer,
        codec: str = "raw",
        host: str = "",
        bounds: Bounds | None = None,
    ) -> None:
        require_node(node)
        self.node, self.bounds = node, bounds or Bounds()
        self.notices: asyncio.Queue[Marker | Left] = asyncio.Queue()
        self.left = ""  # why it no longer takes part
        self._admin, self._writer, self._ledger = admin, writer, ledger
        self._codec, self._hostname = codec, host
        self._state = TopicPartition(changelog_of(namespace, node), 0)
        self._task = LedgerTask(
            ledger,
            feed=self._fed,
            asks=self._asks,
            seen=self._seen,
            failed=self._leave,
            cut_short=self._ledger_cut_short,
        )
        self._host = ForeignHost(
            admin=admin, append=self._task.append, expire=self._expired, leave=self._leave
        )
        self._machine = self._host.machine
        self._due = StateDue(node, self._host, self._task, self.notices.put_nowait)
        self._sending = ForeignSends(self._host, writer, node=node, ledger_id=self._ledger_id)
        self._given = State(node, self._state, writer=writer, sending=self._sending, bounds=self.bounds)
        self._receiving = HandedOutRecords(
            self._host, ledger, consumer, ledger_id=self._ledger_id, bounds=self.bounds
        )
        self._watching = InputWatch(admin, node, every_s=self.bounds.look_s, lost=self._lost)
        self._sends = asyncio.Semaphore(self.bounds.sends_max)

    # -- joining and leaving ----------------------------------------------------------------------------------

    @property
    def process(self) -> int | None:
        """The id of the process, once its `Hello` is read."""
        return self._machine.process

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The first unprocessed offset of each input partition."""
        return self._receiving.positions

    async def join(self, inputs: Sequence[Input] = ()) -> int:
        """Append `Hello`; wait for the id (R11), and for the `Assigned` of its inputs to be read back (R9).

        Raises:
            TriggerRefusedError: an app of that name speaks Kafka.
            BadInputError, OffsetsGoneError: an input cannot be read.
            SnapkafkaError: Kafka cannot be used.
        """
        starts = await resolve(self._admin, self.node, inputs)
        await self._admin.create_topic(self._state.topic, settings=CHANGELOG_SETTINGS)
        described = (await self._admin.describe_topics([self._state.topic]))[self._state.topic]
        await self._given.open()
        holding, _ = await self._admin.topic_settings(self._state.topic)
        end = (await self._admin.log_ends([self._state]))[self._state]
        await self._receiving.start(starts)
        await self._task.start(lambda start: self._host.feed(LedgerBegins(start=start)))
        hello = hello_of(
            self.node,
            starts,
            hostname=self._hostname,
            codec=self._codec,
            changelog=self._state.topic,
            topic_id=described.topic_id,
            retention=promised_by(self._state.topic, holding),
        )
        self._host.feed(Joined(hello=hello))
        self._task.append(hello)
        try:
            async with asyncio.timeout(self.bounds.call_s):
                await self._task.until(lambda: bool(self.left) or self.process is not None)
                self._require_here()
                assert self.process is not None
                self._host.feed(assigned_at(self.process, starts, self._state.topic, end))
                await self._task.until(lambda: bool(self.left) or self._machine.inputs.assigned >= 0)
        except TimeoutError:
            raise TimedOutError(
                f"{self.node} got no id within {self.bounds.call_s:g} s", hint="check the broker; join again"
            ) from None
        self._require_here()
        require_alone(self.node, self._machine.ledger)
        self._watching.start(starts)
        self._host.spawn(self._watching.follow())
        assert self.process is not None
        return self.process

    async def leave(self, reason: str) -> None:
        """Append `Bye`: no snapshot waits for the process any more, and its state is in none from here on."""
        self._due.give_up(f"{self.node} left before it gave its state")
        in_order = not self.left  # otherwise its inputs may be those of another one by now
        if in_order:
            self._host.feed(StopAsked())
            self._leave(reason)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.bounds.grace_s):
                if in_order:
                    await self._receiving.commit_quietly()
                await self._task.written()
        self._host.close()
        await self._task.close()
        await self._receiving.close()
        await self._admin.close()

    def _leave(self, reason: str) -> None:
        if not self.left:
            self.left = reason
            self._due.leave()
            self._receiving.leave(reason)
            self.notices.put_nowait(Left(reason))

    def _require_here(self) -> None:
        if self.left:
            raise TriggerRefusedError(f"{self.node} no longer takes part: {self.left}", hint="join again")

    def _ledger_cut_short(self, since: int, upto: int) -> None:
        """R11: its id is void. Append the range that is lost, and leave."""
        self._due.give_up(f"{self.node} left: the ledger has lost its tail")
        self._host.feed(LedgerCutShort(since=since, upto=upto, n=random.getrandbits(63)))
        self._leave("the ledger has lost acknowledged records: its id is void")

    def _lost(self, reason: str) -> None:
        """Stop committing and taking part: its inputs are not those with which it joined any more."""
        if not self.left:
            self._due.give_up(f"{self.node} left: {reason}")
            self._host.feed(StopAsked())
            self._leave(reason)

    # -- calls of the process ---------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None = None,
        cause: Place | None = None,
    ) -> tuple[int, int]:
        """Append a record of the process, in the colour that the process has at this call (R5).

        Args:
            cause: the received, unprocessed record that causes it; the header names it.

        Returns:
            the partition and offset of the record.

        Raises:
            BadInputError: the record is too large, there is no such topic, or its cause was not received.
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
            event = None if cause is None else self._receiving.cause(*cause)
            offset = await self._sending.append(TopicPartition(topic, partition), key, value, event)
        return partition, offset

    async def receive(self) -> AsyncIterator[Record]:
        """Yield the records of its inputs, each partition in its order, from the first unprocessed one.

        Raises:
            BadInputError: it has no inputs, or the next record is too large.
            TriggerRefusedError: it has left.
            SnapkafkaError: the inputs cannot be read.
        """
        self._require_here()
        async for record in self._receiving.records(self.node):
            yield record

    async def processed(self, positions: Sequence[Place]) -> None:
        """Note how far the process is, and commit that.

        Raises:
            BadInputError: a position goes back, or beyond what was received; nothing is noted then.
            SnapkafkaError: it is noted, but not committed; call again.
        """
        self._require_here()
        self._receiving.move(positions, of_state=False)
        await self._receiving.commit()

    async def flush(self, snapshot_id: str, channel: str, chunk: int, data: bytes) -> bool:
        """Store a piece of the state for the snapshot that waits for it; a second piece of the same number replaces
        the first.

        Args:
            channel: the sender whose messages were in flight to the process; empty: its own state.

        Returns:
            False: that snapshot does not wait for this process (any more).

        Raises:
            BadInputError: the piece is above a bound.
            BrokerUnavailableError: unknown whether it is stored; send it again.
        """
        if len(data) > self.bounds.chunk_bytes_max:
            raise BadInputError(
                f"state_data has {len(data):,} bytes",
                hint=f"give it in chunks of at most {self.bounds.chunk_bytes_max:,}",
            )
        key_of(channel, chunk)  # refuses what can be none, whether it is awaited or not
        self._require_here()
        due = self._due.of(snapshot_id)
        if due is None:
            return False
        await self._given.give(due.given, channel, chunk, data)
        return self._due.now is due

    async def cut(self, snapshot_id: str, positions: Sequence[Place] = ()) -> bool:
        """Turn red: the state is complete, and what is sent from here on is after the cut.

        Args:
            positions: of the state in its inputs; a partition that is left out stands as in the last call of
                `processed`.

        Returns:
            False: that snapshot does not wait for this process (any more).

        Raises:
            BadInputError: a state cannot have these positions; the process has not turned red.
            BrokerUnavailableError: unknown whether it succeeded; call it again.
        """
        self._require_here()
        due = self._due.of(snapshot_id)
        if due is None:
            return False
        self._receiving.require_state(positions)
        await self._watching.look()
        self._require_here()
        await self._given.keep(due.given)
        if self._due.now is not due:
            return False  # its time was over meanwhile
        self._receiving.move(positions, of_state=True)
        self._due.settle()
        self._host.spawn(self._receiving.commit_quietly())
        return True

    def _ledger_id(self) -> int:
        return int(getattr(self._ledger, "ledger_id", 0))

    # -- the ledger -------------------------------------------------------------------------------------------

    def _asks(self, epoch: int, entry: Entry) -> bool:
        """Return whether the snapshot of this trigger waits for the state of the process."""
        return self._due.asks(epoch, entry)

    def _fed(self, entry: Entry) -> None:
        self._host.feed(LedgerRead(offset=entry.offset, record=entry.record))
        self._receiving.changed()

    def _seen(self) -> None:
        process, ahead = self.process, self._task.ahead
        if process is not None and not ahead.is_alive(process):
            self._leave("it was declared dead")
        elif process is not None and not self.left and any(map(self._replaces, ahead.living())):
            self._host.feed(StopAsked())
            self._leave("another process joined by its node_id")
        if self._due.now is not None and self._due.now.marker.epoch not in ahead.open:
            self._due.settle()  # decided without it: aborted

    def _replaces(self, view: ProcessView) -> bool:
        """Return whether this is a later process of the same name, of another instance of the service. Then the inputs
        belong to that one (R9)."""
        assert self.process is not None
        return view.process > self.process and view.hello.app == self.node and view.hello.mode != RESTORE

    def _expired(self, epoch: int) -> None:
        self._host.spawn(self._expire(epoch))

    async def _expire(self, epoch: int) -> None:
        """Read the ledger to its end first (R12)."""
        with contextlib.suppress(SnapkafkaError, TimeoutError):
            async with asyncio.timeout(LEDGER_WAIT_S):
                end = await self._ledger.end()
                await self._task.until(lambda: self._task.ahead.end >= end)
        self._due.expire(epoch)
