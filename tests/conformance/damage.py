"""Damaged drivers: what a driver must not do, so that the checks can be seen to accuse it."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from typing import Any, Final

from snapkafka.drivers.plain import conductor
from snapkafka.drivers.plain.driver import PlainDriver
from snapkafka.kafka.ledger.kafka_ledger import KafkaLedger
from snapkafka.protocol.records import Trigger

#: So much later than the others a damaged driver reads of a snapshot.
LATE_S: Final = 1.5


def cut_late() -> None:
    """Take in red records while white (R2): headers and markers are not met, and the trigger is read late."""
    ask = conductor.IncomingRecords._ask

    def asked(*arguments: Any) -> conductor.Gate:
        return conductor.Gate(passes=ask(*arguments).passes)

    conductor.IncomingRecords._ask = asked  # type: ignore[method-assign, assignment]
    read = KafkaLedger.read

    async def read_late(self: KafkaLedger, *arguments: Any, **more: Any) -> AsyncIterator[Any]:
        async for entry in read(self, *arguments, **more):
            if isinstance(entry.record, Trigger):
                await asyncio.sleep(LATE_S)
            yield entry

    KafkaLedger.read = read_late  # type: ignore[method-assign]


def unstamped() -> None:
    """Send every second record without a stamp."""
    sound = vars(PlainDriver)["stamping"].fget
    turns = itertools.cycle((True, False))
    PlainDriver.stamping = property(lambda driver: sound(driver) and next(turns))  # type: ignore[assignment]


DAMAGES: Final = {"cut-late": cut_late, "unstamped": unstamped}


def damage() -> None:
    """Damage the driver of this process as the environment says."""
    if name := os.environ.get("CONFORMANCE_DAMAGE"):
        DAMAGES[name]()
