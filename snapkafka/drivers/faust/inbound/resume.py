"""After a rebalance the inputs go on when they have been sought and the streams' queues are emptied, and not before.

Faust resumes them, then asks for the committed positions, seeks, and then empties the queues of its streams and lets
the flow go on. Where tables were recovered the flow is on meanwhile: what was fetched before the seek is handed out,
and after it is handed out again, or taken for done though nobody has run it; what is fetched behind the seek is handed
out, and thrown away with what else is in the queues. That happens if a fetch of Faust's, of a second each, ends in
between. Our announcement (R9), for which Faust waits just before, moves that moment, and where Faust alone had been
lucky it was not with us. So we make sure that there is no such moment.

Nor may a fetch that is under way take records of the inputs meanwhile: Faust would throw them away, and does not come
back to them where nothing is committed. It takes them where no partition is active at all, for to aiokafka that means
all (robinhood/faust#69).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Resuming"]


StandDown = Callable[[str, Exception], None]


class OnlyThese:
    """These partitions and no other, also where there are none."""

    def __init__(self, tps: set[Any]) -> None:
        self._tps = tps

    def __contains__(self, tp: Any) -> bool:
        return tp in self._tps


class Resuming:
    """The end of a rebalance.

    Args:
        consumer: Faust's; four of its methods are led through here.
        stand_down: is called with a fault of ours.
    """

    def __init__(self, consumer: Any, stand_down: StandDown = lambda what, error: None) -> None:
        self._consumer, self._stand_down = consumer, stand_down
        self._resume, self._seek = consumer.resume_partitions, consumer.perform_seek
        self._resume_flow, self._fetch = consumer.resume_flow, consumer._getmany
        self._announced = False
        self._waiting: set[Any] = set()
        consumer.resume_partitions, consumer.perform_seek = self.resume, self.seek
        consumer.resume_flow, consumer._getmany = self.resume_flow, self.fetch

    def announced(self) -> None:
        """Resume the inputs that we have made Faust wait with; then it seeks and resumes the flow."""
        self._announced = True

    def on_revoked(self) -> None:
        """It does not come to that: the next rebalance has begun."""
        self._announced = False
        self._waiting = set()

    def resume(self, tps: Iterable[Any]) -> None:
        """`Consumer.resume_partitions`."""
        inputs = set(tps)
        try:
            if self._announced and not any(map(self._consumer._is_changelog_tp, inputs)):
                self._announced, self._waiting = False, inputs
                return
        except Exception as error:
            self._stand_down("to hold the inputs until they are sought", error)
        self._resume(inputs)

    async def seek(self) -> None:
        """`Consumer.perform_seek`. If it fails Faust does not come to the flow, and the inputs go on all the same."""
        try:
            await self._seek()
        except BaseException:
            self._go_on()
            raise

    def resume_flow(self) -> None:
        """`Consumer.resume_flow`: by now the queues are emptied."""
        self._resume_flow()
        self._go_on()

    async def fetch(self, active_partitions: set[Any] | None, **more: Any) -> Any:
        """`Consumer._getmany`. All that is active may change while it waits."""
        only: Any = active_partitions
        try:
            only = None if active_partitions is None else OnlyThese(active_partitions)
        except Exception as error:
            self._stand_down("to fetch from the active partitions alone", error)
        return await self._fetch(active_partitions=only, **more)

    def _go_on(self) -> None:
        waiting = self._waiting
        try:
            self._waiting = set()
        except Exception as error:
            self._stand_down("to let the inputs go", error)
        if waiting:
            self._resume(waiting)
