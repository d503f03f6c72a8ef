"""The methods compared (`studies.compare`): each is real, each is checked, and the known figures come out."""

from __future__ import annotations

from itertools import pairwise

import pytest

from studies.compare.methods import (
    METHODS,
    Alignment,
    Fork,
    Method,
    Observer,
    Offsets,
    Textbook,
)
from studies.compare.outcome import run, run_all
from studies.compare.process import Channel, Message, Process
from studies.compare.workload import Topology, Workload

pytestmark = pytest.mark.nightly

#: Small: a run takes a few hundredths of a second.
SMALL = Workload(nodes=5, rate=60.0, late_s=0.5, state_bytes=32_768, seed=1985)
LAYERS = SMALL.but(topology="layers", nodes=6, late="one")
#: A late channel of the mesh and of the layers.
LATE = 2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("topology", ["layers", "fan-in"])
def test_every_method_conserves_where_there_is_no_cycle(topology: Topology, seed: int) -> None:
    for outcome in run_all(LAYERS.but(topology=topology, seed=seed)):
        assert outcome.holds, (outcome.method, outcome.problems)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("topology", ["mesh", "ring"])
def test_every_method_but_alignment_conserves_on_cycles(topology: Topology, seed: int) -> None:
    for method in METHODS:
        if method is not Alignment:
            outcome = run(SMALL.but(topology=topology, seed=seed), method)
            assert outcome.holds, (outcome.method, outcome.problems)


@pytest.mark.parametrize(("topology", "nodes"), [("ring", 4), ("mesh", 3)])
def test_alignment_on_a_cycle_does_not_end_and_says_who_waits_for_whom(
    topology: Topology, nodes: int
) -> None:
    outcome = run(SMALL.but(topology=topology, nodes=nodes), Alignment)
    assert not outcome.ended
    cycle = outcome.problems[0].removeprefix("does not end: ").split(" waits for ")
    assert cycle[0] == cycle[-1] and len(set(cycle)) == len(cycle) - 1 >= 2
    edges = {(edge.sender, edge.receiver) for edge in SMALL.but(topology=topology, nodes=nodes).edges}
    assert all((int(b), int(a)) in edges for a, b in pairwise(cycle))


class _LeavesOneOut(Textbook):
    def records(self, channel: Channel) -> bool:
        return channel.number != LATE


class _StillWhite(Observer):
    """Takes in red while white (against Lai and Yang's rule)."""

    def receiving(self, process: Process, message: Message) -> None:
        if not message.tag:
            super().receiving(process, message)


class _NotBlocked(Alignment):
    def control(self, process: Process, item: object) -> None:
        super().control(process, item)  # type: ignore[arg-type]
        for channel in process.incoming:
            channel.blocked_since = None


class _CopiesNoPage(Fork):
    def record_state(self, process: Process) -> None:
        super().record_state(process)
        process.before_write = None


class _LosesAWhiteRecord(Offsets):
    def _fold(self, process: Process, end: int) -> bytes:
        return super()._fold(process, end - 1)


@pytest.mark.parametrize(
    ("method", "word"),
    [
        (_LeavesOneOut, "not recorded"),
        (_StillWhite, ""),
        (_NotBlocked, "before they were sent"),
        (_CopiesNoPage, ""),
        (_LosesAWhiteRecord, ""),
    ],
)
def test_a_method_that_is_broken_is_caught_by_the_check(method: type[Method], word: str) -> None:
    """Each breaks one rule; the check knows nothing of methods, only recorded bytes and what really happened."""
    load = LAYERS.but(rate=1500.0, late_s=0.1, after_s=0.05)
    if method is _StillWhite:
        load = load.but(topology="mesh", late="none", rate=5000.0, state_bytes=8192)  # fast red messages
    outcome = run(load, method)
    assert not outcome.holds
    assert any(word in problem for problem in outcome.problems), outcome.problems
    assert run(load, method.__bases__[0]).holds


def test_ours_depends_neither_on_rate_nor_on_delay() -> None:
    held = {
        run(SMALL.but(rate=rate, late_s=late_s), Offsets).records_bytes
        for rate, late_s in ((20.0, 0.2), (20.0, 1.0), (200.0, 0.2), (200.0, 1.0))
    }
    assert max(held) < 1.01 * min(held), "larger offsets take a byte more"
    textbook = [run(SMALL.but(rate=rate), Textbook).messages_bytes for rate in (20.0, 200.0)]
    assert textbook[1] > 5 * textbook[0]
