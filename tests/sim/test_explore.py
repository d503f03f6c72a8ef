"""Every interleaving of small worlds: no violation, no state lost, every mutant caught; and the search itself."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Iterable
from typing import Any

import pytest

from tests.sim.__main__ import main
from tests.sim.explore.choices import ExploredWorld
from tests.sim.explore.search import explore, replay
from tests.sim.explore.small import SMALL, TINY, WORLDS
from tests.sim.explore.state import Names
from tests.sim.mutants.search import catch
from tests.sim.mutants.table import CAUSAL, MUTANTS, Mutant

#: These take longest; `make prove` explores them.
LONG = {
    *("moves", "born", "small", "partitions-move", "tiny-channel"),
    *("cut", "left", "red-input", "global"),
}


def each(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.nightly] if name in LONG else []) for name in names]


@pytest.mark.parametrize("name", each(SMALL))
def test_no_interleaving_breaks_a_snapshot(name: str) -> None:
    """All of them; and no fewer states than when the world was made, or something is not tried any more."""
    found = explore(WORLDS[name])
    print(f"{found.states} distinct states, {found.transitions} transitions, {dict(found.endings())}")
    assert not found.violations, str(found.violations[0])
    assert found.whole
    assert found.states >= WORLDS[name].states > 0


@pytest.mark.parametrize("name", each(TINY))
def test_hashing_and_leaving_orders_out_lose_no_outcome(name: str) -> None:
    """The same outcomes, with all that the snapshots hold, whether or not states are recognised and orders left out."""
    small = WORLDS[name]
    every_run = explore(small, hashing=False, reduced=False)
    assert every_run.whole and not every_run.violations
    for hashing, reduced in ((True, True), (True, False), (False, True)):
        found = explore(small, hashing=hashing, reduced=reduced)
        assert found.outcomes.keys() == every_run.outcomes.keys(), (hashing, reduced)
    assert len(every_run.outcomes) > 1
    assert explore(small).states < every_run.states / 2


@pytest.mark.parametrize("name", ["torn", "reply", "closing", "transactions"])
def test_leaving_orders_out_loses_no_outcome(name: str) -> None:
    assert explore(WORLDS[name]).outcomes.keys() == explore(WORLDS[name], reduced=False).outcomes.keys()


@pytest.mark.parametrize(
    ("name", "endings"),
    [
        ("tiny-transactions", {"s0 VERIFIED", "s0 open"}),  # committed; aborted, for who has it open is gone
        # Aborted by its heir, and the zombie is told; or the input moves under the snapshot.
        ("tiny-fenced", {"s0 VERIFIED", "s0 send-failed", "s0 input-moved"}),
    ],
)
def test_what_becomes_of_a_transaction_is_explored(name: str, endings: set[str]) -> None:
    assert explore(WORLDS[name]).endings().keys() == endings


def test_in_a_world_that_changes_in_the_middle_of_an_event_no_step_is_taken_for_granted() -> None:
    """A rebalance while an event runs: who reads it next may have what it wrote in its table, or not."""
    assert any(ends[0][1] == "VERIFIED_WITH_REPLAYS" for ends in explore(WORLDS["tiny-move"]).outcomes)


@pytest.mark.parametrize(
    "mutant", [mutant for mutant in MUTANTS if mutant.small], ids=lambda mutant: mutant.name
)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    """By the causal checker; and the same run of the protocol as it is breaks nothing."""
    small, reported = WORLDS[mutant.small], catch(mutant)
    assert reported is not None, mutant.what
    with mutant.patch():
        _, wrong = replay(small, reported)
    assert {violation.rule for violation in wrong} & CAUSAL
    if mutant.path:
        assert replay(small, reported)[1] == []


def test_a_world_is_left_as_it_is_by_what_comes_after_it() -> None:
    """Whatever is shared between worlds, no step in one of them is seen in another."""
    small = WORLDS["small"]
    world = small.root()
    for _ in range(60):
        options = small.choices(world)
        if not options:
            break
        before = _key(world)
        following = [world.after(choice) for choice in options]
        assert _key(world) == before
        world = following[len(world.broker.ledger) % len(following)]


def test_a_violation_comes_with_the_choices_that_lead_there(capsys: pytest.CaptureFixture[str]) -> None:
    mutant = next(m for m in MUTANTS if m.name == "R6 torn")
    with mutant.patch():
        assert main(["explore", "--world", "torn"]) == 1
        said = capsys.readouterr().out
        violation, again = said.partition("VIOLATION ")[2].splitlines()[:2]
        arguments = shlex.split(again)[3:]
        assert main(arguments) == 1
    assert f"VIOLATION {violation.partition(':')[0]}:" in capsys.readouterr().out
    assert main(arguments) == 0, "it is the mutant's"


def _key(world: ExploredWorld) -> Hashable:
    """The state of a world, looked at anew, whatever was remembered of it."""
    remembered = world.stage.names
    world.stage.names = world.named.names = Names()
    for process in world.processes:
        process.key = None  # type: ignore[attr-defined]
    try:
        return world.key()
    finally:
        world.stage.names = world.named.names = remembered
        for process in world.processes:
            process.key = None  # type: ignore[attr-defined]
