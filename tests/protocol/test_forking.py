"""What belongs to a fork, and what its ledger states of it (docs/guide/fork.md)."""

from __future__ import annotations

import pytest

from snapkafka.protocol import (
    Fork,
    ForkTopic,
    LedgerRecord,
    LedgerState,
    Pause,
    fork_problem,
    prefixed,
    take_checkpoint,
)
from snapkafka.protocol.forking import ForkView, fork_of, of_fork

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


BEGUN = Fork(n=1, plan="p", stage="begun", fork="a", topics=(ForkTopic(topic="x"), ForkTopic(topic="y")))


def created(number: int, plan: str = "p", of: int = 2) -> Fork:
    found = ForkTopic(topic="xy"[number], topic_id=f"{number}" * 32, partitions=2)
    return Fork(n=10 + number, plan=plan, stage="created", topics=(found,), part=number, parts=of)


def test_a_fork_is_created_when_every_part_is_there() -> None:
    view = ForkView(BEGUN)
    there = []
    for record in (BEGUN, created(0), created(0), created(1, plan="another")):
        view.apply(record)
        there.append(view.created)
    assert view.topics() == (created(0).topics[0], ForkTopic(topic="y"))
    view.apply(created(1))
    assert [*there, view.created] == [False, False, False, False, True]
    assert view.topics() == (created(0).topics[0], created(1).topics[0])


def test_a_checkpoint_keeps_what_a_removal_goes_by() -> None:
    ledger: list[LedgerRecord] = [BEGUN, created(0), Pause(n=5, paused=True), created(1)]
    fresh = LedgerState(start=4)
    for offset, chunk in enumerate(take_checkpoint(enumerate(ledger), first_n=100), 4):
        fresh.apply(offset, chunk)
    assert fresh.fork is not None
    assert fresh.fork.created
    assert fresh.fork.begun == BEGUN
