"""A process that does not speak Kafka, as one of the protocol. It decides nothing.

A snapshot waits for the state of the process (`AskState`): the machine stays white meanwhile, and what is redder waits
(R16). The process gives its state by `flush`, piece by piece, and turns red with the call of `cut`, in that instant.
All records that it receives before that call are white. The positions in that call belong to the state, and the
machine has them when it is told that the state is given (`running_events`).

A process that does not answer within the snapshot's time to live fails that snapshot by name, before any report could
vouch for a state that was never handed over.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from snapkafka.config import Config
from snapkafka.errors import BadInputError, TimedOutError, TriggerRefusedError
from snapkafka.kafka.records.read import Record
from snapkafka.ports import Ledger
from snapkafka.protocol.actions import AskState, SendMarkers, TurnedRed
from snapkafka.protocol.events import StateGiven, StateRefused, StopAsked
from snapkafka.protocol.records import RESTORE, TopicPartition
from snapkafka.protocol.snapshots import ProcessView
from snapkafka.topic_config import promised_by

from ..process import Process
from .assignment import Input, InputWatch, assigned_at, hello_of, require_alone, resolve
from .producer import ForeignSends, Writer
from .running_events import Consumer, HandedOutRecords
from .settings import Bounds, Left, Marker, changelog_of, key_of, require_node
from .state import State

if TYPE_CHECKING:
    from snapkafka.kafka.ledger.kafka_ledger import KafkaLedger

#: A partition, and the first offset of it that is not processed.
Place = tuple[TopicPartition, int]

#: Of the topic with the state: nobody has to look after it, and a snapshot can be assembled for a week.
CHANGELOG_SETTINGS: Final = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(7 * 24 * 3_600_000)}


@dataclass(slots=True)
class Asked:
    """A snapshot that waits for the state of the process, and the pieces that have arrived, key -> size."""

    marker: Marker
    given: dict[bytes, int] = field(default_factory=dict)


class Participant(Process):
    """One foreign process, as the service calls it.

    Args:
        node: the name of the process; its app in the ledger.
        ledger, admin: connections of its own.
        writer: may serve several processes.
        consumer: its own; used where it has inputs.
        codec: of its state, "raw" or "json".
    """

    asks_state = True

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
        super().__init__(Config(namespace=namespace))
        self.machine.send_no_markers()  # the headers do it: nobody may send in its name but this object
        self.ledger, self.admin = cast("KafkaLedger", ledger), admin
        self.node, self.bounds = node, bounds or Bounds()
        self.notices: asyncio.Queue[Marker | Left] = asyncio.Queue()
        self.left = ""  # why it no longer takes part
        self._writer, self._codec, self._hostname = writer, codec, host
        self._state = TopicPartition(changelog_of(namespace, node), 0)
        self._asked: deque[Asked] = deque()  # the process is asked for the first one
        self._sending = ForeignSends(self, writer, node=node)
        self._given = State(node, self._state, writer=writer, sending=self._sending, bounds=self.bounds)
        self._receiving = HandedOutRecords(self, consumer, bounds=self.bounds)
        self._watching = InputWatch(admin, node, every_s=self.bounds.look_s, lost=self._quit)
        self._sends = asyncio.Semaphore(self.bounds.sends_max)

    # -- the hooks of the loop --------------------------------------------------------------------------------

    def ask_state(self, action: AskState) -> None:
        """Ask the process for its state, one snapshot after the other."""
        if self.left:  # and its `Bye` is not read yet
            self.loop.call_soon(self.feed, StateRefused(reason=f"left: {self.left}"))
        self._asked.append(Asked(Marker(action.id, action.epoch, time.time_ns())))
        if len(self._asked) == 1:
            self.notices.put_nowait(self._asked[0].marker)

    def changed(self) -> None:
        """Ask for the next state, if nobody waits for this one any more."""
        super().changed()
        while self._asked and self._asked[0].marker.epoch not in self.machine.aligner.awaits_state():
            self._asked.popleft()
            if self._asked:
                self.notices.put_nowait(self._asked[0].marker)

    def turned_red(self, action: TurnedRed, us: int) -> None:
        """Tear the events that run across a cut (R6): all events of the process share one state."""
        super().turned_red(action, us)
        for event in list(self.machine.colours.running):
            self.do(self.machine.worked_off(event, None))

    def send_markers(self, action: SendMarkers) -> None:
        """Send none: the machine asks for none."""

    def hold_inputs(self) -> None:
        """Hold nothing back: a cut comes with the state, and not when all is aligned."""

    def let_go(self) -> None:
        """Read on what waits."""
        self._receiving.let_go()

    def append_hello(self, was: int) -> None:
        """Leave: a process whose id is void has to join by itself."""
        self._leave("its id is void: it was declared dead, or the ledger is another one")

    def membership_read(self) -> None:
        """Leave, if another process has this name now."""
        if not self.left and any(map(self._replaces, self.machine.ledger.living())):
            self._quit("another process joined by its node_id")

    def _replaces(self, view: ProcessView) -> bool:
        """Return whether this is a later process of the same name, of another instance of the service. Then the inputs
        belong to that one (R9)."""
        me = self.process
        later = me is not None and view.process > me
        return later and view.hello.app == self.node and view.hello.mode != RESTORE

    def withdraw(self) -> None:
        """Leave after a fault of ours."""
        super().withdraw()
        self._leave(f"it {self.absent}")

    # -- joining and leaving ----------------------------------------------------------------------------------

    @property
    def process(self) -> int | None:
        """The id of the process, once its `Hello` is read."""
        return self.machine.process

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
        starts = await resolve(self.admin, self.node, inputs)
        await self.admin.create_topic(self._state.topic, settings=CHANGELOG_SETTINGS)
        described = (await self.admin.describe_topics([self._state.topic]))[self._state.topic]
        await self._given.open()
        holding, _ = await self.admin.topic_settings(self._state.topic)
        end = (await self.admin.log_ends([self._state]))[self._state]
        await self._receiving.start(starts)
        await (
            self.ledger.open()
        )  # one that cannot be used is reported here; the tasks would ask again for ever
        self.loop, self.thread = asyncio.get_running_loop(), threading.get_ident()
        self.connected(self.ledger, self.admin)
        self.say_hello(
            hello_of(
                self.node,
                starts,
                hostname=self._hostname,
                codec=self._codec,
                changelog=self._state.topic,
                topic_id=described.topic_id,
                retention=promised_by(self._state.topic, holding),
            )
        )
        try:
            async with asyncio.timeout(self.bounds.call_s):
                await self.follower.until(lambda: bool(self.left) or self.process is not None)
                self._require_here()
                assert self.process is not None
                self.feed(assigned_at(self.process, starts, self._state.topic, end))
                await self.follower.until(lambda: bool(self.left) or self.machine.inputs.assigned >= 0)
        except TimeoutError:
            raise TimedOutError(
                f"{self.node} got no id within {self.bounds.call_s:g} s", hint="check the broker; join again"
            ) from None
        self._require_here()
        require_alone(self.node, self.machine.ledger)
        self._watching.start(starts)
        self.spawn(self._watching.follow())
        assert self.process is not None
        return self.process

    async def leave(self, reason: str) -> None:
        """Append `Bye`: no snapshot waits for the process any more, and its state is in none from here on."""
        in_order = not self.left  # otherwise its inputs may be those of another one by now
        self._quit(reason)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.bounds.grace_s):
                if in_order:
                    await self._receiving.commit_quietly()
                if self.started:
                    await self.follower.written()
        await self.end_tasks()
        await self.ledger.close()
        await self._receiving.close()
        await self.admin.close()

    def _quit(self, reason: str) -> None:
        """Append `Bye`, and take no part any more; the snapshot that waits for the state fails by that name."""
        if not self.left:
            self.feed(StateRefused(reason=f"left: {reason}"))
            self.feed(StopAsked())
            self._leave(reason)

    def _leave(self, reason: str) -> None:
        if not self.left:
            self.left = reason
            self._receiving.leave(reason)
            self.notices.put_nowait(Left(reason))

    def _require_here(self) -> None:
        if self.left:
            raise TriggerRefusedError(f"{self.node} no longer takes part: {self.left}", hint="join again")

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
        asked = self._asked_for(snapshot_id)
        if asked is None:
            return False
        await self._given.give(asked.given, channel, chunk, data)
        return self._asked_for(snapshot_id) is asked

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
        asked = self._asked_for(snapshot_id)
        if asked is None:
            return False
        self._receiving.require_state(positions)
        await self._watching.look()
        self._require_here()
        await self._given.keep(asked.given)
        if self._asked_for(snapshot_id) is not asked:
            return False  # its time was over meanwhile
        self._receiving.move(positions, of_state=True)
        self.feed(StateGiven(epoch=asked.marker.epoch))
        self.spawn(self._receiving.commit_quietly())
        return True

    def _asked_for(self, snapshot_id: str) -> Asked | None:
        """Return the state that the process is asked for, if it is for this snapshot."""
        found = self._asked[0] if self._asked else None
        return found if found is not None and found.marker.snapshot_id == snapshot_id else None
