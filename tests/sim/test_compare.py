"""The methods compared (`studies.compare`): each is real, each is checked, and the known figures come out."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from studies.compare import pictures, study
from studies.compare import reach as reach_module
from studies.compare.command import main
from studies.compare.methods import (
    METHODS,
    Alignment,
    Fork,
    Method,
    Nothing,
    Observer,
    Offsets,
    StopTheWorld,
    Textbook,
)
from studies.compare.outcome import run, run_all
from studies.compare.process import Channel, Message, Process
from studies.compare.reach import Reach, reach_mesh
from studies.compare.workload import Topology, Workload
from studies.compare.world import World

pytestmark = pytest.mark.nightly

#: Small: a run takes a few hundredths of a second.
SMALL = Workload(nodes=5, rate=60.0, late_s=0.5, state_bytes=32_768, seed=1985)
LAYERS = SMALL.but(topology="layers", nodes=6, late="one")
#: A late channel of the mesh and of the layers.
LATE = 2


@pytest.fixture(scope="module")
def reach() -> Reach:
    """The mesh of the issue at its real size: 100 processes, 9,900 channels, 50,000 msg/s of 200 B, 2 s late."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reach_module, "SHARES_FEW", (0.0002, 0.0004, 0.0006, 0.0008))
        return reach_mesh(100, 50_000.0, 200, 2.0, 1985, lambda _: None)


# -- every snapshot is checked -------------------------------------------------------------------------------


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


class _ForwardsNotAll(Observer):
    def receiving(self, process: Process, message: Message) -> None:
        if message.tag or message.channel.number != LATE:
            super().receiving(process, message)
        elif self._red[process.number]:
            self._deficit -= 1


class _NotBlocked(Alignment):
    def control(self, process: Process, item: object) -> None:
        super().control(process, item)  # type: ignore[arg-type]
        for channel in process.incoming:
            channel.blocked_since = None


class _CopiesNoPage(Fork):
    def record_state(self, process: Process) -> None:
        super().record_state(process)
        process.before_write = None


class _DoesNotDrain(StopTheWorld):
    """Says that it has received everything as soon as it knows how much that is."""

    def _say_if_drained(self, process: Process) -> None:
        if process.number in self._to_come:
            self._to_come[process.number] = 0
            super()._say_if_drained(process)
            del self._to_come[process.number]


class _LosesAWhiteRecord(Offsets):
    def _fold(self, process: Process, end: int) -> bytes:
        return super()._fold(process, end - 1)


@pytest.mark.parametrize(
    ("method", "word"),
    [
        (_LeavesOneOut, "not recorded"),
        (_StillWhite, ""),
        (_ForwardsNotAll, "not recorded"),
        (_NotBlocked, "before they were sent"),
        (_CopiesNoPage, ""),
        (_DoesNotDrain, "not recorded"),
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


def test_who_needs_fifo_is_found_by_channels_without_order() -> None:
    needs = {}
    for method in METHODS:
        found = study._property(method, 1985)
        needs[method] = found.needs_fifo
        assert found.works_with_cycles == (method is not Alignment)
    assert needs == {
        StopTheWorld: False,
        Textbook: True,
        Alignment: True,
        Observer: False,
        Fork: True,
        Offsets: False,
    }


# -- the same workload ---------------------------------------------------------------------------------------


def test_a_run_is_the_same_each_time_and_another_with_another_seed() -> None:
    for method in METHODS:
        assert run(LAYERS, method).as_json() == run(LAYERS, method).as_json()
    assert LAYERS.requests == LAYERS.but().requests != LAYERS.but(seed=7).requests


def test_all_methods_meet_the_same_messages() -> None:
    without = World(LAYERS, Nothing)
    without.run()
    assert without.idle and len(without.latencies_s) > 300
    for method in METHODS:
        world = World(LAYERS, method)
        world.run()
        assert world.idle and world.latencies_s.keys() == without.latencies_s.keys()


# -- what it costs -------------------------------------------------------------------------------------------


def test_the_textbook_method_needs_what_comes_in_while_the_marker_is_late(reach: Reach) -> None:
    """99 channels x 50,000 msg/s x 200 B x 2 s = 1.98 GB on each node, from buffers of up to a hundredth of it."""
    textbook = reach.of(Textbook)
    low, high = textbook.interval
    assert reach.nominal_bytes == 1.98e9
    assert low <= 1.98e9 <= high and high - low < 0.05e9
    assert textbook.bytes == pytest.approx(1.98e9, rel=0.01)
    assert textbook.largest == pytest.approx(1.98e7, rel=0.02), "real buffers at 1/100"
    assert any("9900 channels" in point.what for point in textbook.line.points), "and the mesh as a whole"
    assert reach.violations == ()


def test_one_observer_gets_what_all_nodes_find(reach: Reach) -> None:
    assert reach.of(Observer).bytes == pytest.approx(198e9, rel=0.04)
    assert reach.of(StopTheWorld).bytes == 0


def test_ours_depends_neither_on_rate_nor_on_delay() -> None:
    held = {
        run(SMALL.but(rate=rate, late_s=late_s), Offsets).records_bytes
        for rate, late_s in ((20.0, 0.2), (20.0, 1.0), (200.0, 0.2), (200.0, 1.0))
    }
    assert max(held) < 1.01 * min(held), "larger offsets take a byte more"
    textbook = [run(SMALL.but(rate=rate), Textbook).messages_bytes for rate in (20.0, 200.0)]
    assert textbook[1] > 5 * textbook[0]


# -- the command ---------------------------------------------------------------------------------------------


def test_the_command_on_a_small_system(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables, pictures and JSON; 1 where something does not hold."""
    monkeypatch.setattr(reach_module, "NODE_MESSAGES_MIN", 300)
    monkeypatch.setattr(reach_module, "ONE_RATE", 5000.0)
    monkeypatch.setattr(reach_module, "ONE_LATE_S", 1.0)
    small = ["--nodes", "4", "--rate", "50", "--bytes", "100", "--late", "0.2", "--seed", "1"]
    assert main(["--out", str(tmp_path), *small]) == 0
    said = capsys.readouterr().out
    assert "does not end: " in said and "snapkafka: offsets" in said and "Everything holds" in said
    data = json.loads((tmp_path / "compare.json").read_text("utf-8"))
    assert data["nodes"] == 4 and data["violations"] == []
    assert [len(table["rows"]) for table in data["tables"]] == [6, 6]
    for name in ("sweeps", "reach"):
        assert (tmp_path / f"compare-{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "snapkafka" in (tmp_path / f"compare-{name}.svg").read_text("utf-8")

    monkeypatch.setattr(pictures, "draw", lambda *_: [])
    monkeypatch.setattr(study, "METHODS", (_LeavesOneOut,))
    monkeypatch.setattr(study, "run_all", lambda load: run_all(load, (*METHODS, _LeavesOneOut)))
    assert main(["--out", str(tmp_path), *small, "--json"]) == 1
    assert any("not recorded" in what for what in json.loads(capsys.readouterr().out)["violations"])
