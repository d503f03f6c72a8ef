"""A diagram as PNG: the colours and the size of its SVG, with its text, or an error that names what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli import app
from snapkafka.drawing.png import ZOOM
from snapkafka.errors import DependencyMissingError, OutputError
from tests.unit.drawing.test_drawing import drawn_by_command

PICTURE = Path(__file__).parents[3] / "docs" / "cut.svg"
#: The cut, and a message in flight.
BLUE, ORANGE = (0x1D, 0x4E, 0xD8), (0xD9, 0x77, 0x06)


def pixels(data: bytes) -> tuple[tuple[int, int], dict[tuple[int, int, int], int]]:
    """Size, and how often each colour is there."""
    picture = Image.open(BytesIO(data)).convert("RGB")
    counted: Iterator[tuple[int, tuple[int, int, int]]] = iter(picture.getcolors(2**24) or ())  # type: ignore[arg-type]
    return picture.size, {colour: count for count, colour in counted}


def test_it_has_the_size_and_the_colours_of_the_svg() -> None:
    svg = PICTURE.read_text("utf-8")
    found = re.search(r'width="(\d+)"\s+height="(\d+)"', svg)
    assert found
    size, colours = pixels(ops.png(svg))
    assert size == (int(found[1]) * ZOOM, int(found[2]) * ZOOM)
    assert colours[BLUE] > 100
    assert colours[ORANGE] > 100
    assert max(colours, key=lambda colour: colours[colour]) == (255, 255, 255), "on white, in any viewer"
    _, without = pixels(ops.png(re.sub(r"<text.*?</text>", "", svg, flags=re.DOTALL)))
    dark = (0x1F, 0x29, 0x33)
    assert colours[dark] > without.get(dark, 0) + 100, "its text is drawn"


def test_a_machine_without_fonts_gets_no_picture_without_text() -> None:
    with pytest.raises(OutputError):
        ops.png(PICTURE.read_text("utf-8"), skip_system_fonts=True)


def test_the_command_draws_it_or_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn_by_command(tmp_path)
    output, stored = tmp_path / "cut.png", ["draw", "friday", "--storage", str(tmp_path)]
    asked = [*stored, "-o", str(output)]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert output.read_bytes().startswith(b"\x89PNG\r\n")
    output.unlink()

    def missing(extra: str, what: str) -> None:
        raise DependencyMissingError(f"{what} needs the extra {extra}")

    monkeypatch.setattr("snapkafka.cli.commands.tables.require_extra", missing)
    refused = CliRunner().invoke(app, asked)
    assert (refused.exit_code, output.exists()) == (DependencyMissingError.exit_status, False)
    other = CliRunner().invoke(app, [*stored, "-o", str(tmp_path / "cut.jpg")])
    assert other.exit_code == 2
