"""The space-time diagram: a message in flight crosses the cut from left to right, and everything drawn is told; as SVG
and as PNG."""

import dataclasses
import itertools
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli import app
from snapkafka.drawing import DrawnMessage, Lane, Layout, Picture, lay_out
from snapkafka.drawing.layout import EXTERNAL, GLYPHS_FROM, NAMES_MAX, WIDTH
from snapkafka.drawing.png import ZOOM
from snapkafka.drawing.svg import svg
from snapkafka.errors import OutputError
from snapkafka.manifest import AppendedEntry, CheckEntry, Manifest, WitnessEntry, dump
from snapkafka.protocol.captured_snapshot import InputCut, ProcessCut
from snapkafka.protocol.offsets import Running, TornEvent
from tests.worlds.on_disk import read_up_to, write_snapshot
from tests.worlds.stores import LocalStore

SVG = "{http://www.w3.org/2000/svg}"


def in_flight(sender: int, receiver: int, offset: int, **more: object) -> DrawnMessage:
    reported: dict[str, Any] = {"kind": "in-flight", "topic": "to-pay", "partition": 0} | more
    return DrawnMessage(sender=sender, receiver=receiver, offset=offset, **reported)


def picture(count: int = 4, **more: object) -> Picture:
    of_each = [Lane(process=n, app=f"app{n % 3}", host="box", pid=n, cut_ms=3 * n) for n in range(count)]
    pairs = enumerate(itertools.product(range(count), repeat=2))
    messages = tuple(in_flight(a, b, 10 + n) for n, (a, b) in pairs)
    reported: dict[str, Any] = {"lanes": tuple(of_each), "messages": messages} | more
    return Picture(title="friday", verdict="VERIFIED", **reported)


def crossings(layout: Layout) -> list[tuple[str, bool, bool]]:
    """Of each message: its kind, whether it is sent left of its sender's cut, and received left of its receiver's."""
    cuts = {place.lane.process: place.cut for place in layout.lanes}
    found = []
    for arrow in layout.arrows:
        sent, received = cuts[arrow.message.sender], cuts[arrow.message.receiver]
        assert sent is not None and received is not None
        found.append((arrow.message.kind, arrow.start[0] < sent, arrow.end[0] < received))
    return found


def test_what_is_in_flight_crosses_the_cut_forwards_and_what_was_never_sent_backwards() -> None:
    drawn = picture()
    backward = in_flight(3, 0, 99, kind="backward")
    marker = in_flight(1, 2, 50, kind="marker")
    layout = lay_out(dataclasses.replace(drawn, messages=(*drawn.messages, backward, marker)))
    assert len(layout.arrows) == 18
    assert set(crossings(layout)) == {
        ("in-flight", True, False),
        ("backward", False, True),
        ("marker", False, False),
    }


@pytest.mark.parametrize("lanes", [1, 20, 100])
def test_everything_has_its_place_on_the_paper(lanes: int) -> None:
    messages = tuple(in_flight(n, (n + 1) % lanes, n) for n in range(lanes))
    layout = lay_out(picture(lanes, messages=messages))
    for x, y in [place for arrow in layout.arrows for place in (arrow.start, arrow.end)]:
        assert 0 < x < WIDTH
        assert 0 < y < layout.bottom
    ys = [place.y for place in layout.lanes]
    assert min((b - a for a, b in itertools.pairwise(ys)), default=9) >= 9
    assert ("hidden" not in svg(layout)) is (lanes <= NAMES_MAX)


@pytest.mark.parametrize("lanes", [GLYPHS_FROM - 1, GLYPHS_FROM])
def test_from_a_hundred_lines_on_a_message_that_does_not_cross_the_cut_is_drawn_at_its_two_ends(
    lanes: int,
) -> None:
    kinds = ("received", "later", "marker", "in-flight", "backward")
    messages = tuple(in_flight(n, 80 - n, n, kind=kind) for n, kind in enumerate(kinds))
    layout = lay_out(picture(lanes, messages=messages))
    root = ET.fromstring(svg(layout))
    for arrow in layout.arrows:
        whole = "M{:.1f},{:.1f} L{:.1f},{:.1f}".format(*arrow.start, *arrow.end)
        place = f"to-pay[0] offset {arrow.message.offset}"
        (group,) = (it for it in root.iter(f"{SVG}g") if it.get("data-at") == place)
        (path,) = {it.get("d") or "" for it in group.iter(f"{SVG}path")}  # what is pointed at is what is seen
        across = arrow.message.kind in ("in-flight", "backward")
        assert (path == whole) is (across or lanes < GLYPHS_FROM), path
        assert path.startswith(whole.split()[0]) and path.endswith(whole.split("L")[1])


