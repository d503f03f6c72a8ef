"""What goes wrong in a storm. Each fault is done to the real system, and says what it did."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from snapkafka.demo import REQUESTS
from snapkafka.errors import TriggerRefusedError
from snapkafka.kafka import topic_name
from snapkafka.wire import headers as wire
from tests.features.harness import produce
from tests.freezing import freeze, thaw

if TYPE_CHECKING:
    from snapkafka.testing import Worker
    from tests.e2e.parts import Live

#: The workers' sessions in a storm; the shortest that a broker allows by default.
SESSION_S: Final = 6.0
ENV: Final = {"SNAPKAFKA_DEMO_SESSION_S": str(SESSION_S)}
#: A pause from which a worker comes back as a zombie: its group has given its inputs to others meanwhile.
SLEEP_S: Final = SESSION_S + 3.0
#: One that its group does not notice.
NAP_S: Final = 1.5
#: The broker answers nobody for so long: acknowledgements are late.
STALL_S: Final = 1.0

APPS: Final = ("accounts", "clearing")


def start(live: Live, app: str) -> Worker:
    """Start one more worker of an app of the demo."""
    return live.system.start_worker(app, ENV, module=f"snapkafka.demo.{app}")


class Faults:
    """Everything that can go wrong, each as a method that returns what it did it to."""

    #: After these, inputs move.
    HEAVY: Final = ("kill", "restart", "sleep", "join_and_leave", "app_dies")
    #: No snapshot has to fail for these.
    LIGHT: Final = ("nap", "broker_stalls", "garbage_in_the_ledger", "forged_header", "second_trigger")

    def __init__(self, live: Live, rng: random.Random) -> None:
        self.live, self.rng = live, rng
        self._asleep: set[int] = set()
        self._wakers: list[threading.Thread] = []

    def rest(self) -> None:
        """Until all that was put to sleep is awake again."""
        for waker in self._wakers:
            waker.join()

    # -- heavy ------------------------------------------------------------------------------------------------

    def kill(self) -> str:
        """`kill -9`, and another is started in its place at once."""
        return self._replace(self.live.system.kill)

    def restart(self) -> str:
        """It leaves in order, and another is started in its place."""
        return self._replace(self.live.system.interrupt)

    def app_dies(self) -> str:
        """All workers of an app at once, as by a record that none of them stands; as many are started."""
        self.rest()
        app = self.rng.choice(APPS)
        gone = self.live.system.workers_of(app)
        for worker in gone:
            self.live.system.kill(worker)
        started = [start(self.live, app).name for _ in gone]
        return f"{', '.join(worker.name for worker in gone)}, for them {', '.join(started)}"

    def sleep(self) -> str:
        """SIGSTOP for longer than its session: it comes back as a zombie."""
        return self._stop(self._any(), SLEEP_S)

    def join_and_leave(self) -> str:
        """One more worker; the oldest of its app leaves in order."""
        app = self.rng.choice(APPS)
        joined = start(self.live, app)
        leaving = self.live.system.workers_of(app)[0]
        self.live.system.interrupt(leaving)
        return f"{joined.name} joins, {leaving.name} leaves"

    # -- light ------------------------------------------------------------------------------------------------

    def nap(self) -> str:
        """SIGSTOP for less than its session."""
        return self._stop(self._any(), NAP_S)

    def broker_stalls(self) -> str:
        """The broker answers nobody for a while."""
        freeze(self.live.broker)
        time.sleep(STALL_S)  # this is the fault
        thaw(self.live.broker)
        return f"{STALL_S:g} s"

    def garbage_in_the_ledger(self) -> str:
        """A stranger writes into the ledger."""
        topic = topic_name(self.live.namespace)
        produce(self.live.bootstrap, topic, [(None, self.rng.randbytes(20), None)], partition=0)
        return topic

    def forged_header(self) -> str:
        """A record whose header names an epoch that does not exist."""
        partition = self.rng.randrange(4)
        observer, check = self.live.observer, wire.tp_check(REQUESTS, partition)
        header = wire.stamp(observer.ledger.ledger_id, check, observer.state.end + 1_000, 2**31, 0)
        record = ("acct-0000", b'{"to": "acct-0001", "amount": 0, "asked": 0}', None)
        produce(self.live.bootstrap, REQUESTS, [record], partition=partition, headers=[(wire.HEADER, header)])
        return f"{REQUESTS}[{partition}]"

    def second_trigger(self) -> str:
        """The trigger of a snapshot that exists, once more."""
        view = list(self.live.observer.state.snapshots.values())[-1]
        try:
            self.live.observer.ask(view.trigger.id)
        except TriggerRefusedError as error:  # every worker is down at this moment
            return f"{view.trigger.id}, refused: {error.problem}"
        return view.trigger.id

    # -- parts ------------------------------------------------------------------------------------------------

    def _replace(self, end: Callable[[Worker], object]) -> str:
        worker = self._any()
        end(worker)
        return f"{worker.name}, for it {start(self.live, worker.app).name}"

    def _any(self) -> Worker:
        return self.rng.choice([it for it in self.live.system.workers if it.pid not in self._asleep])

    def _stop(self, worker: Worker, seconds: float) -> str:
        os.kill(worker.pid, signal.SIGSTOP)
        self._asleep.add(worker.pid)

        def wake() -> None:
            time.sleep(seconds)  # this is the fault
            self._asleep.discard(worker.pid)
            os.kill(worker.pid, signal.SIGCONT)

        self._wakers.append(threading.Thread(target=wake))
        self._wakers[-1].start()
        return f"{worker.name} for {seconds:g} s"
