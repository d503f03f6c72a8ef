"""A process that does not speak Kafka, as one of the protocol. It decides nothing.

A snapshot waits for the state of the process (`AskState`): the machine stays white meanwhile, and what is redder waits
(R16). The process gives its state by `flush`, piece by piece, as white sends in a compacted topic of its own, and turns
red with the call of `cut`, in that instant; the positions in that call belong to the state. A process that does not
answer within the time to live fails that snapshot by name: no report vouches for a state that was never handed over.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from socket import gethostname
from typing import Any, cast

from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from snapkafka.config import Config
from snapkafka.errors import (
    BadInputError,
    BrokerUnavailableError,
    SnapkafkaError,
    TimedOutError,
    TriggerRefusedError,
)
from snapkafka.kafka.ledger.kafka_ledger import KafkaLedger
from snapkafka.kafka.login.connection import Connection, translated
from snapkafka.kafka.records.read import KafkaConsumer, KafkaRecord
from snapkafka.ports import Ledger
from snapkafka.protocol.actions import AskState, SendMarkers, TurnedRed
from snapkafka.protocol.colours import Cause
from snapkafka.protocol.events import AssignedInput, InputsAssigned, StateGiven, StopAsked
from snapkafka.protocol.records import REMOTE, RESTORE, ChangelogEnd, Hello, InputTopic, Table, TopicPartition

from ..aio_client import AioClient
from ..hello import open_changelog
from ..process import Process
from ..sends import Sends
from .inputs import (
    READER,
    TABLE,
    Bounds,
    Input,
    Left,
    Marker,
    changed_input,
    changelog_of,
    key_of,
    require_alone,
    require_node,
    resolve,
)
from .receiving import HandedOutRecords

#: A partition, and the first offset of it that is not processed.
Place = tuple[TopicPartition, int]


class Participant(Process):
    """One remote process, as the service calls it.

    Args:
        node: the name of the process; its app in the ledger.
        producer: starts a producer of aiokafka for it.
        codec: of its state, "raw" or "json".
    """

    asks_state = True

    def __init__(
        self,
        connection: Connection,
        *,
        namespace: str,
        node: str,
        ledger: Ledger,
        admin: Any,
        producer: Callable[[], Awaitable[Any]],
        consumer: KafkaConsumer,
        codec: str = "raw",
        host: str = "",
        bounds: Bounds | None = None,
    ) -> None:
        require_node(node)
        super().__init__(Config(namespace=namespace))
        self.machine.marks = False  # the headers do it: nobody may send in its name but this object
        self.connection, self.ledger, self.admin = connection, cast("KafkaLedger", ledger), admin
        self.node, self.bounds = node, bounds or Bounds()
        self.notices: asyncio.Queue[Marker | Left] = asyncio.Queue()
        self.left = ""  # why it no longer takes part
        self._start_producer, self._consumer, self._codec, self._hostname = producer, consumer, codec, host
        self._producer: Any = None
        self._cause: ContextVar[Cause | None] = ContextVar("snapkafka_remote_cause", default=None)
        self._state = TopicPartition(changelog_of(namespace, node), 0)
        self._standing: set[bytes] = set()  # keys of the state whose last record is no tombstone
        #: Snapshots that wait for the state; the process is asked for that of the first.
        self._asked: deque[Marker] = deque()
        self._given: dict[bytes, int] = {}  # the pieces of it that have arrived, key -> size
        self._receiving = HandedOutRecords(self, consumer, bounds=self.bounds)
        self.positions: Mapping[TopicPartition, int] = self._receiving.processed
        self._inputs: dict[str, InputTopic] = {}
        self._sending = asyncio.Semaphore(self.bounds.sends_max)

    # -- the hooks of the loop --------------------------------------------------------------------------------

    def ask_state(self, action: AskState) -> None:
        """Ask the process for its state, one snapshot after the other."""
        self._asked.append(Marker(action.id, action.epoch, time.time_ns()))
        if len(self._asked) == 1:
            self.notices.put_nowait(self._asked[0])

    def changed(self) -> None:
        """Ask for the next state, if nobody waits for this one any more."""
        super().changed()
        while self._asked and self._asked[0].epoch not in self.machine.aligner.awaits_state():
            self._asked.popleft()
            self._given = {}
            if self._asked:
                self.notices.put_nowait(self._asked[0])

    def turned_red(self, action: TurnedRed, us: int) -> None:
        """Tear the events that run across a cut (R6): all events of the process share one state."""
        super().turned_red(action, us)
        for event in list(self.machine.colours.running):
            self.do(self.machine.torn(self.machine.colours.tear(event, None)))

    def send_markers(self, action: SendMarkers) -> None:
        """Send none: the machine asks for none."""

    def let_go(self) -> None:
        self._receiving.let_go()

    def append_hello(self, was: int) -> None:
        """Leave: a process whose id is void has to join by itself."""
        self._leave("its id is void: it was declared dead, or the ledger is another one")

    def membership_read(self) -> None:
        """Leave, if a later process of this name has joined, by another instance of the service: the inputs belong to
        that one (R9)."""
        if self.process is not None and any(
            view.process > self.process and view.hello.app == self.node and view.hello.mode != RESTORE
            for view in self.machine.ledger.living()
        ):
            self._quit("another process joined by its node_id")

    def withdraw(self) -> None:
        super().withdraw()
        self._leave(f"it {self.absent}")

    # -- joining and leaving ----------------------------------------------------------------------------------

    @property
    def process(self) -> int | None:
        """The id of the process, once its `Hello` is read."""
        return self.machine.process

    async def join(self, inputs: Sequence[Input] = ()) -> None:
        """Append `Hello`; wait for the id (R11), and for the `Assigned` of its inputs to be read back (R9).

        Raises:
            TriggerRefusedError: an app of that name speaks Kafka.
            SnapkafkaError: an input cannot be read, or Kafka cannot be used.
        """
        starts = await resolve(self.admin, self.node, inputs)
        state = self._state.topic
        table, retention = await open_changelog(
            self.admin,
            Table(name=TABLE, changelog=state, partitions=1, key_codec="json", value_codec=self._codec),
        )
        self._standing = await self._consumer.standing_keys(self._state)
        end = (await self.admin.log_ends([self._state]))[self._state]
        await self._receiving.start(starts.positions)
        with translated(self.connection, "connect a producer"):
            self._producer = await self._start_producer()
        AioClient(self._producer, Sends(self, self._cause.get))
        await self.ledger.open()  # the tasks would ask again for ever for one that cannot be used
        self.connected(self.ledger, self.admin)
        hello = Hello(
            n=0, app=self.node, host=self._hostname or gethostname(), mode=REMOTE, inputs=starts.topics
        )
        reset = "earliest" if starts.topics else ""
        self.say_hello(replace(hello, tables=(table,), retention=(retention,), reset=reset))
        try:
            async with asyncio.timeout(self.bounds.call_s):
                await self.follower.until(lambda: bool(self.left) or self.process is not None)
                self.require_here()
                assert self.process is not None
                # Of two processes of one name the later has the higher id, so that is the generation: what the earlier
                # one announces before it reads of the later moves nothing.
                read = [
                    AssignedInput(tp=tp, agents=(READER,), position=at) for tp, at in starts.positions.items()
                ]
                own = ChangelogEnd(table=TABLE, topic=state, partition=0, end=end)
                self.feed(InputsAssigned(generation=self.process, inputs=tuple(read), changelogs=(own,)))
                await self.follower.until(lambda: bool(self.left) or self.machine.inputs.assigned >= 0)
        except TimeoutError:
            raise TimedOutError(
                f"{self.node} got no id within {self.bounds.call_s:g} s", hint="check the broker; join again"
            ) from None
        self.require_here()
        require_alone(self.node, self.machine.ledger)
        self._inputs = {found.topic: found for found in starts.topics}
        if starts.topics:
            self.spawn(self._watch_inputs())

    async def leave(self, reason: str) -> None:
        """Append `Bye`: no snapshot waits for the process any more, and its state is in none from here on."""
        in_order = not self.left  # otherwise its inputs may be those of another one by now
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.bounds.grace_s):
                if self.started:  # a `Hello` that stands in the ledger is to have a `Bye`
                    await self.follower.until(lambda: bool(self.left) or self.process is not None)
        self._quit(reason)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.bounds.grace_s):
                if in_order:
                    await self._receiving.commit_quietly()
                if self.started:
                    await self.follower.written()
                if self._producer is not None:
                    await self._producer.stop()
        await self.end_tasks()
        await self.ledger.close()
        await self._receiving.close()
        await self.admin.close()

    def _quit(self, reason: str) -> None:
        """Append `Bye`, and take no part any more; the snapshot that waits for the state fails by that name."""
        if not self.left:
            self.feed(StopAsked(reason=f"left: {reason}"))
            self._leave(reason)

    def _leave(self, reason: str) -> None:
        if not self.left:
            self.left = reason
            self._receiving.let_go()
            self.notices.put_nowait(Left(reason))

    def require_here(self) -> None:
        """Refuse a call of a process that has left."""
        if self.left:
            raise TriggerRefusedError(f"{self.node} no longer takes part: {self.left}", hint="join again")

    async def _watch_inputs(self) -> None:
        while True:
            await asyncio.sleep(self.bounds.look_s)
            with contextlib.suppress(SnapkafkaError):  # the next check makes up for it
                await self._check_inputs()

    async def _check_inputs(self) -> None:
        """Leave if an input is another one by now. A sender that has left names in no `Report` where it has sent, so
        all partitions must be known before a cut."""
        if self._inputs:
            described = await self.admin.describe_topics(list(self._inputs))
            if reason := changed_input(self._inputs, described):
                self._quit(reason)

    # -- calls of the process ---------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None = None,
        cause: Place | None = None,
    ) -> tuple[int, int]:
        """Append a record of the process, in the colour that the process has at this call (R5); return where it is.

        Raises:
            BadInputError: the record is too large, there is no such topic, or its `cause` was not received.
            BrokerUnavailableError: whether it is in the log is unknown.
        """
        size = len(key or b"") + len(value or b"")
        if size > self.bounds.record_bytes_max:
            raise BadInputError(
                f"a record of {size:,} bytes is too large", hint=f"at most {self.bounds.record_bytes_max:,}"
            )
        async with self._sending:
            self.require_here()
            token = self._cause.set(None if cause is None else self._receiving.cause(*cause))
            try:
                return await self._append(topic, key, value, partition)
            finally:
                self._cause.reset(token)

    async def _append(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int | None
    ) -> tuple[int, int]:
        with translated(self.connection, f"append to {topic}"):
            try:
                future = await self._producer.send(topic, value, key, partition)
            except (UnknownTopicOrPartitionError, AssertionError) as error:
                raise BadInputError(
                    f"there is no topic {topic}, or no such partition", hint="create it first"
                ) from error
        try:  # what may be in the log counts, also if its caller is cancelled
            appended = await asyncio.shield(future)
        except KafkaError as error:
            raise BrokerUnavailableError(f"whether a record is in {topic} is unknown: {error!r}") from error
        return appended.partition, appended.offset

    def receive(self) -> AsyncIterator[KafkaRecord]:
        """Return the records of its inputs, once; see `HandedOutRecords.records`."""
        self.require_here()
        return self._receiving.records()

    async def processed(self, positions: Sequence[Place]) -> None:
        """Note how far the process is, and commit that.

        Raises:
            BadInputError: a position goes back, or beyond what was received; nothing is noted then.
            SnapkafkaError: it is noted, but not committed; call again.
        """
        self.require_here()
        self._receiving.move(self._receiving.merged(positions))
        await self._receiving.commit()

    async def flush(self, snapshot_id: str, channel: str, chunk: int, data: bytes) -> bool:
        """Store a piece of the state for the snapshot that waits for it, or replace it. False: it does not wait for
        this process (any more). `channel`: whose messages were in flight to the process; empty: its own state.

        Raises:
            BadInputError: the piece is above a bound.
            BrokerUnavailableError: unknown whether it is stored; send it again.
        """
        most = self.bounds
        if len(data) > most.chunk_bytes_max:
            hint = f"give it in chunks of at most {most.chunk_bytes_max:,}"
            raise BadInputError(f"state_data has {len(data):,} bytes", hint=hint)
        key = key_of(channel, chunk)
        self.require_here()
        asked, given = self._asked_for(snapshot_id), self._given
        if asked is None:
            return False
        others = sum(given.values()) - given.get(key, 0)
        if others + len(data) > most.state_bytes_max or len(given.keys() | {key}) > most.chunks_max:
            raise BadInputError(
                f"the state of {self.node} is above {most.state_bytes_max:,} bytes or {most.chunks_max:,} chunks",
                hint="keep what is large elsewhere, and give a reference to it",
            )
        given[key] = len(data)
        self._standing.add(key)
        try:
            await self._append(self._state.topic, key, data, 0)
        except BaseException:
            given.pop(key, None)  # if it is not given again, whatever stands there is deleted by `cut`
            raise
        return self._asked_for(snapshot_id) is asked

    async def cut(self, snapshot_id: str, positions: Sequence[Place] = ()) -> bool:
        """Turn red: the state is complete, and what is sent from here on is after the cut. False: that snapshot does
        not wait for this process (any more). `positions`: of the state in its inputs; a partition that is left out
        stands as in the last call of `processed`.

        Raises:
            BadInputError: a state cannot have these positions; the process has not turned red.
            BrokerUnavailableError: unknown whether it succeeded; call it again.
        """
        self.require_here()
        asked = self._asked_for(snapshot_id)
        if asked is None:
            return False
        self._receiving.merged(positions, of_state=True)
        await self._check_inputs()
        self.require_here()
        for key in sorted(self._standing - self._given.keys()):  # of an earlier state
            await self._append(self._state.topic, key, None, 0)
            self._standing.discard(key)
        if self._asked_for(snapshot_id) is not asked:
            return False  # its time was over meanwhile
        self._receiving.move(self._receiving.merged(positions, of_state=True))
        self.feed(StateGiven(epoch=asked.epoch))
        self.spawn(self._receiving.commit_quietly())
        return True

    def _asked_for(self, snapshot_id: str) -> Marker | None:
        """Return what the process is asked for, if it is for this snapshot."""
        return self._asked[0] if self._asked and self._asked[0].snapshot_id == snapshot_id else None
