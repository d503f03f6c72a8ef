"""Replies to `agent.ask`, `join` and `map`: whose event takes one in, and in which colour (R6).

The event that asks is known where it registers its promise with Faust's reply consumer; the colour of a reply, where it
comes in. Both meet when the reply consumer takes the reply out of its queue, just before it fulfils the promise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from snapkafka.protocol.colours import Cause

if TYPE_CHECKING:
    from ..host import Host
    from .running_events import Events

__all__ = ["Replies"]


class Replies:
    """Hold who asked, and what was answered.

    Args:
        host: its machine is informed.
        events: which one asks.
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
        """Lead the registration of promises through here.

        Args:
            consumer: Faust's reply consumer.
        """
        self._consumer, self._add = consumer, consumer.add
        consumer.add = self.add

    @property
    def topics(self) -> set[str]:
        """Where this worker reads replies."""
        return set(self._consumer._fetchers) if self._consumer is not None else set()

    async def add(self, correlation_id: str, promise: Any) -> None:
        """`ReplyConsumer.add`: a question was asked here and now."""
        try:
            cause = self._events.cause()
            if cause is not None:
                self._asked[promise] = cause
        except Exception as error:
            self._host.stand_down("to note who asks", error)
        await self._add(correlation_id, promise)

    def met(self, tp: Any, offset: int, epoch: int) -> None:
        """A reply came in; no event can be torn by it unless one was running in an earlier colour by then."""
        if self._host.machine.colours.tearing:
            self._colours[tp, offset] = epoch

    def taken_in(self, tp: Any, offset: int, reply: Any) -> None:
        """A reply is about to fulfil its promises."""
        epoch = self._colours.pop((tp, offset), 0) if self._colours else 0
        if not epoch:
            return
        for promise in list(self._consumer._waiting.get(reply.correlation_id, ())):
            cause = self._asked.get(promise)
            if cause is not None:
                self._host.do(self._host.machine.reply_taken(cause, epoch))

    def on_revoked(self) -> None:
        """A rebalance empties the queues."""
        self.forget_epochs()

    def forget_epochs(self) -> None:
        """Epochs of another ledger stand for nothing in this one."""
        self._colours.clear()