def test_what_is_drawn_is_reported_on_hovering_and_nothing_is_taken_for_markup() -> None:
    events: dict[str, Any] = {"running": ("pay at in[0] offset 4",), "torn": ("sum at in[0] offset 3",)}
    lane = Lane(process=0, app="<b>&'\"", cut_ms=1, heard="markers", **events)
    message = in_flight(EXTERNAL, 0, 8, topic='t"><script>', key="k\x00\x1b", value="\ud800 ünï")
    reported = Picture(title="<s>", verdict="VERIFIED_OPEN", lanes=(lane,), messages=(message,), hidden=1_234)
    drawn = svg(lay_out(reported))
    root = ET.fromstring(drawn)
    assert not root.findall(f".//{SVG}script")
    assert "style" not in {name for element in root.iter() for name in element.attrib}
    lanes = [g for g in root.iter(f"{SVG}g") if g.get("class") == "lane"]
    assert [g.get("data-process") for g in lanes] == ["0", "-1"]
    assert [g.get("data-app") for g in lanes] == ["<b>&'\"", "external"]
    (arrow,) = (g for g in root.iter(f"{SVG}g") if g.get("class") == "message flight")
    assert (arrow.get("data-sender"), arrow.get("data-receiver")) == ("-1", "0")
    titles = " ".join(title.text or "" for title in root.iter(f"{SVG}title"))
    for text in ("<b>&'\"", "pay at in[0] offset 4", "sum at in[0] offset 3", "in flight", "offset 8", "ünï"):
        assert text in titles, text
    assert "1,234 more events not shown" in [text.text for text in root.iter(f"{SVG}text")]
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")


# -- from a manifest -----------------------------------------------------------------------------------------


def cut(process: int, **more: object) -> ProcessCut:
    reported = {"process": process, "app": f"app{process}", "host": "box", "pid": 1, "report": 20 + process}
    return ProcessCut(**(reported | more))  # type: ignore[arg-type]


def an_input(receiver: int) -> InputCut:
    return InputCut(
        app=f"app{receiver}", topic="to-pay", topic_id="", partition=0, position=3, noted=3, low=0, log_end=9,
        receiver=receiver,
    )  # fmt: skip


def rewrite(store: LocalStore, manifest: Manifest) -> None:
    Path(store.manifest_place(manifest.id)).write_text(dump(manifest), "utf-8")


