"""The narrow interface through which the parts of a driver on Kafka reach what they share.

A part gets the host, and the other parts that it uses, as arguments of its constructor. `driver` wires them;
nothing else does. The host is the settings, the machine and its loop, our own clients, counters, background tasks, and
the containment of faults.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from snapkafka.logs import about
from snapkafka.protocol.captured_snapshot import WHY_UNREAD
from snapkafka.protocol.records import Skipped
from snapkafka.protocol.worker import WorkerProtocol

from .guard import CLUSTER_AT_FAULT, Guard
from .machine_driver import First, MachineDriver
from .metrics import Metrics

if TYPE_CHECKING:
    from snapkafka.config import Config
    from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
    from snapkafka.kafka.ledger.kafka_ledger import KafkaLedger
    from snapkafka.protocol.actions import Action
    from snapkafka.protocol.events import Event
    from snapkafka.protocol.records import TopicPartition, WhyUnread

logger = logging.getLogger("snapkafka")

T = TypeVar("T")


class KafkaHost(Guard, MachineDriver):
    """One process that speaks Kafka, as the parts of its driver see it.

    Args:
        config: validated settings.

    Attributes:
        machine: this process in the protocol; it is fed here, and the parts call its hot path.
        ledger, admin: our own clients, once the app has started.
        started: whether it has started.
    """

    def __init__(self, config: Config) -> None:
        Guard.__init__(self)
        MachineDriver.__init__(self, WorkerProtocol(hear=config.hear, aligns=True))
        self.config = config
        self.metrics = Metrics()
        self.started = False
        self.ledger: KafkaLedger
        self.admin: KafkaTopicAdmin
        self._tasks: set[asyncio.Task[Any]] = set()

    # -- the loop, which never raises -------------------------------------------------------------------------------

    def feed(self, event: Event) -> First | None:
        """Feed the machine an event, and do what it asks for. Never raises."""
        try:
            return super().feed(event)
        except Exception as error:
            self.stand_down(f"to receive {type(event).__name__}", error)
            return None

    def do(self, actions: Sequence[Action], *, us: int = 0) -> First | None:
        """Do the actions, in their order. The app's own code is on the call stack, so a fault of ours is contained
        (R15). Never raises."""
        try:
            return super().do(actions, us=us)
        except Exception as error:
            self.stand_down("to carry out what the protocol asks for", error)
            return None

    def reading_moved(self, tp: TopicPartition, start: int | None, end: int, why: WhyUnread) -> None:
        """Note that reading an input goes on at `end`, and not at `start`: see `reading.Moved`."""
        try:
            start = self.machine.positions.reads_at(tp) if start is None else start
            moved = Skipped(topic=tp.topic, partition=tp.partition, start=start, end=end, reason=why)
            self.machine.reading_moved(moved)
            if start < end:
                self.metrics.never_read[why] += 1 if start < 0 else end - start
                logger.warning(
                    "snapkafka: records %s to %d of %s are never read: %s",
                    "up" if start < 0 else start,
                    end - 1,
                    tp,
                    WHY_UNREAD[why],
                    extra=self.about(),
                )
        except Exception as error:
            self.stand_down("to note which records are never read", error)

    def answering(self) -> Callable[[Event], None]:
        """Return a function that feeds the answer to a question asked now. An answer that arrives after the ledger was
        recreated is dropped: its ids and epochs belong to the old one."""
        asked_of = self.metrics.ledgers

        def answer(event: Event) -> None:
            try:
                if asked_of == self.metrics.ledgers:
                    self.feed(event)
            except Exception as error:
                self.stand_down(f"to receive {type(event).__name__}", error)

        return answer

    # -- tasks in the background ------------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that outlives a cancelled callback of Faust's; a failure is never raised into the app. A fault
        of ours in it (anything but an error of the cluster) makes this worker stand down."""
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
            self.stand_down("to check how a task ended", error)

    async def end_tasks(self) -> None:
        """Cancel the background tasks."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- this worker ------------------------------------------------------------------------------------------------

    def runs_here(self) -> bool:
        """Return whether this is the thread of the app's loop. Before the app starts there is no other."""
        if self.loop is None:
            return True
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

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
