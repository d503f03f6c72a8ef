"""Each driver alone, and in mixed systems: a snapshot is VERIFIED, and not a coin is missing or made."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from snapkafka.testing import Broker
from tests.conformance.running import Running, money_of, running
from tests.conformance.scenarios import MONEY

pytestmark = pytest.mark.timeout(300)


def conserved(run: Running, snapshots: int = 3) -> Counter[str]:
    """Take snapshots under load; return how many rows there were, by what they are."""
    rows: Counter[str] = Counter()
    for _ in range(snapshots):
        run.await_ticks(100)
        taken = run.snapshot()
        found = taken.assert_consistent()
        assert found.verdict == "VERIFIED"
        money = money_of(run, taken)
        assert sum(coins for *_, coins in money) == 0, money
        rows.update(f"{what} {name}" for what, name, *_ in money)
        sql = f"SELECT DISTINCT cause_topic FROM around WHERE topic = '{run.names.coins}'"
        assert taken.query(sql) == [{"cause_topic": run.names.ticks}], (
            "what is sent names the event that sent it"
        )
    return rows


@pytest.mark.parametrize(("spender", "keeper"), MONEY.cases())
def test_money_is_conserved(kafka: Broker, namespace: str, tmp_path: Path, spender: str, keeper: str) -> None:
    with running(kafka, namespace, tmp_path) as run:
        run.start(spender, "spender")
        run.start(keeper, "keeper")
        run.await_ready()
        rows = conserved(run)
    assert rows["state cash"] and rows["state purses"], rows
