"""What a participant is, whichever client library its loop has.

The loop may run in threads, so every call of the machine is made under one lock: that lock is the one thread which the
machine asks for, and a cut is one instant (R3). The ledger is read and written in a loop of asyncio: that of a thread
of ours where the clients block, the app's own where they are aiokafka's.
"""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from weakref import WeakSet

from snapkafka.config import Config
from snapkafka.errors import BadInputError, SnapkafkaError, TimedOutError
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.kafka.ledger.kafka_ledger import KafkaLedger
from snapkafka.kafka.login.connection import Connection
from snapkafka.protocol.actions import SendMarkers
from snapkafka.protocol.events import AssignedInput, InputsAssigned, InputsRevoked
from snapkafka.protocol.records import TopicPartition

from ..gate import Decision
from ..process import Process
from ..sends import Sends, Transaction
from .plan import Plan
from .running_events import LOOP, Events, Run
from .table import Recovered, recover

#: A revocation waits for this, and looks as often.
UNFINISHED: Final = "the loop to finish its messages"
FINISHED_EVERY_S: Final = 0.01
READ_AROUND: Final = "the consumer is read around its participant, and its records would be in no event"
READ_BY: Final = "for message in part.poll()"
Act = Callable[[list[TopicPartition]], object]
#: The clients of the participants that have begun.
TAKEN: Final[WeakSet[Any]] = WeakSet()


