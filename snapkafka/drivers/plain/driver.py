"""A loop with plain Kafka clients as one process of the protocol. It decides nothing.

The loop may run in threads, so every call of the machine is made under one lock: that lock is the one thread which the
machine asks for, and a cut is one instant (R3). The ledger is read and written in a loop of asyncio: that of a thread
of ours where the clients block, the app's own where they are aiokafka's.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from snapkafka.config import Config
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.kafka.ledger.kafka_ledger import KafkaLedger
from snapkafka.protocol.actions import Action, SendMarkers, StartTimer
from snapkafka.protocol.events import Event
from snapkafka.protocol.records import LedgerRecord, TopicPartition

from ..machine_driver import First
from ..process import Process
from .holding import HeldInputs

if TYPE_CHECKING:
    from snapkafka.kafka.login.connection import Connection
    from snapkafka.protocol.records import WhyUnread

T = TypeVar("T")


class PlainDriver(Process):
    """One loop in the protocol.

    Args:
        config: validated settings.
        connection: the cluster, for clients of our own.

    Attributes:
        lock: covers every call of the machine.
        held: its inputs that are held back.
        marked: called with the markers that are to be sent, under the lock.
    """

    def __init__(self, config: Config, connection: Connection) -> None:
        super().__init__(config)
        self.lock = threading.RLock()
        self.connection = connection
        self.held = HeldInputs(self)
        self.marked: Callable[[SendMarkers], None] = lambda action: None

    # -- the loop, under the lock -----------------------------------------------------------------------------------

    def feed(self, event: Event) -> First | None:
        """Feed the machine an event, from any thread."""
        with self.lock:
            return super().feed(event)

    def do(self, actions: Sequence[Action], *, us: int = 0) -> First | None:
        """Do the actions of the machine, from any thread."""
        with self.lock:
            return super().do(actions, us=us)

    def reading_moved(self, tp: TopicPartition, start: int | None, end: int, why: WhyUnread) -> None:
        """Note, from any thread, that reading goes on elsewhere."""
        with self.lock:
            super().reading_moved(tp, start, end, why)

    def withdraw(self) -> None:
        """Give up the identity, and write that to the ledger."""
        with self.lock:
            super().withdraw()

    # -- the hooks of the loop, from any thread ---------------------------------------------------------------------

    def write(self, record: LedgerRecord) -> None:
        """Append in the background, in the order asked."""
        self.loop.call_soon_threadsafe(super().write, record)

    def send_markers(self, action: SendMarkers) -> None:
        """Send them at once: nothing is sent meanwhile."""
        self.marked(action)

    def hold_inputs(self) -> None:
        """Hand out nothing more."""
        self.held.hold_all()

    def let_go(self) -> None:
        """Hand out what comes next."""
        self.held.let_go()

    def start_timer(self, action: StartTimer) -> None:
        """Start it in the loop."""
        self.loop.call_soon_threadsafe(super().start_timer, action)

    def changed(self) -> None:
        """Wake the tasks that wait for the ledger, which only its reader changes."""
        if self.runs_here():
            super().changed()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task, from any thread; only the loop's own gets it."""
        if self.runs_here():
            return super().spawn(work)
        self.loop.call_soon_threadsafe(super().spawn, work)
        return cast("asyncio.Task[T]", None)

    # -- life -------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the tasks of the ledger, in the loop that runs here."""
        self.metrics.counts["requests"] = self.connection.requests
        self.connected(KafkaLedger(self.connection, self.config.namespace), KafkaTopicAdmin(self.connection))
