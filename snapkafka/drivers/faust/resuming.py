"""After a rebalance the inputs go on when they have been sought, and not before.

Faust resumes them, then asks for the committed positions, and then seeks. Where tables were recovered the flow is on
meanwhile: what was fetched by then is handed out, and after the seek it is handed out again, or taken for done though
nobody has run it. That happens if a fetch of Faust's, of a second each, ends in between. Our announcement (R9), for
which Faust waits just before, moves that moment, and where Faust alone had been lucky it was not with us. So we make
sure that there is no such moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["Resuming"]


class Resuming:
    """The end of a rebalance.

    Args:
        consumer: Faust's; two of its methods are led through here.
    """

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._resume, self._seek = consumer.resume_partitions, consumer.perform_seek
        self._announced = False
        self._waiting: set[Any] = set()
        consumer.resume_partitions, consumer.perform_seek = self.resume, self.seek

    def announced(self) -> None:
        """What Faust resumes next are the inputs that we have made it wait with, and then it seeks."""
        self._announced = True

    def taken_away(self) -> None:
        """It does not come to that: the next rebalance has begun."""
        self._announced = False
        self._waiting = set()

    def resume(self, tps: Iterable[Any]) -> None:
        """`Consumer.resume_partitions`."""
        inputs = set(tps)
        if self._announced and not any(map(self._consumer._is_changelog_tp, inputs)):
            self._announced, self._waiting = False, inputs
        else:
            self._resume(inputs)

    async def seek(self) -> None:
        """`Consumer.perform_seek`; whatever becomes of it, the inputs go on."""
        try:
            await self._seek()
        finally:
            waiting, self._waiting = self._waiting, set()
            if waiting:
                self._resume(waiting)
