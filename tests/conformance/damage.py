"""Damaged drivers: what a driver must not do, so that the checks can be seen to accuse it."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from typing import Any, Final

from snapkafka.drivers import gate
from snapkafka.kafka import KafkaLedger
from snapkafka.protocol.hot_path import Work
from snapkafka.protocol.records import Trigger

#: So much later than the others a damaged driver reads of a snapshot.
LATE_S: Final = 6.0


def cut_late() -> None:
    """Take in red records while white (R2): headers and markers are not met, and the trigger is read late."""
    decide = gate.decide

    def decided(*arguments: Any) -> gate.Decision:
        return gate.Decision(passes=decide(*arguments).passes)

    gate.decide = decided  # type: ignore[assignment]
    read = KafkaLedger.read

    async def read_late(self: KafkaLedger, *arguments: Any, **more: Any) -> AsyncIterator[Any]:
        async for entry in read(self, *arguments, **more):
            if isinstance(entry.record, Trigger):
                await asyncio.sleep(LATE_S)
            yield entry

    KafkaLedger.read = read_late  # type: ignore[method-assign]


def lose() -> None:
    """Count one record in ten as sent that is not."""
    turns = itertools.cycle([True] + 9 * [False])

    def losing(work: Any) -> Any:
        def stamped(self: Any, event: Any, tp: Any) -> Any:
            if next(turns):
                self.colours.stamp(tp)
            return work(self, event, tp)

        return stamped

    Work.send_at_once = losing(Work.send_at_once)  # type: ignore[method-assign]
    Work.send_stamped = losing(Work.send_stamped)  # type: ignore[method-assign]


DAMAGES: Final = {"cut-late": cut_late, "loses": lose}


def damage() -> None:
    """Damage the driver of this process as the environment says."""
    if name := os.environ.get("CONFORMANCE_DAMAGE"):
        DAMAGES[name]()
