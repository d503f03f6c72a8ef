"""Replies to `agent.ask`, `join` and `map`: which event takes a reply in, and its colour (R6).

The asking event is known when it registers its promise with Faust's reply consumer, and the colour of a reply when it
arrives. Both meet when the reply consumer takes the reply out of its queue, just before it fulfils the promise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from snapkafka.protocol.colours import Cause

if TYPE_CHECKING:
    from ..host import Host
    from .running_events import Events


class Replies:
    """Open questions with the events that asked them, and the replies that arrived.

    Args:
        host: whose machine is fed.
        events: the source of the asking event.
    """

    def __init__(self, host: Host, events: Events) -> None:
        self._host, self._events = host, events
        self._asked: WeakKeyDictionary[Any, Cause] = WeakKeyDictionary()  # by promise, or barrier of several
        self._colours: dict[
            tuple[Any, int], int
        ] = {}  # of replies in the queue, while an event could be torn
        self._consumer: Any = None
        self._add: Callable[..., Awaitable[None]]

    def attach(self, consumer: Any) -> None:
        """Patch the registration of promises.

        Args:
            consumer: Faust's reply consumer.
        """
        self._consumer, self._add = consumer, consumer.add
        consumer.add = self.add

    @property
    def topics(self) -> set[str]:
        """The topics from which this worker reads replies."""
        return set(self._consumer._fetchers) if self._consumer is not None else set()

    async def add(self, correlation_id: str, promise: Any) -> None:
        """Replace `ReplyConsumer.add`: note a question that is asked here and now."""
        try:
            cause = self._events.cause()
            if cause is not None:
                self._asked[promise] = cause
        except Exception as error:
            self._host.stand_down("to record who asks", error)
        await self._add(correlation_id, promise)

    def met(self, tp: Any, offset: int, epoch: int) -> None:
        """Note a reply that arrived; it can tear an event only if one was running in an earlier colour at that
        moment."""
        if self._host.machine.colours.tearing:
            self._colours[tp, offset] = epoch

    def taken_in(self, tp: Any, offset: int, reply: Any) -> None:
        """Note that a reply is about to fulfil its promises."""
        epoch = self._colours.pop((tp, offset), 0) if self._colours else 0
        if not epoch:
            return
        for promise in list(self._consumer._waiting.get(reply.correlation_id, ())):
            cause = self._asked.get(promise)
            if cause is not None:
                self._host.do(self._host.machine.reply_taken(cause, epoch))

    def on_revoked(self) -> None:
        """Forget what waits: a rebalance empties the queues."""
        self.forget_epochs()

    def forget_epochs(self) -> None:
        """Forget the epochs: they belong to another ledger."""
        self._colours.clear()
