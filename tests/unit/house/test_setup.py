"""`make setup`: what it does where there is nothing to do, and what it says where it cannot do it."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest

from snapkafka.runtime.ivy import KAFKA_JARS
from tools import setup


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout without an environment, an empty cache, and a Java that is there."""
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    monkeypatch.setattr(setup, "CHECKOUT", tmp_path)
    monkeypatch.setattr(setup, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(setup, "PYTHON", tmp_path / ".venv/bin/python")
    monkeypatch.setattr(setup, "LOG", tmp_path / "setup.log")
    monkeypatch.setenv("SNAPKAFKA_CACHE", str(tmp_path / "cache"))
    return tmp_path


def perform(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let the only step be a Python that runs `code`."""
    step = setup.Step(what="Things", megabytes=1, seconds=1, commands=((sys.executable, "-c", code),))
    monkeypatch.setattr(setup, "_plan", lambda _: [step])


def test_a_second_run_does_nothing_until_pyproject_changes(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    perform(
        monkeypatch,
        f"import pathlib; pathlib.Path({str(checkout)!r}, '.venv/bin').mkdir(parents=True, exist_ok=True)",
    )
    assert setup.main() == 0
    setup.PYTHON.touch()
    for jars in setup.GOALS["all"].jars:
        jars.jar_set.place().mkdir(parents=True)
        (jars.jar_set.place() / jars.jar_set.first_jar()).touch()
    capsys.readouterr()
    assert setup.main() == 0
    assert capsys.readouterr().out == ".venv is ready, nothing to do\n"
    assert setup.main(["demo"]) == 0, "who has everything has what the demo needs"
    assert capsys.readouterr().out == ".venv is ready, nothing to do\n"
    (checkout / "pyproject.toml").write_text("[project]\nname='new'\n")
    assert setup.main() == 0
    assert "[1/1] Things: done" in capsys.readouterr().out


def test_says_first_what_it_will_fetch(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    perform(monkeypatch, "import os; os.mkdir('.venv')")
    assert setup.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Setting up .venv with Python 3.")
    assert lines[1].split() == ["Things", "1", "MB", "about", "1", "s"]
    assert any(re.fullmatch(r"\[1/1\] Things: done in \d+ s", line) for line in lines)
    assert re.match(r"ready after \d+ s", lines[-1])


def test_what_is_here_is_not_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(goal: str) -> list[str]:
        return [step.what for step in setup._plan(setup.GOALS[goal])]

    monkeypatch.setattr(setup, "find_java", lambda: None)
    of_the_demo = ["Python packages", "Java 21", "Kafka 4.4", "Spark's Kafka source"]
    assert planned("demo") == of_the_demo
    assert planned("all") == [*of_the_demo, "Spark's S3", "an S3 server"]
    KAFKA_JARS.place().mkdir(parents=True)
    (KAFKA_JARS.place() / KAFKA_JARS.first_jar()).touch()
    assert "Kafka 4.4" not in planned("demo")


def test_without_network_it_says_so_in_one_line(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    perform(
        monkeypatch,
        "import sys; sys.exit('Retrying: Temporary failure in name resolution\\nERROR: no match')",
    )
    assert setup.main() == 12
    error, hint = capsys.readouterr().err.splitlines()
    assert error == "error: Things: the network cannot be reached (Temporary failure in name resolution)"
    assert "setup.log" in hint
    assert "no match" in (checkout / "setup.log").read_text()
    assert not list((checkout / ".venv").glob("*"))


def test_without_venv_and_uv_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert setup.main() == 12
    assert "apt install python3-venv" in capsys.readouterr().err
