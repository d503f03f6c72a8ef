"""The judge of the simulator sees what a snapshot lacks, too."""

from __future__ import annotations

from dataclasses import replace

from snapkafka.checks import CutView
from snapkafka.sim import World, played
from snapkafka.sim.judge import Violation, causal
from snapkafka.sim.runs import truth_of


def judged(world: World, view: CutView) -> list[Violation]:
    return causal(truth_of(world, view, replays=True))


def test_a_snapshot_without_an_input_that_was_read_is_seen() -> None:
    """R11: Captured: every expected input cut. One that nobody expected would be missed by nobody else."""
    missed = 0
    for seed in range(20):
        world, _ = played(seed)
        for epoch, snapshot in world.fold.snapshots.items():
            if snapshot.captured_at is None:
                continue
            captured = world.fold.captured(epoch)
            assert judged(world, CutView(captured)) == []
            for lost in captured.inputs:
                less = CutView(replace(captured, inputs=tuple(i for i in captured.inputs if i is not lost)))
                missed += any("and its input is not" in violation.what for violation in judged(world, less))
    assert missed > 20, "the inputs that had been read are missed"
