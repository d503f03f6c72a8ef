"""What belongs to a fork, and what its ledger states of it (docs/guide/fork.md)."""

from __future__ import annotations

import pytest

from snapkafka.protocol import (
    Fork,
    LedgerRecord,
    LedgerState,
    Pause,
    fork_problem,
    prefixed,
    take_checkpoint,
)
from snapkafka.protocol.forking import fork_of, of_fork

P = "fork.staging."


@pytest.mark.parametrize("name", ["orders", f"{P}orders", f"by-{P}orders-key-repartition"])
def test_a_name_is_translated_once(name: str) -> None:
    found = prefixed("staging", name)
    assert found.startswith(P)
    assert found.count(P) == 1
    assert prefixed("staging", found) == found


def test_no_fork_has_the_names_of_another() -> None:
    assert not of_fork("a", prefixed("a-b", "orders"))
    assert of_fork("a", "_snapkafka.fork.a.shop")
    assert not of_fork("a", "_snapkafka.shop")
    names = ["_snapkafka.fork.a-b.shop", "fork.a.x", "orders", "fork.", "a.b"]
    assert [fork_of(name) for name in names] == ["a-b", "a", "", "", ""]
    assert [bool(fork_problem(name)) for name in ("a-1", "", "a.b", "a_b", "x" * 41)] == [False, *[True] * 4]


def test_a_checkpoint_keeps_whose_fork_a_ledger_is_of() -> None:
    begun = Fork(n=1, plan="p", fork="a")
    ledger: list[LedgerRecord] = [begun, Fork(n=2, plan="q", fork="b"), Pause(n=5, paused=True)]
    fresh = LedgerState(start=3)
    for offset, chunk in enumerate(take_checkpoint(enumerate(ledger), first_n=100), 3):
        fresh.apply(offset, chunk)
    assert fresh.fork == begun
