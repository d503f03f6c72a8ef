"""What is decided leaves no memory behind."""

from __future__ import annotations

from snapkafka.protocol.records import Abort

from .world import A, Process, World, settle


def test_an_aborted_snapshot_leaves_no_memory_behind(world: World, pair: tuple[Process, Process]) -> None:
    p, q = pair
    p.start(A, 0)
    for k in range(50):
        epoch = world.trigger(str(k))
        settle(p, q)
        world.append(Abort(n=10_000 + k, epoch=epoch, code="x", reason="y"))
        settle(p, q)
    assert not p.machine.cuts
    assert not q.machine.cuts
    assert len(p.machine.colours._tallies) <= 2