class PlainDriver(Process):
    """One loop in the protocol; it is fed from any thread. It holds inputs back for an aligned snapshot (R16): nothing
    of them starts until the machine lets them go.

    The client pauses a held partition. A record that it had fetched already is put back: its partition is sought to it.
    So nothing is kept here, and a seek of the loop's own, a rebalance or a crash finds each partition as it would have
    been. A partition that the loop has paused itself stays paused.

    Attributes:
        lock: covers every call of the machine.
        held: the inputs that are held back, and since when.
        marked: called with the markers that are to be sent, under the lock.
    """

    def __init__(self, config: Config, connection: Connection) -> None:
        super().__init__(config)
        self.lock = threading.RLock()
        self.connection = connection
        self.held: dict[TopicPartition, float] = {}
        self._paused: set[TopicPartition] = set()  # here
        self._by_loop: set[TopicPartition] = set()  # paused by the loop itself
        self.marked: Callable[[SendMarkers], None] = lambda action: None

    def send_markers(self, action: SendMarkers) -> None:
        self.marked(action)

    def hold(self, tp: TopicPartition) -> None:
        """Hold an input back."""
        with self.lock:
            self.held.setdefault(tp, time.perf_counter())

    def hold_inputs(self) -> None:
        for tp in self.machine.positions.inputs():
            self.hold(tp)

    def let_go(self) -> None:
        with self.lock:
            for since in self.held.values():
                self.metrics.observe("alignment", time.perf_counter() - since)
            self.held.clear()

    def hold_back(self, *, pause: Act, resume: Act) -> None:
        """Let the client pause what is held back, and resume what is not any more."""
        if not self.held and not self._paused:
            return
        with self.lock:
            to_pause = sorted(self.held.keys() - self._paused)
            to_resume = sorted(self._paused - self.held.keys() - self._by_loop)
            self._paused = set(self.held)
        if to_pause:
            pause(to_pause)
        if to_resume:
            resume(to_resume)

    def forget_paused(self) -> list[TopicPartition]:
        """Forget what is paused: the inputs are revoked. Return what was paused here."""
        with self.lock:
            paused, self._paused = sorted(self._paused), set()
            self._by_loop.clear()
        return paused

    def paused_by_loop(self, tps: Iterable[TopicPartition]) -> None:
        with self.lock:
            self._by_loop.update(tps)

    def resumed_by_loop(self, tps: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Note that the loop resumes partitions; return those that are held back, and stay paused until let go."""
        with self.lock:
            resumed = set(tps)
            self._by_loop -= resumed
            return resumed & self._paused


class Participant(ABC):
    """The common parts of a participant. `reset`: where an input without a committed offset starts; empty: it must have
    one."""

    def __init__(self, plan: Plan, connection: Connection, *, reset: str) -> None:
        self.plan, self._reset = plan, reset
        self.host = PlainDriver(plan.config, connection)
        self.events = Events(self.host)
        self.sends = Sends(self.host, self.events.cause)
        self.stopping = self._begun = False
        if plan.table is not None:
            plan.table.bind(self.host, plan.group, events=self.events, send=self.change)

    @abstractmethod
    def change(self, partition: int, key: bytes, value: bytes | None) -> None:
        """Append a change of the table to its changelog. Called under the lock."""

    @abstractmethod
    def put_back(self, tp: TopicPartition, offset: int) -> None:
        """Read a record again, once its partition is not held back any more."""

    def transact(self) -> None:
        """Prepare for a producer with transactions: a marker would open one, or overtake one, so none is sent."""
        self.host.machine.marks = False
        self.events.sent = Transaction(self.sends)

    def take_clients(self) -> None:
        """Make the clients those of this participant, unless one is another one's, or this one has ended."""
        if self._begun:
            raise BadInputError("a participant begins once", hint="make another one for another loop")
        if taken := next((client for client in self.plan.clients if client in TAKEN), None):
            raise BadInputError(
                f"the {type(taken).__name__} is another participant's", hint="make one for each participant"
            )
        self._begun = True
        TAKEN.update(self.plan.clients)

    def release_clients(self) -> None:
        TAKEN.difference_update(self.plan.clients)

    # -- for the loop -------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End `poll` after the present message; to be called from anywhere, also by a handler of a signal."""
        self.stopping = True

    def trigger(self, snapshot_id: str = "", **options: Any) -> None:
        """Request a snapshot in the background (R1); to be called from anywhere."""
        host = self.host
        if host.absent or not host.started:
            host.log("no snapshot is requested: the loop %s", host.absent or "has not started")
            return
        host.loop.call_soon_threadsafe(lambda: host.spawn(host.trigger(snapshot_id, **options)))

    def inside(self, run: Run) -> Any:
        return self.events.inside(run)

    def event(self, message: Any) -> Any:
        """Return the block in which a message of `poll` is processed: `with part.event(message)`, or `async with`.

        Raises:
            BadInputError: it has begun already, or `poll` did not hand it out last.
        """
        return self.inside(self.events.claim(message))

    def skip(self, message: Any) -> None:
        """Skip a message: it is processed, and had no effect."""
        self.events.end(self.events.claim(message), skipped=True)

    # -- records that come in -----------------------------------------------------------------------------------------

    def takes_in(self, decided: Decision, tp: TopicPartition, offset: int, *, waits: bool) -> bool:
        """Return whether the loop gets a record now, whose event starts then. `waits`: it was held back."""
        if not waits:
            if decided.ended is not None:
                self.host.feed(decided.ended)
            if not decided.passes:
                return False
            with self.host.lock:
                if tp not in self.host.held:
                    self.events.hand_out(tp, offset)
                    return True
        self.put_back(tp, offset)
        return False

    def waits_for_others(self) -> bool:
        """Return whether no message comes because inputs are held back; nobody waits for a transaction here."""
        return bool(self.host.held) and not self.events.open

    # -- inputs that come and go --------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def finishing(self, limit_s: float) -> Iterator[None]:
        """Wait inside this block until the loop has finished what it got, before inputs are revoked."""
        try:
            yield
        except TimedOutError:
            self.host.log(
                "inputs are revoked while a message is processed for more than %.0f s, so it is processed again;"
                " process less in one event",
                limit_s,
            )

    def revoked(self) -> None:
        """Forget the inputs: the next assignment starts where the group has committed."""
        self.events.on_revoked()
        self.host.feed(InputsRevoked())
        if self.plan.table is not None:
            self.plan.table.replace({})
        self.events.revoked()

    async def assigned(
        self, committed: Mapping[TopicPartition, int | None], *, generation: int, member: str
    ) -> dict[TopicPartition, int]:
        """Recover the table, announce these inputs, and return where each starts.

        Args:
            committed: the offsets that the group has committed; None: none.
            generation, member: of the group, and of this process in it.
        """
        host, table = self.host, self.plan.table
        host.feed(InputsRevoked())  # what starts from here on starts under this assignment
        found = Recovered()
        if table is not None:
            found = await recover(host, host.connection, table, {tp.partition for tp in committed})
            table.replace(found.data)
        positions = await self._positions(committed)
        if host.absent or not host.started:
            return positions
        host.feed(
            InputsAssigned(
                generation=generation,
                member=member,
                inputs=tuple(
                    AssignedInput(
                        tp=tp, agents=(LOOP,), position=position, replay_until=found.effects_until(tp)
                    )
                    for tp, position in sorted(positions.items())
                ),
                changelogs=() if table is None else found.changelogs(table),
            )
        )
        await host.follower.for_inputs()
        return positions

    async def _positions(self, committed: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int]:
        unknown, starts = [tp for tp, offset in committed.items() if offset is None], {}
        if unknown and not self._reset:
            raise BadInputError(
                f"the group has committed no offset of {unknown[0]}, and its reset policy is an error",
                hint="commit where the loop is to start, or set auto.offset.reset",
            )
        if unknown:
            admin = self.host.admin
            starts = await (admin.log_starts if self._reset == "earliest" else admin.log_ends)(unknown)
        return {tp: starts[tp] if offset is None else offset for tp, offset in committed.items()}

    # -- in the loop of the ledger ------------------------------------------------------------------------------------

    async def join(self) -> None:
        """Start the tasks of the ledger, and join it before the group (R11), once no restore of this app is open: it
        sets the offsets of the group."""
        plan, host = self.plan, self.host
        admin = KafkaTopicAdmin(host.connection)
        if plan.config.mode in ("off", "observe"):
            host.absent, host.admin = "is disabled", admin
        else:
            host.metrics.counts["requests"] = host.connection.requests
            host.connected(KafkaLedger(host.connection, plan.config.namespace), admin)
        try:
            hello = await plan.hello(admin, self._reset)
        except BadInputError:
            raise
        except SnapkafkaError as error:
            if host.absent or plan.table is not None:
                raise
            host.stand_down("to join", error)
            return
        if host.absent:
            return
        await host.join_ledger(hello)
        await host.follower.for_restore(plan.group)

    async def leave(self, *, in_order: bool) -> None:
        """Leave as `Process.stop` does; nothing of it is raised."""
        host = self.host
        try:
            await (host.stop(in_order=in_order) if host.started else host.admin.close())
        except Exception as error:
            host.log_failed("to leave", error)
        host.absent = host.absent or "has left"
