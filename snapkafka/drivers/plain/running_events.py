"""The running events of a loop: a record is one from when it is handed out until its `event` block ends.

So records start in the order of their partition, whichever thread processes them, and a position in a snapshot has
no gaps. The event that runs in a context causes what is sent there; a thread has a context of its own.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Final

from snapkafka.errors import BadInputError
from snapkafka.protocol.colours import Cause
from snapkafka.protocol.records import TopicPartition

if TYPE_CHECKING:
    from .driver import PlainDriver

#: The one agent of a loop: all of it.
LOOP: Final = "loop"


class Events:
    """The events of one loop.

    Args:
        host: whose machine is fed.
    """

    def __init__(self, host: PlainDriver) -> None:
        self._host = host
        self._cause: ContextVar[Cause | None] = ContextVar("snapkafka_cause", default=None)
        self._unclaimed: Cause | None = None  # handed out, and not in an `event` yet
        self._running: set[Cause] = set()
        self.defers = False  # events end with their transaction
        self._deferred: list[Cause] = []

    def cause(self) -> Cause | None:
        """Return the event that runs here and now."""
        return self._cause.get()

    def run(self) -> bool:
        """Return whether one runs."""
        return bool(self._running)

    def hand_out(self, tp: TopicPartition, offset: int) -> None:
        """Start the event of a record that the loop gets now."""
        cause = Cause(LOOP, tp, offset)
        self._unclaimed = cause
        with self._host.lock:
            self._running.add(cause)
            if not self._host.absent:
                self._host.do(self._host.machine.event_started(cause))

    def require_claimed(self) -> None:
        """Refuse to go on while the last record is in no event.

        Raises:
            BadInputError: it was processed outside of one.
        """
        if (left := self._unclaimed) is not None:
            raise BadInputError(
                f"record {left.tp}@{left.offset} was processed outside of an event",
                hint="process it in `with part.event(message)`; part.skip(message) if there is none",
            )

    def claim(self, tp: TopicPartition, offset: int) -> Cause:
        """Return the event of a record that was handed out.

        Raises:
            BadInputError: it was not, or its event is over.
        """
        cause = Cause(LOOP, tp, offset)
        if cause == self._unclaimed:
            self._unclaimed = None
        elif cause not in self._running:
            raise BadInputError(
                f"record {tp}@{offset} has no running event: poll() did not hand it out, or it is over",
                hint="call part.event(message) once for each message of part.poll()",
            )
        return cause

    def enter(self, cause: Cause) -> Token[Cause | None]:
        """Run an event in this context."""
        return self._cause.set(cause)

    def leave(self, token: Token[Cause | None]) -> None:
        """Go back to what ran before in this context."""
        self._cause.reset(token)

    def end(self, cause: Cause) -> None:
        """End an event: at once, or with its transaction."""
        with self._host.lock:
            self._running.discard(cause)
            if self.defers:
                self._deferred.append(cause)
            else:
                self._ended(cause)

    def transaction_ended(self, *, undone: bool) -> None:
        """End the events of a transaction; where it was aborted, no snapshot may count them as done."""
        host = self._host
        with host.lock:
            ending, self._deferred = self._deferred, []
            for cause in ending:
                if undone and host.stamping:
                    effect = host.machine.send_entered(cause)
                    why = "was undone: its transaction was aborted"
                    host.do(host.machine.send_given_up(effect, why, culprit=str(cause.tp)))
                self._ended(cause)

    def _ended(self, cause: Cause) -> None:
        if not self._host.absent:
            self._host.do(self._host.machine.event_ended(cause))

    def on_revoked(self) -> None:
        """Forget the record that was handed out last: another member of the group gets it."""
        if (left := self._unclaimed) is not None:
            self._unclaimed = None
            self.end(left)


def place_of(message: Any) -> tuple[TopicPartition, int]:
    """Return the partition and offset of a message of either client library."""
    if callable(message.topic):
        return TopicPartition(message.topic(), message.partition()), message.offset()
    return TopicPartition(message.topic, message.partition), message.offset
