"""The outcomes of sends by plain clients: acknowledged, refused or unknown (R7); in a transaction, once that ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from snapkafka.protocol.colours import Effect
from snapkafka.protocol.records import TopicPartition

from ..outcomes import Unacknowledged, settled

if TYPE_CHECKING:
    from .driver import PlainDriver


@dataclass(slots=True, eq=False)
class Sent:
    """A record that is in flight. `seq`: None: it has no stamp. `held`: by its transaction; `reported`: the client's
    word on it meanwhile: its offset, or why it failed. `over`: nothing more is awaited of it."""

    effect: Effect
    tp: TopicPartition
    seq: int | None
    held: bool = False
    reported: tuple[int, Unacknowledged | None] | None = None
    over: bool = False


class SendOutcomes:
    """The sends of one loop whose outcome is awaited.

    Args:
        host: whose machine is fed.
    """

    def __init__(self, host: PlainDriver) -> None:
        self._host = host
        self._transaction: list[Sent] | None = None

    def began(self) -> None:
        """Hold the outcomes back from now on: a transaction has begun."""
        with self._host.lock:
            self._transaction = []

    def sent(self, sent: Sent) -> None:
        """Note that a record is in flight; to be called under the lock, in the instant in which it was appended."""
        if self._transaction is not None:
            sent.held = True
            self._transaction.append(sent)

    def ended(self, failure: Unacknowledged | None) -> None:
        """Settle what was sent in the transaction. `failure`: why it does not count; None: it does."""
        with self._host.lock:
            held, self._transaction = self._transaction or [], None
            for sent in reversed(held):  # the latest seq first, for those that are given again
                sent.held = False
                if failure is not None:
                    sent.over = True
                    self._settled(sent, -1, failure)
                elif sent.reported is not None:
                    self._settled(sent, *sent.reported)

    def settled(self, sent: Sent, offset: int, failure: Unacknowledged | None) -> None:
        """Take in the outcome of a send. Never raises."""
        try:
            with self._host.lock:
                if sent.held:
                    sent.reported = offset, failure
                elif not sent.over:
                    self._settled(sent, offset, failure)
        except Exception as error:
            self._host.stand_down("to record what became of a send", error)

    def _settled(self, sent: Sent, offset: int, failure: Unacknowledged | None) -> None:
        if self._host.absent:
            return
        machine = self._host.machine
        if failure is not None and failure.undone and sent.seq is not None:
            actions = machine.send_aborted(sent.effect, sent.tp, sent.seq)
        else:
            actions = settled(machine, sent.effect, sent.tp, sent.seq, (offset, failure))
        self._host.do(actions)
