"""Replies to `agent.ask`, `join` and `map`: which events may take in a red one (R6).

The asking event is known when it registers its promise with Faust's reply consumer. A red reply that arrives tears each
white event that has asked and still runs: one of them takes it in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from snapkafka.protocol.colours import Cause

    from ...host import Host
    from .running_events import Events

#: Events that are over are forgotten when there are so many more than run.
FORGET_AT: Final = 64


class Replies:
    """The events that have asked.

    Args:
        host: whose machine is fed.
        events: the source of the asking event.
    """

    def __init__(self, host: Host, events: Events) -> None:
        self._host, self._events = host, events
        self._asked: dict[Cause, None] = {}
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
                running = self._host.machine.colours.running
                if len(self._asked) > len(running) + FORGET_AT:
                    self._asked = {asked: None for asked in self._asked if asked in running}
                self._asked[cause] = None
        except Exception as error:
            self._host.stand_down("to record who asks", error)
        await self._add(correlation_id, promise)

    def met(self, epoch: int | None) -> None:
        """Note that a reply of this colour arrived; None: without a header of ours."""
        colours = self._host.machine.colours
        if colours.tearing:
            for cause in [asked for asked in self._asked if asked in colours.running]:
                self._host.do(self._host.machine.reply_taken(cause, epoch))
