"""The one place that contains faults of ours (R15): the app goes on, and this worker withdraws in the ledger.

Faust, asyncio and the app's own code call us in many places. Each of these hooks is one `try`, or begins with one, and
falls back to what Faust does by itself. The fault goes to `stand_down`, which reports it once: in the log, in `absent`
and in a `Bye` with the reason, which fails the open snapshots and lets `doctor` name the worker. From then on every
hook only passes its arguments on. The test of this (tests/driver/test_every_hook.py) raises in each function that a
snapshot calls.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final

from aiokafka.errors import KafkaError

from snapkafka.errors import SnapkafkaError

logger = logging.getLogger("snapkafka")

#: Errors that may pass, and are no faults of ours.
CLUSTER_AT_FAULT: Final = (SnapkafkaError, KafkaError, OSError, TimeoutError)
GOES_ON: Final = "this worker runs without snapshots"
#: Of a fault's text, this much goes into the ledger.
REASON_CHARS_MAX: Final = 500


class Guard(ABC):
    """The part of a host that contains faults.

    Attributes:
        absent: why this worker takes no part in any snapshot, if it is for good.
        loop: the app's, once it has started.
        thread: the one that the loop runs in.
    """

    def __init__(self) -> None:
        self.absent = ""
        self.loop: Any = None
        self.thread: int | None = None

    @contextlib.contextmanager
    def failing_open(self, what: str, *, for_good: bool = False, then: str = GOES_ON) -> Iterator[None]:
        """Contain a fault of ours: the app goes on, and snapshots fail by the name of what they miss.

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
            self.withdraw()
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: the app has stopped
            self.loop.call_soon_threadsafe(self.withdraw)

    @property
    def reason(self) -> str:
        """Why this worker is absent, as the ledger records it."""
        return self.absent[:REASON_CHARS_MAX]

    def log_failed(self, what: str, error: Exception, then: str = GOES_ON) -> None:
        """Log a fault on one line, with the place where it was raised."""
        try:
            extra = self.about()
        except Exception:
            extra = None
        logger.error("snapkafka: failed %s (%r); %s", what, error, then, exc_info=error, extra=extra)

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Return `extra=` for a log line."""

    @abstractmethod
    def withdraw(self) -> None:
        """Give up the identity and write that to the ledger. Runs in the loop's thread. Never raises."""
