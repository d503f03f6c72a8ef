"""The state machines of docs/reference/states.md, observed in the simulator: all of them, and no other transition."""

from __future__ import annotations

from snapkafka.protocol.ledger_state import Status
from snapkafka.protocol.records import Verdict
from snapkafka.sim.run import played
from snapkafka.sim.world.world_plan import make_plan
from tests.reference.states import MACHINES
from tests.sim.mutants.plans import late, losing, without
from tests.sim.transitions import Transitions, watching

#: Worlds as they come, and worlds in which workers run without snapkafka or join late, or the ledger loses its tail.
SEEDS, ODD_SEEDS = 80, 10


def unlisted(seen: Transitions) -> list[tuple[str, str, str, str]]:
    listed = {
        (machine.name, each.before, at, each.after)
        for machine in MACHINES
        for each in machine.transitions
        for at in each.at
    }
    return sorted(seen.keys() - listed)


def test_what_happens_is_what_is_listed() -> None:
    with watching() as seen:
        for seed in range(SEEDS):
            world, _ = played(seed)
        captured = next(e for e, view in world.fold.snapshots.items() if view.status is Status.CAPTURED)
        world.fold.apply(world.fold.end, Verdict(n=1_985, epoch=captured, verdict="VERIFIED"))
        for seed in range(ODD_SEEDS):
            for plan in (without, late, losing):
                played(seed, plan(make_plan(seed)))
    assert unlisted(seen) == []
    taken = {(machine, before, after) for machine, before, _, after in seen}
    listed = {(m.name, each.before, each.after) for m in MACHINES for each in m.transitions}
    assert listed - taken == set(), "listed, and never seen"
    seen["event", "runs", "Bye", "[*]"] += 1
    assert unlisted(seen) == [("event", "runs", "Bye", "[*]")]


def test_every_state_is_described() -> None:
    for machine in MACHINES:
        ends = {state for each in machine.transitions for state in (each.before, each.after)}
        assert ends - {"[*]"} == machine.states.keys(), machine.name
