"""The running events of a loop: a record is one from when it is handed out until its `event` block ends.

So records start in the order of their partition, whichever thread processes them, and a position in a snapshot has
no gaps. The event that runs in a context causes what is sent there; a thread has a context of its own.

In a transaction, what is sent, and the events that send it, are done once it is committed: no cut for which they are
white closes before (R7). An aborted one undoes its events, positions included: the inputs count as revoked until the
loop is rewound to what is committed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Final

from snapkafka.errors import BadInputError
from snapkafka.protocol import Cause, InputsRevoked, LogEnd, SendOutcome, TopicPartition

from ..patches import contained
from ..process import Process
from ..sends import ABORTED, Transaction, Unacknowledged

#: The one agent of a loop: all of it.
LOOP: Final = "loop"


class Run:
    """One run of an event. After a rebalance the same record may be handed out again while its first run goes on.

    Attributes:
        current: its inputs were not revoked since.
        undone: whether its transaction was aborted; None: none has ended since it began.
    """

    __slots__ = ("cause", "current", "undone")

    def __init__(self, cause: Cause) -> None:
        self.cause, self.current = cause, True
        self.undone: bool | None = None


class Events:
    """The events of one loop, and the transactions of its producer.

    Args:
        host: whose machine is fed.

    Attributes:
        sent: the sends of a transaction; None: the producer has none.
        open: a transaction is.
        unwound: one was aborted: the loop is to be rewound before it goes on.
    """

    def __init__(self, host: Process) -> None:
        self._driver = host
        self._here: ContextVar[Run | None] = ContextVar("snapkafka_event", default=None)
        self._unclaimed: Run | None = None  # handed out, and not in an `event` yet
        self._running: set[Run] = set()
        self._deferred: list[Run] = []  # they end with their transaction
        self._kept: dict[TopicPartition, int] = {}  # one past the last event whose effects no abort undoes
        self.sent: Transaction | None = None
        self.open = self.unwound = False
        self._in_doubt = False  # a commit failed, and may have gone through
        self._revoked = False  # inputs were, in this transaction

    def here(self) -> Run | None:
        """Return the event that runs here and now."""
        return self._here.get()

    def cause(self) -> Cause | None:
        """Return the event that runs here and now, as the machine knows it."""
        run = self._here.get()
        return None if run is None else run.cause

    def run(self) -> bool:
        return bool(self._running)

    def hand_out(self, tp: TopicPartition, offset: int) -> None:
        """Start the event of a record that the loop gets now."""
        with self._driver.lock:
            cause, running = Cause(LOOP, tp, offset), self._driver.machine.colours.running
            while cause in running:  # handed out again, while its first run goes on
                cause = cause._replace(run=cause.run + 1)
            run = self._unclaimed = Run(cause)
            self._running.add(run)
            if not self._driver.absent:
                self._driver.do(self._driver.machine.event_started(run.cause))

    def require_in_order(self) -> None:
        """Refuse to hand out a record while the last one is in no event, or an aborted transaction is not undone."""
        if (left := self._unclaimed) is not None:
            raise BadInputError(
                f"record {left.cause.tp}@{left.cause.offset} was processed outside of an event",
                hint="process it in `with part.event(message)`; part.skip(message) if there is none",
            )
        if self.unwound:
            raise BadInputError(
                "a transaction was aborted, and the loop was not rewound",
                hint="call part.rewind() after abort_transaction()",
            )

    def claim(self, message: Any) -> Run:
        """Return the event of a record that was handed out, and has none yet; refuse any other record."""
        run, (tp, offset) = self._unclaimed, place_of(message)
        if run is None or run.cause[1:3] != (tp, offset):
            raise BadInputError(
                f"record {tp}@{offset} has no event to begin: poll() did not hand it out last, or it has begun",
                hint="call part.event(message) once for each message of part.poll()",
            )
        self._unclaimed = None
        return run

    @contextlib.contextmanager
    def inside(self, run: Run) -> Iterator[None]:
        """Run an event in this context, until this block ends."""
        token = self._here.set(run)
        try:
            yield
        finally:
            self._here.reset(token)
            self.end(run)

    def end(self, run: Run, *, skipped: bool = False) -> None:
        """End an event: at once, or with its transaction. `skipped`: it has no effects, so it waits for none that is
        not open."""
        with self._driver.lock:
            if run not in self._running:
                return
            self._running.remove(run)
            if skipped:
                run.undone = False
            if self.sent is not None and (self.open or run.undone is None):
                self._deferred.append(run)
            else:
                self._ended(run, undone=bool(run.undone))

    def _keep(self, run: Run) -> None:
        tp, end = run.cause.tp, run.cause.offset + 1
        self._kept[tp] = max(end, self._kept.get(tp, 0))

    def _ended(self, run: Run, *, undone: bool) -> None:
        host, cause = self._driver, run.cause
        if self.sent is not None and not undone:
            self._keep(run)
        if undone and not host.absent and host.machine.process is not None:
            effect = host.machine.send_entered(cause)
            why = "was undone: its transaction was aborted"
            host.do(host.machine.send_given_up(effect, why, culprit=str(cause.tp)))
        if not host.absent:
            host.do(host.machine.event_ended(cause))

    def on_revoked(self) -> None:
        """Forget the record that was handed out last: another member of the group gets it, as it gets those of the
        events that run."""
        with self._driver.lock:
            for run in self._running:
                run.current = False
        if (left := self._unclaimed) is not None:
            self._unclaimed = None
            self.end(left)

    # -- transactions -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def beginning(self) -> Iterator[None]:
        """Begin a transaction inside this block."""
        yield
        self.open, self._in_doubt, self._revoked = True, False, False

    def revoked(self) -> None:
        """Note that inputs are revoked: another member starts where the group has committed."""
        self.unwound, self._revoked = False, self.open

    def require_kept(self) -> None:
        """Refuse to commit what another member processes as well, as inputs were revoked in this transaction."""
        if self._revoked:
            raise BadInputError(
                "inputs were revoked in this transaction, and another member processes their messages again",
                hint="abort an open transaction in on_revoke",
            )

    @contextlib.contextmanager
    def committing(self) -> Iterator[None]:
        """Commit the transaction inside this block; see `require_kept`."""
        self.require_kept()
        try:
            yield
        except BaseException:
            self._in_doubt = True  # it stays open: the client says that it is to be aborted
            raise
        self._transaction_ended(None)

    @contextlib.contextmanager
    def aborting(self) -> Iterator[None]:
        """Abort the transaction inside this block."""
        confirmed = False
        try:
            yield
            confirmed = True
        finally:
            self.aborted(confirmed=confirmed)

    def aborted(self, *, confirmed: bool) -> None:
        """Note that it is aborted, or has to be. `confirmed`: the broker has answered. Otherwise a commit that failed
        before may have gone through, and then no seq may be given again."""
        if confirmed or not self._in_doubt:
            self._transaction_ended(ABORTED)
        else:
            why = "its transaction may be committed, or aborted"
            self._transaction_ended(Unacknowledged(SendOutcome.UNKNOWN, why))

    @contained("to end a transaction")
    def _transaction_ended(self, failure: Unacknowledged | None) -> None:
        """End the events of the transaction; where it was aborted, no snapshot may count them as done."""
        assert self.sent is not None
        host, undone = self._driver, failure is not None
        with host.lock:
            self._revoked, self.open, self.unwound = False, False, self.unwound or undone
            if failure is not None and not host.absent:
                # While its events run: a cut that is taken now fails with them (R16).
                aborted = failure.outcome is SendOutcome.ABORTED
                host.feed(InputsRevoked(undone_from=self._kept_ends() if aborted else None))
            self.sent.ended(failure)
            ending, self._deferred = self._deferred, []
            for run in ending:
                self._ended(run, undone=undone)
            for run in self._running:
                run.undone = undone

    def _kept_ends(self) -> tuple[LogEnd, ...]:
        """Return one past the last event of each input whose effects an abort of the open transaction leaves alone."""
        for run in self._running:
            if run.undone is False:  # a transaction was committed while it ran
                self._keep(run)
        return tuple(
            LogEnd(topic=tp.topic, partition=tp.partition, end=end) for tp, end in self._kept.items()
        )


def place_of(message: Any) -> tuple[TopicPartition, int]:
    """Return the partition and offset of a message of either client library."""
    if callable(message.topic):
        return TopicPartition(message.topic(), message.partition()), message.offset()
    return TopicPartition(message.topic, message.partition), message.offset
