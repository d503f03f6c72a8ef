"""Every interleaving of small worlds: no violation, no state lost, every mutant caught; and the search itself."""

from __future__ import annotations

import json
from collections.abc import Hashable

import pytest

from tests.sim.explore.choices import ExploredWorld
from tests.sim.explore.lens import SmallWorld, choices
from tests.sim.explore.search import explore, main, replay
from tests.sim.explore.small import SMALL, TINY, by_name
from tests.sim.explore.state import Names
from tests.sim.mutants.search import catch
from tests.sim.mutants.table import CAUSAL, MUTANTS, Mutant

#: These take longest; `make prove` explores them.
LONG = (
    *("moves", "born", "small", "partitions-move", "tiny-channel"),
    *("cut", "left", "red-input", "global"),
)


@pytest.mark.parametrize(
    "small",
    [
        pytest.param(small, id=small.name, marks=[pytest.mark.nightly] if small.name in LONG else [])
        for small in SMALL
    ],
)
def test_no_interleaving_breaks_a_snapshot(small: SmallWorld) -> None:
    """All of them; and no fewer states than when the world was made, or something is not tried any more."""
    found = explore(small)
    print(
        f"{small.name}: {found.states} distinct states, {found.transitions} transitions, {dict(found.endings())}"
    )
    assert not found.violations, str(found.violations[0])
    assert found.whole
    assert found.states >= small.states > 0


@pytest.mark.parametrize(
    "small",
    [
        pytest.param(small, id=small.name, marks=[pytest.mark.nightly] if small.name in LONG else [])
        for small in TINY
    ],
)
def test_hashing_and_leaving_orders_out_lose_no_outcome(small: SmallWorld) -> None:
    """The same outcomes, with all that the snapshots hold, whether or not states are recognised and orders left out."""
    every_run = explore(small, hashing=False, reduced=False)
    assert every_run.whole and not every_run.violations
    for hashing, reduced in ((True, True), (True, False), (False, True)):
        found = explore(small, hashing=hashing, reduced=reduced)
        assert found.outcomes.keys() == every_run.outcomes.keys(), (hashing, reduced)
    assert len(every_run.outcomes) > 1
    assert explore(small).states < every_run.states / 2


@pytest.mark.parametrize("name", ["torn", "reply", "closing", "transactions"])
def test_leaving_orders_out_loses_no_outcome(name: str) -> None:
    small = _world(name)
    assert explore(small).outcomes.keys() == explore(small, reduced=False).outcomes.keys()


@pytest.mark.parametrize(
    ("name", "endings"),
    [
        ("tiny-transactions", {"s0 VERIFIED", "s0 open"}),  # committed; aborted, for who has it open is gone
        # Aborted by its heir, and the zombie is told; or the input moves under the snapshot.
        ("tiny-fenced", {"s0 VERIFIED", "s0 send-failed", "s0 input-moved"}),
    ],
)
def test_what_becomes_of_a_transaction_is_explored(name: str, endings: set[str]) -> None:
    assert explore(_world(name)).endings().keys() == endings


def test_in_a_world_that_changes_in_the_middle_of_an_event_no_step_is_taken_for_granted() -> None:
    """A rebalance while an event runs: who reads it next may have what it wrote in its table, or not."""
    replayed = [
        ends for ends in explore(_world("tiny-move")).outcomes if ends[0][1] == "VERIFIED_WITH_REPLAYS"
    ]
    assert replayed


@pytest.mark.parametrize(
    "mutant", [mutant for mutant in MUTANTS if mutant.small], ids=lambda mutant: mutant.name
)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    """By the causal checker; and the same run of the protocol as it is breaks nothing."""
    caught = catch(mutant)
    assert caught is not None, f"{mutant.name}: {mutant.what}"
    small, reported = caught
    with mutant.patch():
        _, wrong = replay(small, reported)
    assert {violation.rule for violation in wrong} & CAUSAL
    if mutant.path:
        assert replay(small, reported)[1] == []


def test_a_world_is_left_as_it_is_by_what_comes_after_it() -> None:
    """Whatever is shared between worlds, no step in one of them is seen in another."""
    small = _world("small")
    world = small.root()
    for _ in range(60):
        options = choices(world, small)
        if not options:
            break
        before = _key(world)
        following = [world.after(choice) for choice in options]
        assert _key(world) == before
        world = following[len(world.broker.ledger) % len(following)]


def test_a_violation_comes_with_the_choices_that_lead_there(capsys: pytest.CaptureFixture[str]) -> None:
    mutant = next(m for m in MUTANTS if m.name == "R6 torn")
    with mutant.patch():
        assert main(["--world", "torn", "--json"]) == 1
        data = json.loads(capsys.readouterr().out)
        reported = data["violations"][0]
        assert data["states"] == data["worlds"]["torn"]["states"] > 0
        assert main(["--world", "torn", "--replay", "; ".join(reported["choices"])]) == 1
    assert f"VIOLATION {reported['rule']}: {reported['what']}" in capsys.readouterr().out
    assert main(["--world", "torn", "--replay", "; ".join(reported["choices"])]) == 0, "it is the mutant's"


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--world", "torn"]) == 0
    said = capsys.readouterr().out
    assert (
        "distinct states" in said and "transitions" in said and "outcomes" in said and "no violations" in said
    )


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--world", "nowhere"], "there is no world 'nowhere'"),
        (["--replay", "trigger"], "--replay needs --world"),
        (["--world", "torn", "--replay", "p7 fetch"], "the choice is one of"),
        (["--wrld"], "unrecognized arguments"),
    ],
)
def test_a_bad_argument_is_one_line_and_status_2(
    arguments: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as status:
        main(arguments)
    assert status.value.code == 2
    assert what in capsys.readouterr().err


def _world(name: str) -> SmallWorld:
    small = by_name(name)
    assert small is not None
    return small


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
