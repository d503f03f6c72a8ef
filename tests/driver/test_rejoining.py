"""A ledger that is made anew under a running driver: what is written to it, and when. No Faust, no broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from snapkafka.config import Config
from snapkafka.drivers.faust.driver import FaustDriver
from snapkafka.kafka.reader import LedgerRecreatedError
from snapkafka.protocol.records import Bye, Hello, LedgerRecord
from tests.fakes import FakeAdmin, FakeEntry, FakeLedger
from tests.kafka.waiting import until


class Remade(FakeLedger):
    """A ledger that is deleted when told so, and whose successor opens when it may."""

    ledger_id = 7

    def __init__(self) -> None:
        super().__init__()
        self.deleted = False
        self.may_open = asyncio.Event()
        self.may_write = asyncio.Event()

    async def open(self, *, create: bool = True) -> None:
        await self.may_open.wait()

    async def append(self, record: LedgerRecord) -> int:
        await self.may_write.wait()
        return self.put(record)

    async def read(self, start: int = 0, *, until: int | None = None) -> AsyncIterator[FakeEntry]:
        async for entry in super().read(start, until=until):
            yield entry
            if self.deleted:
                self.deleted = False
                self.entries.clear()
                raise LedgerRecreatedError(self.topic)

    def written(self) -> list[LedgerRecord | None]:
        return [entry.record for entry in self.entries]


async def test_a_new_ledger_gets_nothing_before_it_is_open_and_nothing_that_was_meant_for_the_old_one() -> (
    None
):
    """In the new ledger an old process id is somebody else's. And what is written to a topic before `open` has looked
    at it, which the broker may have made with settings that are for no one, is in the way of setting these right."""
    driver: Any = FaustDriver(app=None, config=Config(namespace="n"))
    ledger = Remade()
    ledger.may_open.set()
    ledger.may_write.set()
    await driver.start(ledger, FakeAdmin())
    await driver.join(Hello(n=0, app="shop", host="box", pid=7))
    assert driver.machine.process == 0

    ledger.may_open.clear()
    ledger.may_write.clear()
    driver.append(Bye(process=0, n=1))  # is being written when the ledger vanishes
    driver.append(Bye(process=0, n=2))
    ledger.deleted = True
    ledger.put(None)
    await until(lambda: driver.machine.process is None)
    ledger.may_write.set()
    await until(lambda: bool(ledger.entries))
    await asyncio.sleep(0.05)
    assert ledger.written() == [Bye(process=0, n=1)], "what nobody can call back, and no more"

    ledger.may_open.set()
    await until(lambda: driver.machine.process is not None)
    assert [type(record) for record in ledger.written()] == [Bye, Hello]
    await driver.stop()
