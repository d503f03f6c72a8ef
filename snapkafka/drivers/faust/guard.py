"""The one place that contains faults of ours (R15): the host goes on, and this worker withdraws in the ledger.

Faust, asyncio and the app's own code call us in many places. Each of these hooks is one `try`, or begins with one, and
falls back to what Faust does by itself. The fault goes to `stand_down`, which reports it once: in the log, in `absent`
and in a `Bye` with the reason, which fails the open snapshots and lets `doctor` name the worker. From then on every
hook only passes its arguments on. The test of this (tests/driver/test_every_hook.py) raises in each function that a
snapshot calls.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from aiokafka.errors import KafkaError

from snapkafka.errors import SnapkafkaError
from snapkafka.protocol.actions import Action
from snapkafka.protocol.records import Bye

if TYPE_CHECKING:
    from snapkafka.protocol.records import LedgerRecord
    from snapkafka.protocol.worker import WorkerProtocol

    from .scribe import Scribe

__all__ = ["CLUSTER_AT_FAULT", "GOES_ON", "Guard"]

logger = logging.getLogger("snapkafka")

#: Errors that may pass, and are no faults of ours.
CLUSTER_AT_FAULT: Final = (SnapkafkaError, KafkaError, OSError, TimeoutError)
GOES_ON: Final = "this worker goes on without taking part"
#: Of a fault's text, this much goes into the ledger.
REASON_CHARS_MAX: Final = 500


class Guard:
    """The part of a driver that contains faults.

    Attributes:
        absent: why this worker takes no part in any snapshot from now on; None: it may.
        started: whether the app has started, and with it the ledger.
    """

    absent = ""
    started = False
    loop: Any = None  # until the app starts
    thread: int | None = None  # the one that the loop runs in
    machine: WorkerProtocol
    scribe: Scribe

    @contextlib.contextmanager
    def failing_open(self, what: str, *, for_good: bool = False, then: str = GOES_ON) -> Iterator[None]:
        """Contain a fault of ours: the host goes on, and snapshots fail by the name of what they miss.

        Args:
            what: the work that is about to be done, for the log.
            for_good: after a fault this worker never takes part; otherwise it may again if the cluster was at fault.
            then: the consequence, for the log, where it is harmless.
        """
        try:
            yield
        except Exception as error:
            if for_good or (then == GOES_ON and not isinstance(error, CLUSTER_AT_FAULT)):
                self.stand_down(what, error)
            else:
                self.log_failed(what, error, then)

    def stand_down(self, what: str, error: Exception) -> None:
        """Stand down, as the machine's knowledge may be wrong from here on: this process has no identity any more, and
        its `Bye` states that the app runs on without it, and why (R10). To be called while `error` is handled. Never
        raises."""
        if self.absent:
            return
        self.absent = f"failed {what} ({error!r})"
        self.log_failed(what, error)
        if self.loop is None or threading.get_ident() == self.thread:
            self._withdraw()
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: the app has stopped
            self.loop.call_soon_threadsafe(self._withdraw)

    def _withdraw(self) -> None:
        """Give up the identity and write that to the ledger. Runs in the loop's thread. Never raises."""
        process = self._identity()
        try:
            actions: Sequence[Action] = self.machine.stand_down(self.reason, process)
        except Exception:
            self.machine.process, actions = None, ()
        if not self.started:
            return
        try:
            if actions:
                self.do(actions)
            else:
                self._say_bye(process)
        except Exception as also:
            self.log_failed("to record in the ledger that it stands down", also)

    def joined_late(self, process: int) -> None:
        """Withdraw a `Hello` that entered the ledger after the worker had stood down, when no task reads the ledger
        any more."""
        if not self.scribe.reads:
            self._say_bye(process)

    @property
    def reason(self) -> str:
        """Why this worker is absent, as the ledger records it."""
        return self.absent[:REASON_CHARS_MAX]

    def _identity(self) -> int | None:
        """Return the id of this process, also one that it no longer uses."""
        return (
            self.machine.process
            if self.machine.process is not None or self.scribe.reads
            else self.scribe.said_at
        )

    def _say_bye(self, process: int | None) -> None:
        """Append the `Bye` that the machine would, if it could."""
        if process is not None:
            self.machine.stood_down = process
            n, since = random.getrandbits(63), self.machine.ledger.end
            self.append(Bye(process=process, n=n, goes_on=True, since=since, reason=self.reason))

    def log_failed(self, what: str, error: Exception, then: str = GOES_ON) -> None:
        """Log a fault on one line, with the place where it was raised."""
        try:
            extra = self.about()
        except Exception:
            extra = None
        logger.error("snapkafka: failed %s (%r); %s", what, error, then, exc_info=error, extra=extra)

    # -- what the rest of the driver gives --------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Return `extra=` for a log line."""
        raise NotImplementedError

    def do(self, actions: Sequence[Action]) -> None:
        """Do the actions of the machine."""
        raise NotImplementedError

    def append(self, record: LedgerRecord) -> None:
        """Append to the ledger in the background."""
        raise NotImplementedError
