"""R15: a worker starts where the ledger begins with a checkpoint, and its host has its turn meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from snapkafka.drivers import ledger_tasks
from snapkafka.protocol import take_checkpoint
from tests.bench.ledgers import records
from tests.unit.drivers.test_ledger_away import Service

RECORDS = 1_500
RECENT = 500
AT_ONCE = 20


async def test_r15_the_host_has_its_turn_while_a_checkpoint_is_folded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All at once, 2,400 records stopped the loop for a tenth of a second."""
    monkeypatch.setattr(ledger_tasks, "FOLD_AT_ONCE", AT_ONCE)
    service = Service()
    ledger = records(RECORDS)
    for record in ledger:
        service.ledger.put(record)
    chunks = take_checkpoint(enumerate(ledger[: RECORDS - RECENT]), first_n=1)
    for chunk in chunks:
        service.ledger.put(chunk)
    await service.ledger.trim(chunks[0].upto)
    turns, restores_read = 0, []

    def restore_read() -> None:
        known = service.driver.machine.ledger
        restores_read.append((known.end, known.whole, known.resuming))

    monkeypatch.setattr(service.driver.ledger_tasks, "_restore_read", restore_read)

    async def host() -> None:
        nonlocal turns
        while True:
            turns += service.driver.machine.ledger.resuming
            await asyncio.sleep(0)

    running = asyncio.ensure_future(host())
    await service.join()
    running.cancel()
    assert service.driver.participating
    assert turns >= (RECENT + sum(len(chunk.kept) for chunk in chunks)) // AT_ONCE
    assert (RECORDS + len(chunks), True, False) in restores_read, "they are known when all of it is folded"
    assert not any(resuming for _, _, resuming in restores_read)
    assert {view.hello.app for view in service.driver.machine.ledger.living()} == {
        "orders",
        "payments",
        "shop",
    }
    await service.driver.stop()
