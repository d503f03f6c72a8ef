"""Sends in transactions (`processing_guarantee="exactly_once"`): acknowledged when their transaction is committed.

Faust keeps one transaction open per number of a destination partition, and commits it together with positions of
inputs whenever it commits: on its timer, and before partitions are revoked. We wait for that and commit nothing
ourselves: a commit without positions would turn work that Faust would have undone into a replay. Until then the sends
of a transaction count as in flight, so no cut for which they are white is closed (R7). If a transaction is aborted,
cannot be committed, or is left open by a producer that stops, all its sends have failed; if the outcome of a commit is
unknown, so is that of its sends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from snapkafka.protocol.hot_path import SendOutcome

from ...outcomes import Unacknowledged, not_committed
from ...sends import Sends, Transaction


class Transactions:
    """The open transactions of one app's producer, which has one of aiokafka's per transactional id.

    Args:
        note: adds metadata to the offsets that are committed.
    """

    def __init__(self, sends: Sends, note: Callable[[Any], Any] = lambda offsets: offsets) -> None:
        self._sends, self._note = sends, note
        self._open: dict[str, Transaction] = {}  # by transactional id

    def on_rebalanced(self, consumer: Any) -> None:
        """Fail the open transactions of partitions that are assigned to others after a rebalance: they are never
        committed, though Faust may keep the producer. The next owner aborts them."""
        ours = consumer.transactions._tps_to_transactional_ids(consumer.assignment())
        for name in self._open.keys() - ours:
            self._open[name].ended(_undone("its partition was revoked, and the transaction left open"))

    def watch(self, name: str, producer: Any) -> Transaction:
        """Return what holds the sends of a producer, and end that with each of its transactions."""
        sent = self._open[name] = Transaction(self._sends)
        commit, abort, stop = producer.commit_transaction, producer.abort_transaction, producer.stop
        add_positions = producer.send_offsets_to_transaction

        async def with_positions(offsets: Any, group_id: str) -> None:
            """Commit positions as Faust does, and notice a fenced producer."""
            try:
                await add_positions(self._note(offsets), group_id)
            except BaseException as error:
                self._ended(sent, not_committed(error))
                raise

        async def committed() -> None:
            await self._end(sent, commit, None)

        async def aborted() -> None:
            await self._end(sent, abort, _undone("its transaction was aborted"))

        async def stopped() -> None:
            await self._end(sent, stop, _undone("its producer stopped and left the transaction open"))

        producer.commit_transaction, producer.abort_transaction = committed, aborted
        producer.send_offsets_to_transaction, producer.stop = with_positions, stopped
        return sent

    async def _end(
        self, sent: Transaction, end: Callable[[], Awaitable[None]], failure: Unacknowledged | None
    ) -> None:
        """End a transaction the way Faust wants it; Faust lets nothing into it meanwhile.

        Args:
            failure: why its sends do not count; None: they do, if this succeeds.
        """
        try:
            await end()
        except BaseException as error:
            failure = failure or not_committed(error)
            raise
        finally:
            self._ended(sent, failure)

    def _ended(self, sent: Transaction, failure: Unacknowledged | None) -> None:
        try:
            sent.ended(failure)
        except Exception as error:
            self._sends.stand_down(error)


def _undone(why: str) -> Unacknowledged:
    return Unacknowledged(SendOutcome.ABORTED, why)
