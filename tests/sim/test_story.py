"""`python -m snapkafka.sim run`: what the textbook says, from the real machines and offsets alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from snapkafka.sim import play_story
from snapkafka.sim.__main__ import main
from snapkafka.sim.story.file import parse_story

from .textbook import Scenario, random_scenario, textbook

TEACHING = Path(__file__).resolve().parents[1] / "scenarios"

PAIR = {"processes": ["N1", "N2"], "channels": [["N1", "N2"], ["N2", "N1"]]}


def run(steps: list[dict[str, Any]], *, one_ledger: bool = False, **system: Any) -> list[dict[str, Any]]:
    """The snapshots of a scenario, between two processes if nothing else is said."""
    scenario = {**PAIR, **system, "steps": steps}
    return [outcome.as_data() for outcome in play_story(parse_story(scenario), one_ledger=one_ledger)]


def send(sender: str, receiver: str, message: str, **more: str) -> dict[str, Any]:
    return {"do": "send", "from": sender, "to": receiver, "message": message, **more}


def deliver(sender: str, receiver: str, **more: str) -> dict[str, Any]:
    return {"do": "deliver", "from": sender, "to": receiver, **more}


def start(at: str, name: str = "0") -> dict[str, Any]:
    return {"do": "snapshot", "at": at, "id": name}


DRAIN = {"do": "drain"}


# -- as the textbook has it -----------------------------------------------------------------------------------------


def same_as_textbook(scenario: Scenario) -> tuple[int, int]:
    """Ours and the textbook's are the same; how many snapshots were complete, and how many had messages in flight."""
    ours = [outcome.as_data() for outcome in play_story(parse_story(scenario))]
    theirs = textbook(scenario).result()
    for mine in ours:
        assert not mine.pop("under_way", []), "everything was handed over"
        mine.pop("unreached", None)
    assert ours == theirs, json.dumps(scenario)
    return sum(o["complete"] for o in theirs), sum(bool(o["channels"]) for o in theirs)


@pytest.mark.parametrize("kind", ["one", "overlapping", "joint"])
def test_the_result_is_that_of_the_textbook(kind: str) -> None:
    """One snapshot; three that overlap, each as if it were alone; two, the first of them started by several."""
    how = {"one": (1000, 1, False), "overlapping": (500, 3, False), "joint": (500, 2, True)}
    seeds, snapshots, joint = how[kind]
    complete = in_flight = 0
    for seed in range(seeds):
        found = same_as_textbook(random_scenario(seed, snapshots=snapshots, joint=joint))
        complete, in_flight = complete + found[0], in_flight + found[1]
    assert complete > seeds * snapshots / 3, "it was about something"
    assert in_flight > seeds * snapshots / 3


def test_a_scenario_that_stops_half_way() -> None:
    """Whoever has cut, and every channel whose marker has come, is as in the textbook. More can be known: a channel is
    known by offsets as soon as both its ends have cut, without the receiver having to reach the marker (R7)."""
    known = more = 0
    for seed in range(300):
        scenario = random_scenario(seed, snapshots=2, drained=False)
        story = parse_story(scenario)
        book = textbook(scenario)
        for mine, theirs in zip(play_story(story), book.result(), strict=True):
            data = mine.as_data()
            recording = book.snapshots[mine.id]
            assert data["processes"] == theirs["processes"]
            assert data["complete"] == theirs["complete"]
            assert {*mine.processes, *mine.unreached, *mine.under_way} == set(story.processes)
            for (a, b), messages in recording.channels.items():
                known += 1
                assert list(mine.channels[next(c for c in story.channels if c == (a, b))]) == messages
            more += len(mine.channels) > len(recording.channels)
    assert known > 300
    assert more > 50


