"""The cut at one wall-clock time: what crosses it and in which direction, its sums, and how it is drawn."""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli import app
from snapkafka.drawing import DrawnMessage, Lane, Layout, Picture, lay_out
from snapkafka.drawing.layout import WallClock
from snapkafka.errors import BadInputError
from snapkafka.manifest_entries import AppendedEntry
from snapkafka.protocol import ProcessCut
from tests.unit.base.test_manifest import example
from tests.unit.drawing.test_drawing import rewrite
from tests.worlds.on_disk import read_up_to, write_snapshot
from tests.worlds.stores import LocalStore

SVG = "{http://www.w3.org/2000/svg}"
#: The trigger; the processes 1, 2 and 3 cut 100, 110 and 120 ms after it, by the ledger's time.
START = 1_000_000
CUTS = {1: 100, 2: 110, 3: 120}


def record(
    sender: int | None, receiver: int, offset: int, side: str, sent: int, **more: Any
) -> dict[str, Any]:
    """A row of `around`; times in milliseconds after the trigger."""
    received_ms = more.pop("received_ms", None)
    return {
        "sender": sender,
        "sender_app": None if sender is None else f"app{sender}",
        "receiver": receiver,
        "receiver_app": f"app{receiver}",
        "topic": f"to-{receiver}",
        "partition": 0,
        "offset": offset,
        "seq": offset,
        "side": side,
        "received": False,
        "sent_ms": START + sent,
        "received_ms": None if received_ms is None else START + received_ms,
        "key": "k",
        "value": json.dumps({"amount": offset}),
    } | more


def system(behind: int) -> list[dict[str, Any]]:
    """Records of three processes; the clock of process 2 is so many milliseconds behind the others."""
    return [
        record(1, 2, 1, "white", 50, received=True, received_ms=55 - behind),
        record(1, 2, 2, "white", 95, received_ms=118 - behind),
        record(
            1,
            2,
            30,
            "red",
            112,
            received_ms=120 - behind,
            cause_topic="to-1",
            cause_partition=0,
            cause_offset=6,
        ),
        record(None, 1, 5, "external", 20, received=True, received_ms=30),
        record(3, 1, 6, "white", 80, received=True, received_ms=90),
        record(2, 1, 70, "white", 105 - behind, received_ms=130),
        record(3, 1, 80, "red", 200),  # its receipt has no time
        record(1, 3, 4, "white", 90, received=True),  # received within 120 ms, whether within 110 is unknown
    ]


