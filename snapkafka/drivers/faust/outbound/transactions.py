"""Sends in transactions (`processing_guarantee="exactly_once"`): acknowledged when their transaction is committed.

Faust keeps one transaction open per number of a destination partition, and commits it together with positions of
inputs whenever it commits: on its timer, and before partitions are revoked. We wait for that and commit nothing
ourselves: a commit without positions would turn work that Faust would have undone into a replay. Until then the sends
of a transaction count as in flight, so no cut for which they are white is closed (R7). If a transaction is aborted,
cannot be committed, or is left open by a producer that stops, all its sends have failed; if the outcome of a commit is
unknown, so is that of its sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ...outcomes import Unacknowledged, not_committed

Future = asyncio.Future[Any]
#: What became of a send: its future where it counts, or why it does not.
Settle = Callable[[Future | Unacknowledged], None]


class Transactions:
    """The open transactions of one app's producer.

    Args:
        producer: Faust's; it creates an aiokafka producer per transactional id, and each is patched.
        note: adds metadata to the offsets that are committed.
    """

    def __init__(self, producer: Any, note: Callable[[Any], Any] = lambda offsets: offsets) -> None:
        self._note = note
        self._open: dict[str, list[tuple[Future, Settle]]] = {}  # by transactional id
        self._make: Callable[..., Any] = producer._new_producer
        producer._new_producer = self._made

    def sent(self, transactional_id: str, future: Future, settle: Settle) -> None:
        """Note that a record was appended to an open transaction; to be called in that instant."""
        self._open.setdefault(transactional_id, []).append((future, settle))
        future.add_done_callback(partial(self._sent, transactional_id))

    def on_rebalanced(self, consumer: Any) -> None:
        """Fail the open transactions of partitions that are assigned to others after a rebalance: they are never
        committed, though Faust may keep the producer. The next owner aborts them."""
        ours = consumer.transactions._tps_to_transactional_ids(consumer.assignment())
        for name in self._open.keys() - ours:
            why = "its partition was revoked, and the transaction left open"
            self._ended(name, Unacknowledged(why, refused=True, undone=True))

    def _sent(self, transactional_id: str, future: Future) -> None:
        """Fail the whole transaction of a send that did not get into the log: a fenced producer may never commit
        again."""
        if not future.cancelled() and (error := future.exception()) is not None:
            self._ended(transactional_id, not_committed(error))

    def _made(self, transactional_id: str | None = None) -> Any:
        made = self._make(transactional_id=transactional_id)
        if transactional_id is not None:
            self._watch(transactional_id, made)
        return made

    def _watch(self, name: str, producer: Any) -> None:
        commit, abort, stop = producer.commit_transaction, producer.abort_transaction, producer.stop
        add_positions = producer.send_offsets_to_transaction

        async def with_positions(offsets: Any, group_id: str) -> None:
            """Commit positions as Faust does, and notice a fenced producer."""
            try:
                await add_positions(self._note(offsets), group_id)
            except BaseException as error:
                self._ended(name, not_committed(error))
                raise

        async def committed() -> None:
            await self._end(name, commit, None)

        async def aborted() -> None:
            await self._end(
                name, abort, Unacknowledged("its transaction was aborted", refused=True, undone=True)
            )

        async def stopped() -> None:
            why = "its producer stopped and left the transaction open"
            await self._end(name, stop, Unacknowledged(why, refused=True, undone=True))

        producer.commit_transaction, producer.abort_transaction = committed, aborted
        producer.send_offsets_to_transaction, producer.stop = with_positions, stopped

    async def _end(
        self, name: str, end: Callable[[], Awaitable[None]], failure: Unacknowledged | None
    ) -> None:
        """End a transaction the way Faust wants it; Faust lets nothing into it meanwhile.

        Args:
            failure: why its sends do not count; None: they do, if this succeeds.
        """
        sent = self._open.pop(name, [])
        try:
            await end()
        except BaseException as error:
            failure = failure or not_committed(error)
            raise
        finally:
            _soon(sent, failure)

    def _ended(self, name: str, failure: Unacknowledged) -> None:
        _soon(self._open.pop(name, []), failure)


def _soon(sent: list[tuple[Future, Settle]], failure: Unacknowledged | None) -> None:
    """Settle in a later turn of the loop: a fault of ours must not reach Faust's commit."""
    if sent:
        asyncio.get_running_loop().call_soon(_settle, sent, failure)


def _settle(sent: list[tuple[Future, Settle]], failure: Unacknowledged | None) -> None:
    for future, settle in sent:
        if failure is not None:
            settle(failure)
        elif future.done():
            settle(future)
        else:  # not seen: a producer commits after all that it sent is acknowledged
            future.add_done_callback(settle)
