"""Hold README to what is there: its length, its links, its service, its commands."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from pathlib import Path

from typer.main import get_command
from typer.testing import CliRunner

from snapkafka.cli import app
from tests.readme import ROOT, commands, service, text

#: A newcomer reads no more.
LINES_MAX = 130


def test_it_is_short() -> None:
    assert len(text().splitlines()) < LINES_MAX


def test_every_link_leads_somewhere() -> None:
    """Of README and of the pages for contributors."""
    pages = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/status.md")
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text("utf-8"))
        if "://" not in link
    ]
    assert len(links) > 10
    assert not [(page, link) for page, link in links if not (ROOT / page).parent.joinpath(link).exists()]


def test_its_picture_is_what_draw_draws(tmp_path: Path) -> None:
    """Of the golden snapshot `friday`."""
    drawn = tmp_path / "cut.svg"
    manifest = ROOT / "tests" / "golden" / "snapshots" / "friday.json"
    done = CliRunner().invoke(app, ["draw", "--manifest", str(manifest), "--output", str(drawn)])
    assert done.exit_code == 0, done.output
    assert drawn.read_text("utf-8") == (ROOT / "docs" / "cut.svg").read_text("utf-8")


def test_its_service_is_python_with_its_topics() -> None:
    names = {node.id for node in ast.walk(ast.parse(service())) if isinstance(node, ast.Name)}
    assert {"orders", "payments", "owed", "paid"} <= names
    created = re.search(r"snapkafka topics create (.+?) --", text())
    assert created is not None
    assert created[1].split() == ["orders", "payments"]


def test_its_commands_and_options_exist() -> None:
    known = get_command(app).commands  # type: ignore[attr-defined]
    shown = [shlex.split(command) for command in commands()]
    assert [words[1] for words in shown] == ["trigger", "assemble", "query"]
    for words in shown:
        options = {name for option in known[words[1]].params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= options, words


def test_the_licence_travels_with_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    named = project["project"]["license-files"] + list(
        project["tool"]["hatch"]["build"]["targets"]["wheel"]["extra-metadata"]
    )
    assert set(named) == {"LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    assert all((ROOT / name).is_file() for name in named)
    assert "Apache License" in Path(ROOT / "LICENSE").read_text("utf-8")
