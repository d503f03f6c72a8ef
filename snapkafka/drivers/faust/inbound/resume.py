"""The end of a rebalance: the inputs resume only after they were sought and the streams' queues emptied.

Faust resumes the inputs, asks for the committed positions, seeks, then empties the queues of its streams and resumes
the flow. If tables were recovered, the flow is on meanwhile. Records fetched before the seek are then handed out, and
after the seek handed out again, or taken for done though no agent has run them. Records fetched after the seek are
handed out, and thrown away with the queues. This happens if one of Faust's fetches, of a second each, ends in between.
Our announcement (R9), for which Faust waits just before, shifts that moment and makes it likelier. So we remove the
moment altogether.

Nor may a fetch in flight take records of the inputs meanwhile: Faust would throw them away, and does not read them
again if nothing is committed. A fetch takes them if no partition is active at all, because to aiokafka that means all
partitions (robinhood/faust#69).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

StandDown = Callable[[str, Exception], None]


class ExactPartitions:
    """A set of partitions that means these and no other, also when it is empty."""

    def __init__(self, tps: set[Any]) -> None:
        self._tps = tps

    def __contains__(self, tp: Any) -> bool:
        return tp in self._tps


class InputResumption:
    """The end of a rebalance.

    Args:
        consumer: Faust's; four of its methods are patched.
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
        """Resume the inputs that we have made Faust hold; then it seeks and resumes the flow."""
        self._announced = True

    def on_revoked(self) -> None:
        """Forget the rebalance: the next one has begun."""
        self._announced = False
        self._waiting = set()

    def resume(self, tps: Iterable[Any]) -> None:
        """Replace `Consumer.resume_partitions`."""
        inputs = set(tps)
        try:
            if self._announced and not any(map(self._consumer._is_changelog_tp, inputs)):
                self._announced, self._waiting = False, inputs
                return
        except Exception as error:
            self._stand_down("to hold the inputs until they are positioned", error)
        self._resume(inputs)

    async def seek(self) -> None:
        """Replace `Consumer.perform_seek`. If it fails, Faust does not reach the flow, and the inputs resume all the
        same."""
        try:
            await self._seek()
        except BaseException:
            self._go_on()
            raise

    def resume_flow(self) -> None:
        """Replace `Consumer.resume_flow`: by now the queues are emptied."""
        self._resume_flow()
        self._go_on()

    async def fetch(self, active_partitions: set[Any] | None, **more: Any) -> Any:
        """Replace `Consumer._getmany`. The active partitions may change while it waits."""
        only: Any = active_partitions
        try:
            only = None if active_partitions is None else ExactPartitions(active_partitions)
        except Exception as error:
            self._stand_down("to fetch from the active partitions alone", error)
        return await self._fetch(active_partitions=only, **more)

    def _go_on(self) -> None:
        waiting = self._waiting
        try:
            self._waiting = set()
        except Exception as error:
            self._stand_down("to release the inputs", error)
        if waiting:
            self._resume(waiting)
