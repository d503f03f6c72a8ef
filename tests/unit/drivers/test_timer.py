"""`install(app, every=...)`: when a snapshot is due, and what it is called."""

from __future__ import annotations

from typing import Any

import pytest

from snapkafka.drivers.faust import timer
from snapkafka.drivers.faust.timer import moment_after, moment_id
from snapkafka.protocol import INPUT_MOVED, Abort, Hello, LedgerState, Trigger


def test_all_workers_mean_the_same_moments() -> None:
    assert [moment_after(now, 60.0) for now in (119.9, 120.0, 120.1, 179.9)] == [120, 180, 180, 180]
    assert moment_id(180, 60.0) == "every-60s-19700101T000300"
    assert moment_id(180, 60.0) != moment_id(180, 90.0), "each period counts for itself"
    assert len({moment_id(moment_after(n / 2, 1.5), 1.5) for n in range(0, 30, 3)}) == 10


@pytest.mark.parametrize(("code", "attempts"), [(INPUT_MOVED, 4), ("by-hand", 1)])
async def test_a_snapshot_that_fails_by_something_that_passes_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, code: str, attempts: int
) -> None:
    ledger, tried = LedgerState(), []

    class Host:
        machine = type("Machine", (), {"ledger": ledger})

        async def trigger(self, name: str, *, attempt: int, ttl_ms: int) -> None:
            tried.append(attempt)
            ledger.apply(ledger.end, Trigger(n=10 + attempt, id=name, attempt=attempt, ttl_ms=ttl_ms))
            ledger.apply(ledger.end, Abort(n=20 + attempt, epoch=ledger.end, code=code, reason="it failed"))

    ledger.apply(0, Hello(n=1, app="shop"))
    monkeypatch.setattr(timer, "PAUSE_S", 0.0)
    host: Any = Host()
    await timer._take(host, "s", 5_000)
    assert tried == [*range(1, attempts + 1)]