# -- by hand ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [[], ["--one-ledger"]])
def test_the_teaching_run(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """P1 {A, B}, P2 {F, G, H}, P3 {I}; the message sent at H and received at D is on its way; D and C are nowhere."""
    assert main(["run", str(TEACHING / "teaching.json"), *flags]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out == (
        '{"snapshots": [{"id": "0", "complete": true, '
        '"processes": {"P1": ["A", "B"], "P2": ["F", "G", "H"], "P3": ["I"]}, '
        '"channels": {"P2->P1": ["H-D"]}}]}\n'
    )


@pytest.mark.parametrize("name", ["teaching-two", "teaching-three"])
def test_the_teaching_run_with_more_initiators(name: str) -> None:
    """Two and three processes start the same snapshot at once: still one snapshot, and the textbook's."""
    scenario = json.loads((TEACHING / f"{name}.json").read_text())
    assert sum(step["do"] == "snapshot" for step in scenario["steps"]) in {2, 3}
    same_as_textbook(scenario)
    apart = [
        {**step, "id": f"by {step['at']}"} if step["do"] == "snapshot" else step for step in scenario["steps"]
    ]
    same_as_textbook({**scenario, "steps": apart})


def test_a_process_out_of_reach_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not waited for in silence, and it is not made up either: N4 has no channel that leads to it."""
    file = tmp_path / "s.json"
    system = {"processes": ["N1", "N2", "N4"], "channels": [["N1", "N2"], ["N4", "N2"]]}
    steps = [send("N4", "N2", "m1"), start("N1"), DRAIN]
    file.write_text(json.dumps({**system, "steps": steps}))
    assert main(["run", str(file)]) == 0
    out, err = capsys.readouterr()
    found = {"id": "0", "complete": False, "processes": {"N1": [], "N2": []}, "channels": {}}
    assert json.loads(out)["snapshots"] == [found | {"unreached": ["N4"], "under_way": []}]
    assert err == "snapshot 0: no marker can reach N4; it waits in vain\n"


def test_one_cut_serves_two_snapshots_in_one_ledger() -> None:
    """N2 starts "1" while the marker of "0" is on its way. In one ledger that cut serves both (R2); apart, it cuts
    for "0" when the marker comes, as in the textbook."""
    late = {"do": "internal", "at": "N2", "event": "late"}
    steps = [start("N1", "0"), send("N2", "N1", "m"), start("N2", "1"), late, DRAIN]
    apart, shared = run(steps), run(steps, one_ledger=True)
    assert [found["processes"]["N2"] for found in apart] == [["#1", "late"], ["#1"]]
    assert [found["processes"]["N2"] for found in shared] == [["#1"], ["#1"]]
    assert [found["channels"] for found in shared] == [{"N2->N1": ["m"]}, {}]


# -- bad files --------------------------------------------------------------------------------------------------------

M1 = send("N1", "N2", "m1")

#: Steps between two processes, and the line that refuses them.
BAD_STEPS: list[tuple[list[Any], str]] = [
    ([DRAIN, {"do": "internal", "at": "N9"}], "error: step 1: there is no process N9"),
    ([send("N1", "N1", "m")], "error: step 0: there is no channel N1->N1"),
    ([{"do": "fly"}], "`$.steps[0].do`"),
    ([{"do": "send", "from": "N1", "to": "N2"}], "missing required field `message` - at `$.steps[0]`"),
    ([DRAIN, {"do": "internal", "at": "N1", "event": ""}], "`str` of length >= 1 - at `$.steps[1].event`"),
    ([deliver("N1", "N2", mesage="m1")], "unknown field `mesage` - at `$.steps[0]`"),
    ([M1, M1], "error: step 1: a message m1 was sent in step 0 already"),
    ([start("N1"), start("N1")], "error: step 1: N1 has started snapshot 0 in step 0 already"),
    ([deliver("N1", "N2", message="m9")], "error: step 0: no message m9 was sent before"),
    ([M1, send("N2", "N1", "m"), deliver("N2", "N1", message="m1")], "error: step 2: message m1 is not in"),
    ([M1, DRAIN, deliver("N1", "N2")], "error: step 2: channel N1->N2 is empty"),
]
BAD_FILES = [
    *((json.dumps({**PAIR, "steps": steps}), problem) for steps, problem in BAD_STEPS),
    ("{", "is not JSON"),
    ("[" * 200_000, "is not JSON"),
    ('{"processes": ["N1"], "channels": []}', "missing required field `steps`"),
    ('{"processes": ["N1", "N1"], "channels": [], "steps": []}', "two of one name: N1, N1"),
    ('{"processes": ["a->b"], "channels": [], "steps": []}', "$.processes[0]"),
    ('{"processes": ["N1"], "channels": [["N1"]], "steps": []}', "$.channels[0]"),
    ('{"processes": ["N1"], "channels": [["N1", "N2"]], "steps": []}', "there is no process N2"),
    ('{"processes": ["N1"], "channels": [["N1", "N1"], ["N1", "N1"]], "steps": []}', "two of one name: N1->"),
]


@pytest.mark.parametrize(("text", "problem"), BAD_FILES)
def test_a_bad_file_is_one_line(
    text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the step; exit status 2, nothing on stdout."""
    file = tmp_path / "bad.json"
    file.write_text(text)
    assert main(["run", str(file)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert problem in err
