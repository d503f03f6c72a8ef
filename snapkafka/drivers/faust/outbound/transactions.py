"""Sends in transactions (`processing_guarantee="exactly_once"`): acknowledged when their transaction is committed.

Faust keeps one transaction open per number of a destination partition, and commits it together with positions of
inputs whenever it commits: on its timer, and before partitions are revoked. We wait for that and commit nothing
ourselves: a commit without positions would turn work that Faust would have undone into a replay. Until then the sends
of a transaction count as in flight, so no cut for which they are white is reported (R7). If a transaction is aborted,
cannot be committed, or is left open by a producer that stops, all its sends have failed; if the outcome of a commit is
unknown, so is that of its sends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from snapkafka.protocol.hot_path import SendOutcome

from ...sends import RECORDING, Transaction, Unacknowledged, not_committed

if TYPE_CHECKING:
    from ..driver import FaustDriver


class Transactions:
    """The open transactions of one app's producer, which has one of aiokafka's per transactional id."""

    def __init__(self, driver: FaustDriver) -> None:
        self._driver = driver
        self._open: dict[str, Transaction] = {}  # by transactional id

    def on_rebalanced(self, consumer: Any) -> None:
        """Fail the open transactions of partitions that are assigned to others after a rebalance: they are never
        committed, though Faust may keep the producer. The next owner aborts them."""
        ours = consumer.transactions._tps_to_transactional_ids(consumer.assignment())
        for name in self._open.keys() - ours:
            self._open[name].ended(_undone("its partition was revoked, and the transaction left open"))

    def watch(self, name: str, producer: Any) -> Transaction:
        """Return what holds the sends of a producer, and end that with each of its transactions."""
        sent = self._open[name] = Transaction(self._driver.sends)
        add_positions = self._ending(sent, producer.send_offsets_to_transaction, None, goes_on=True)

        async def with_positions(offsets: Any, group_id: str) -> None:
            """Commit positions as Faust does."""
            noted = self._driver.note("to keep metadata", self._driver.restored.commit_note, offsets)
            await add_positions(offsets if noted is None else noted, group_id)

        producer.commit_transaction = self._ending(sent, producer.commit_transaction, None)
        aborted = _undone("its transaction was aborted")
        producer.abort_transaction = self._ending(sent, producer.abort_transaction, aborted)
        left_open = _undone("its producer stopped and left the transaction open")
        producer.stop = self._ending(sent, producer.stop, left_open)
        producer.send_offsets_to_transaction = with_positions
        return sent

    def _ending(
        self,
        sent: Transaction,
        end: Callable[..., Awaitable[None]],
        failure: Unacknowledged | None,
        *,
        goes_on: bool = False,
    ) -> Callable[..., Awaitable[None]]:
        """Return what ends a transaction the way Faust wants it; Faust lets nothing into it meanwhile. `failure`: why
        its sends do not count; None: they do, if this succeeds. `goes_on`: it ends only if this fails."""

        async def ended(*args: Any) -> None:
            raised = None
            try:
                await end(*args)
            except BaseException as error:
                raised = error
                raise
            finally:
                try:
                    if raised is not None or not goes_on:
                        sent.ended(failure or (None if raised is None else not_committed(raised)))
                except Exception as error:
                    self._driver.stand_down(RECORDING, error)

        return ended


def _undone(why: str) -> Unacknowledged:
    return Unacknowledged(SendOutcome.ABORTED, why)
