"""A service whose broker stands still: no connection is closed, and nothing is answered."""

from __future__ import annotations

import asyncio
import re

import pytest

from snapkafka.kafka import Connection, KafkaLedger
from snapkafka.service import LedgerFollower
from snapkafka.service.ledger_follower import SILENT_S
from snapkafka.testing import EmbeddedKafka
from snapkafka.until import until
from tests.freezing import freeze, thaw

pytestmark = pytest.mark.timeout(300)


async def test_a_broker_that_stands_still_is_reported_and_found_again() -> None:
    with EmbeddedKafka() as broker:
        connection = Connection(bootstrap=broker.bootstrap)
        ledger = KafkaLedger(connection, "ns")
        await ledger.open(create=True)
        await ledger.close()
        follower = LedgerFollower(connection, "ns")
        async with follower.following(), asyncio.timeout(240):
            await until(lambda: follower.followed, 30, "the ledger to be followed")

            async def silent() -> bool:
                return not await follower.fresh() and not follower.followed

            freeze(broker)
            try:
                await until(silent, 4 * SILENT_S, "the silence to be noticed")
            finally:
                thaw(broker)
            assert follower.problem is not None
            assert re.search(r"\d\d:\d\d:\d\d UTC", follower.problem.message)
            await until(follower.fresh, 60, "the broker to be found again")
            assert follower.problem is None