async def test_an_assembled_snapshot_is_drawn_from_its_manifest_and_tables(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    manifest = write_snapshot(store, "s", 9, cuts=[an_input(2)])
    running = Running(agent="pay", topic="to-pay", partition=0, offset=2)
    torn = TornEvent(agent="pay", topic="to-pay", partition=0, offset=1, was=0, met=9, table="sums")
    captured = dataclasses.replace(
        manifest.captured, processes=(cut(1), cut(2, running=(running,), torn=(torn,)), cut(3, left=True))
    )
    witness = WitnessEntry(topic="to-pay", partition=0, offset=2, what="red by its header", process=1)
    checks = (CheckEntry(name="V2", run=True, status="failed", found=1, witnesses=(witness,)),)
    rewritten = dataclasses.replace(manifest, captured=captured, checks=checks, verdict="INCONSISTENT")
    rewrite(store, rewritten)
    drawn = await ops.draw(None, "", manifest=store.manifest_place("s"))
    assert (drawn.id, drawn.shown) == ("s", 0), "without the table around: lanes alone"
    root = ET.fromstring(drawn.svg)
    kinds = [element.get("class") for element in root.iter(f"{SVG}g")]
    assert kinds.count("message backward") == 1
    assert kinds.count("running") == kinds.count("torn") == 1
    assert kinds.count("lane") == kinds.count("cut-point") == 2  # the one that had left has sent none of it


def row(sender: str | None, receiver: str, offset: int, side: str, sent: int, **more: Any) -> dict[str, Any]:
    """A row of `around`; times in milliseconds after the trigger at 1,000,000."""
    who = {"sender": APPS.get(sender or ""), "sender_app": sender, "receiver": APPS[receiver]}
    where = {"receiver_app": receiver, "topic": f"to-{receiver}", "partition": 0, "offset": offset}
    what = {"side": side, "received": False, "sent_ms": 1_000_000 + sent, "key": "k", "seq": offset}
    return who | where | what | {"value": json.dumps({"amount": offset})} | more


APPS = {"shop": 1, "bank": 2, "till": 3}
#: The one in flight, those of before the cut, and two of after it, the first of which has its cause before it.
ROWS = (
    row("shop", "bank", 2, "white", 95),
    row("shop", "bank", 1, "white", 50, received=True),
    row(None, "shop", 5, "external", 20, received=True),
    row("till", "shop", 6, "white", 80, received=True),
    row("shop", "till", 4, "white", 90, received=True),
    row("shop", "bank", 30, "red", 112, cause_topic="to-shop", cause_partition=0, cause_offset=6),
    row("till", "shop", 80, "red", 200),
)


def drawn_by_command(folder: Path) -> Path:
    """Write a snapshot of three processes that cut 100, 110 and 120 ms after the trigger, and draw it."""
    store = LocalStore(folder)
    inputs = [
        dataclasses.replace(read_up_to(f"to-{name}", 0, 9), app=name, receiver=n) for name, n in APPS.items()
    ]
    manifest = write_snapshot(store, "friday", 9, cuts=inputs, messages=[ROWS[0]], around=list(ROWS))
    captured = dataclasses.replace(
        manifest.captured, senders=(), processes=tuple(cut(n, app=name) for name, n in APPS.items())
    )
    appended = tuple(AppendedEntry(offset=20 + n, at_ms=1_000_090 + 10 * n) for n in APPS.values())
    ledger = dataclasses.replace(manifest.ledger, triggered_ms=1_000_000, appended=appended)
    rewrite(store, dataclasses.replace(manifest, captured=captured, ledger=ledger))
    output = folder / "cut.svg"
    done = CliRunner().invoke(app, ["draw", "friday", "--storage", str(folder), "-o", str(output), "--json"])
    assert done.exit_code == 0, done.output
    assert (json.loads(done.stdout)["shown"], json.loads(done.stdout)["hidden"]) == (1, 0)
    return output


def test_the_picture_of_the_readme_is_what_the_command_draws(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    found = drawn_by_command(tmp_path).read_text("utf-8")
    kept = Path(__file__).parents[3] / "docs" / "cut.svg"
    if pytestconfig.getoption("--rewrite"):
        kept.write_text(found, "utf-8")
    assert found == kept.read_text("utf-8"), "if this is right: pytest --rewrite, and look at it"
    classes = [
        element.attrib["class"]
        for element in ET.fromstring(found).iter(f"{SVG}g")
        if "data-at" in element.attrib
    ]
    assert classes.count("message flight") == 1
    assert classes.count("message near") == len(ROWS) - 1


# -- as PNG ----------------------------------------------------------------------------------------------------


#: The cut, a message in flight, and text.
BLUE, ORANGE, DARK = (0x1D, 0x4E, 0xD8), (0xD9, 0x77, 0x06), (0x1F, 0x29, 0x33)


def pixels(data: bytes) -> tuple[tuple[int, int], dict[tuple[int, int, int], int]]:
    """Size, and how often each colour is there."""
    picture = Image.open(BytesIO(data)).convert("RGB")
    counted: Iterator[tuple[int, tuple[int, int, int]]] = iter(picture.getcolors(2**24) or ())  # type: ignore[arg-type]
    return picture.size, {colour: count for count, colour in counted}


def test_the_command_draws_it_with_the_size_the_colours_and_the_text_of_the_svg(tmp_path: Path) -> None:
    svg, stored = (
        drawn_by_command(tmp_path).read_text("utf-8"),
        ["draw", "friday", "--storage", str(tmp_path)],
    )
    assert CliRunner().invoke(app, [*stored, "-o", str(tmp_path / "cut.jpg")]).exit_code == 2
    done = CliRunner().invoke(app, [*stored, "-o", str(tmp_path / "cut.png")])
    assert done.exit_code == 0, done.output
    size, colours = pixels((tmp_path / "cut.png").read_bytes())
    assert re.findall(r'width="(\d+)"\s+height="(\d+)"', svg)[0] == tuple(str(it // ZOOM) for it in size)
    assert colours[BLUE] > 100 and colours[ORANGE] > 100
    assert max(colours, key=lambda colour: colours[colour]) == (255, 255, 255), "on white, in any viewer"
    _, without = pixels(ops.png(re.sub(r"<text.*?</text>", "", svg, flags=re.DOTALL)))
    assert colours[DARK] > without.get(DARK, 0) + 100, "its text is drawn"


def test_a_machine_without_fonts_gets_no_picture_without_text() -> None:
    with pytest.raises(OutputError):
        ops.png("<svg/>", skip_system_fonts=True)
