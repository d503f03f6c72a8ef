"""The methods compared (`studies.compare`): each is real, each is checked, and the known figures come out."""

from __future__ import annotations

import json
import sys
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest

from snapkafka.wire import codec
from studies.compare import pictures, study
from studies.compare import reach as reach_module
from studies.compare.check import problems
from studies.compare.command import main
from studies.compare.fitting import Point, fit
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


def test_fixed_arrivals_come_at_even_gaps() -> None:
    load = SMALL.but(topology="fan-in", nodes=2, arrivals="fixed")
    times = [request.time_s for request in load.requests]
    assert all(b - a == pytest.approx(1 / 60) for a, b in pairwise(times))
    assert run(load, Textbook).holds


# -- what it costs -------------------------------------------------------------------------------------------


def test_buffers_are_real_memory() -> None:
    """What the textbook method is said to hold is what Python's allocator sees beyond a run without a snapshot."""
    load = Workload(topology="fan-in", nodes=3, rate=2000.0, message_bytes=2000, late_s=0.5, state_bytes=8192)
    assert load.requests

    def allocated(method: type[Method]) -> tuple[World, int]:
        tracemalloc.start()
        world = World(load, method)
        world.run()
        now, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return world, now

    _, without = allocated(Nothing)
    world, with_buffers = allocated(Textbook)
    assert isinstance(world.method, Textbook) and world.method.snapshot is not None
    held = sum(len(data) for data in world.method.buffers.values())
    assert held == world.meter.peak("messages") > 3_500_000
    world.method.snapshot = None
    copies = held  # the finished snapshot holds the same bytes once more, for the check
    assert with_buffers - without == pytest.approx(held + copies, rel=0.15)


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


def test_ours_is_what_the_ledger_holds(reach: Reach) -> None:
    """A node holds the records of all nodes: to the byte what the codec makes of them."""
    world = World(SMALL, Offsets)
    world.run()
    assert isinstance(world.method, Offsets)
    ledger, epoch = world.method.ledger, world.method.epoch
    since = [codec.encode(record) for record in ledger.records[2 * SMALL.nodes :]]
    assert len(since) == 1 + 2 * SMALL.nodes, "a trigger, and a report and a Closed of each"
    assert world.meter.peak("records") == sum(map(len, since))
    assert ledger.fold.snapshots[epoch].captured_at is not None
    assert 1e6 < reach.of(Offsets).bytes < 2e6, "9,900 channels: 1.34 MB, a 1,500th of the textbook's"


def test_who_waits_shows_it_in_latency_and_who_does_not_does_not() -> None:
    found = {outcome.method: outcome for outcome in run_all(LAYERS)}
    late_s = LAYERS.late_s
    assert found[StopTheWorld.name].longest_stop_s > late_s
    assert found[Alignment.name].longest_stop_s > late_s
    assert found[StopTheWorld.name].added_p99_s > late_s / 2 < found[Alignment.name].added_p99_s
    ours = found[Offsets.name]
    assert ours.longest_stop_s <= 0.003 and ours.added_p99_s < 0.005 and ours.took_s < 0.1
    assert found[Textbook.name].took_s >= late_s, "it has to wait for the markers; offsets need not"
    assert found[Fork.name].longest_stop_s < found[Textbook.name].longest_stop_s


def test_blocked_channels_push_back_instead_of_growing() -> None:
    slow, fast = (run(LAYERS.but(rate=rate, scale=0.0001), Alignment) for rate in (100.0, 400.0))
    assert fast.holds and fast.messages_bytes < 2.5 * slow.messages_bytes + 2000
    assert run(LAYERS.but(rate=400.0), Textbook).messages_bytes > 5 * fast.messages_bytes


def test_a_forked_child_holds_only_pages_that_were_written() -> None:
    quiet = run(SMALL.but(rate=2.0, state_bytes=1 << 20), Fork)
    assert quiet.holds and 0 < quiet.state_bytes < (1 << 20) / 2


def test_the_check_names_a_process_without_a_state() -> None:
    world = World(SMALL, Textbook)
    world.run()
    assert world.method.snapshot is not None
    del world.method.snapshot.states[2]
    assert problems(world, world.method.snapshot) == ["no state of process 2"]


# -- lines ---------------------------------------------------------------------------------------------------


def test_a_line_through_points_on_it_is_certain_and_its_interval_widens_far_out() -> None:
    line = fit([Point(x, 5 + 2 * x, "") for x in (1.0, 2.0, 4.0)])
    assert line.at(100) == pytest.approx(205) and line.interval(100) == pytest.approx((205, 205))
    rough = fit([Point(1, 1.1, ""), Point(2, 1.9, ""), Point(4, 4.2, "")])
    near, far = rough.interval(2), rough.interval(200)
    assert far[1] - far[0] > 20 * (near[1] - near[0]) > 0


# -- the command ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--nodes", "2"], "--nodes 2: 3 to 1000"),
        (["--rate", "0"], "--rate 0"),
        (["--rate", "nan"], "--rate nan"),
        (["--bytes", "8"], "--bytes 8: 16 to"),
        (["--late", "-1"], "--late -1"),
        (["--late", "soon"], "invalid float value: 'soon'"),
    ],
)
def test_a_bad_argument_is_one_line_and_status_2(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path), *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and lines[0].startswith("error: ") and said in lines[0]
    assert not list(tmp_path.iterdir())


def test_without_an_out_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json"]) == 2
    streams = capsys.readouterr()
    assert "--out" in streams.err and json.loads(streams.out)["error"]["code"] == "bad-input"


def test_an_out_that_cannot_be_is_said_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["--out", str(tmp_path / "file")]) == 8
    assert "hint: check --out" in capsys.readouterr().err


def test_without_matplotlib_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["--out", str(tmp_path / "out")]) == 12
    assert "matplotlib, which is not installed\n  hint: run `make setup`" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


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