def in_flight(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of `messages` for those of `around`."""
    names = ("sender", "receiver_app", "topic", "partition", "offset", "seq", "key", "value")
    return [
        {name: row[name] for name in names} for row in rows if row["side"] == "white" and not row["received"]
    ]


def world(
    folder: Path,
    rows: list[dict[str, Any]],
    *,
    epoch: int = 9,
    names: Mapping[str, str] | None = None,
    **changed: Any,
) -> str:
    """A manifest of them; `names` are those of the apps."""
    store, names = LocalStore(folder), names or {}
    apps = {n: names.get(f"app{n}", f"app{n}") for n in CUTS}
    inputs = [dataclasses.replace(read_up_to(f"to-{n}", 0, 9), app=apps[n], receiver=n) for n in CUTS]
    manifest = write_snapshot(store, "s", epoch, cuts=inputs, messages=in_flight(rows), around=rows)
    captured = dataclasses.replace(
        manifest.captured,
        processes=tuple(ProcessCut(process=n, app=apps[n], host="box", report=20 + n) for n in CUTS),
        senders=(),
    )
    appended = tuple(AppendedEntry(offset=20 + n, at_ms=START + after) for n, after in CUTS.items())
    ledger = dataclasses.replace(manifest.ledger, triggered_ms=START, appended=appended)
    changes: dict[str, Any] = {"captured": captured, "ledger": ledger} | changed
    rewrite(store, dataclasses.replace(manifest, **changes))
    return store.manifest_place("s")


async def drawn_at(place: str) -> tuple[ops.Drawn, ops.WallCut]:
    drawn = await ops.draw(None, "", manifest=place, wall_clock=True)
    assert drawn.wall is not None
    return drawn, drawn.wall


def messages_in(drawn: ops.Drawn) -> dict[str, str]:
    """Place -> class of its arrow."""
    root = ET.fromstring(drawn.svg)
    return {
        element.attrib["data-at"]: element.attrib["class"].removeprefix("message ")
        for element in root.iter(f"{SVG}g")
        if "data-at" in element.attrib
    }


async def test_clocks_that_differ_make_the_cut_inconsistent(tmp_path: Path) -> None:
    drawn, wall = await drawn_at(world(tmp_path, system(60)))
    assert wall.at_ms == START + 110  # the median of the cuts
    assert (wall.backward, wall.in_flight, wall.unknown) == (1, 1, 2)
    assert messages_in(drawn) == {
        "to-2[0] offset 1": "near",
        "to-2[0] offset 2": "near",  # in flight across the snapshot's cut, received before the wall-clock time
        "to-2[0] offset 30": "backward",
        "to-1[0] offset 5": "near",
        "to-1[0] offset 6": "near",
        "to-1[0] offset 70": "flight",
    }
    notes = " ".join(drawn.notes)
    assert "At least 1 message received and not sent" in notes
    texts = [text.text for text in ET.fromstring(drawn.svg).iter(f"{SVG}text")]
    assert set(drawn.notes) <= set(texts)
    assert (drawn.shown, drawn.hidden, drawn.near, drawn.near_hidden) == (2, 0, 4, 2)


async def test_with_one_clock_for_all_it_is_consistent(tmp_path: Path) -> None:
    drawn, wall = await drawn_at(world(tmp_path, system(0)))
    assert (wall.backward, wall.in_flight) == (0, 2)
    assert "backward" not in messages_in(drawn).values()


async def test_what_has_no_time_is_placed_by_the_cut_of_its_process_or_unknown(tmp_path: Path) -> None:
    rows = [record(1, 2, 1, "white", 30, received=True), record(1, 3, 7, "white", 30)]
    _, wall = await drawn_at(world(tmp_path, rows))  # at 110 ms: process 2 has cut then, 3 has not
    assert (wall.unknown, wall.in_flight) == (0, 1)
    _, wall = await drawn_at(world(tmp_path / "b", [record(1, 3, 1, "white", 30, received=True)]))
    assert (wall.unknown, wall.in_flight) == (1, 0)


async def test_what_the_snapshot_lacks_is_named(tmp_path: Path) -> None:
    place = world(tmp_path / "a", system(0), ledger=manifest_without_times())
    with pytest.raises(BadInputError):
        await drawn_at(place)
    store = LocalStore(tmp_path / "b")
    write_snapshot(store, "old", 9)
    with pytest.raises(BadInputError, match="old"):
        await drawn_at(store.manifest_place("old"))


def manifest_without_times() -> Any:
    return dataclasses.replace(example().ledger, triggered_ms=0, appended=())


def test_the_picture_of_the_guide_is_what_the_command_draws(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Three processes, the clock of the second of which is 60 ms behind."""
    names = {"app1": "shop", "app2": "bank", "app3": "till"}
    rows = [{key: names.get(str(value), value) for key, value in row.items()} for row in system(60)]
    world(tmp_path, rows, names=names)
    output, storage = tmp_path / "wall-clock.svg", str(tmp_path)
    asked = ["draw", "s", "--storage", storage, "-o", str(output), "--json"]
    plain = CliRunner().invoke(app, asked)
    assert "wall_clock" not in json.loads(plain.stdout)
    assert 'class="wall"' not in output.read_text("utf-8")
    found = CliRunner().invoke(app, [*asked, "--wall-clock"])
    assert found.exit_code == 0, found.output
    reported = json.loads(found.stdout)["wall_clock"]
    assert (reported["at_ms"], reported["backward"]) == (START + 110, 1)
    kept = Path(__file__).parents[3] / "docs" / "guide" / "wall-clock.svg"
    if pytestconfig.getoption("--rewrite"):
        kept.write_text(output.read_text("utf-8"), "utf-8")
    assert output.read_text("utf-8") == kept.read_text("utf-8"), (
        "if this is right: pytest --rewrite, and look at it"
    )


# -- the picture -----------------------------------------------------------------------------------------------


def sides(layout: Layout) -> dict[int, tuple[tuple[bool, bool], tuple[bool, bool]]]:
    """Offset -> whether it is sent and received left of the cut, and of the wall-clock cut."""
    lanes = {place.lane.process: place for place in layout.lanes}

    def left(x: float, process: int) -> tuple[bool, bool]:
        place = lanes[process]
        assert place.cut is not None and place.wall is not None
        return x < place.cut, x < place.wall

    found = {}
    for arrow in layout.arrows:
        sent, received = (
            left(arrow.start[0], arrow.message.sender),
            left(arrow.end[0], arrow.message.receiver),
        )
        found[arrow.message.offset] = ((sent[0], received[0]), (sent[1], received[1]))
    return found


def about(kind: str, at_cut: str, sender: int, receiver: int, offset: int, **more: Any) -> DrawnMessage:
    return DrawnMessage(
        kind=kind, at_cut=at_cut, sender=sender, receiver=receiver, topic=f"to-{receiver}", partition=0,
        offset=offset, **more,
    )  # fmt: skip


def test_arrows_run_forwards_and_cross_each_curve_in_the_direction_of_its_kind() -> None:
    messages = (
        about("received", "received", 1, 2, 1, sent_ms=10, received_ms=60),  # it ran at the cut
        about("received", "in-flight", 1, 2, 2, sent_ms=20, received_ms=60),
        about("backward", "later", 1, 2, 3, sent_ms=112, received_ms=60),
        about("in-flight", "in-flight", 2, 1, 4, sent_ms=45, received_ms=130),
        about(
            "in-flight", "in-flight", 1, 2, 0, sent_ms=1, received_ms=300
        ),  # later than those behind it in its log
    )
    wall = WallClock(at_ms=50, cuts={1: 40, 2: 25})
    lanes = tuple(Lane(process=n, app="a", cut_ms=n) for n in (1, 2))
    picture = Picture(title="s", verdict="", lanes=lanes, messages=messages, wall=wall)
    layout = lay_out(picture)
    assert sides(layout) == {
        1: ((True, True), (True, True)),
        2: ((True, False), (True, True)),
        3: ((False, False), (False, True)),
        4: ((True, False), (True, False)),
        0: ((True, False), (True, False)),
    }
    assert all(arrow.start[0] < arrow.end[0] for arrow in layout.arrows)
    assert len(layout.wall_curve) == len(layout.curve) == 4
    assert layout.picture.hidden == 0
    # Receipts between the two cuts of a process in either order: a clock that ran back.
    wrong = about("in-flight", "received", 1, 2, 5, sent_ms=1, received_ms=70)
    layout = lay_out(dataclasses.replace(picture, messages=(*messages, wrong)))
    assert layout.picture.hidden > 0
    assert len(layout.arrows) + layout.picture.hidden == 6
    assert sides(layout).items() <= (sides(lay_out(picture)) | {5: ((True, True), (True, False))}).items()
