"""The transactions of a loop: what is sent, and the events that send it, are done once their transaction is committed.

No cut for which they are white closes before (R7). An aborted transaction undoes its events, positions included: the
inputs count as revoked until the loop is rewound to what is committed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from snapkafka.errors import BadInputError
from snapkafka.protocol.events import InputsRevoked
from snapkafka.protocol.hot_path import SendOutcome

from ..outcomes import Unacknowledged
from ..sends import Transaction

if TYPE_CHECKING:
    from .driver import PlainDriver
    from .running_events import Events


class Transactions:
    """The transactions of one producer.

    Args:
        host: whose machine is fed.
        sent: the sends in it.
        fenced: does this error mean that the transaction was aborted?

    Attributes:
        open: one is.
        unwound: the loop is to be rewound before it goes on.
    """

    def __init__(
        self,
        host: PlainDriver,
        *,
        events: Events,
        sent: Transaction,
        fenced: Callable[[BaseException], bool],
    ) -> None:
        self._host, self._events, self._sent, self._fenced = host, events, sent, fenced
        self.unwound = False
        self.open = False
        self._in_doubt = False  # a commit failed, and may have gone through
        self._revoked = False  # inputs were, in this transaction
        events.defers = True

    def began(self) -> None:
        """Note that a transaction has begun."""
        self.open, self._in_doubt, self._revoked = True, False, False
        self._events.transaction_began()

    def revoked(self) -> None:
        """Note that inputs are revoked: another member starts where the group has committed."""
        self.unwound, self._revoked = False, self.open

    def require_kept(self) -> None:
        """Refuse to commit what another member processes as well.

        Raises:
            BadInputError: inputs were revoked in this transaction.
        """
        if self._revoked:
            raise BadInputError(
                "inputs were revoked in this transaction, and another member processes their messages again",
                hint="abort an open transaction in on_revoke",
            )

    @contextlib.contextmanager
    def committing(self) -> Iterator[None]:
        """Commit it inside this block.

        Raises:
            BadInputError: see `require_kept`.
        """
        self.require_kept()
        try:
            yield
        except BaseException as error:
            if self._fenced(error):
                self.aborted(confirmed=False)
            else:  # it stays open: the client says that it is to be aborted
                self._in_doubt = True
            raise
        self._end(None)

    @contextlib.contextmanager
    def aborting(self) -> Iterator[None]:
        """Abort it inside this block."""
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
            self._end(Unacknowledged(SendOutcome.ABORTED, "its transaction was aborted"))
        else:
            self._end(Unacknowledged(SendOutcome.UNKNOWN, "its transaction may be committed, or aborted"))

    def left(self) -> None:
        """Note that the loop has ended: what is open is committed by nobody."""
        if self.open:
            self.aborted(confirmed=False)

    def _end(self, failure: Unacknowledged | None) -> None:
        host, self.open, self._revoked = self._host, False, False
        try:
            with host.lock:
                if failure is not None:
                    self.unwound = True
                    if not host.absent:  # while its events run: a cut that is taken now fails with them (R16)
                        aborted = failure.outcome is SendOutcome.ABORTED
                        host.feed(InputsRevoked(undone_from=self._events.kept() if aborted else None))
                self._sent.ended(failure)
                self._events.transaction_ended(undone=failure is not None)
        except Exception as error:
            host.stand_down("to end a transaction", error)
