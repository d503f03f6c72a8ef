"""A generated page of docs/reference that is not up to date is noticed, and a setting without a description."""

from __future__ import annotations

import dataclasses
import inspect
import shutil
from pathlib import Path

import pytest

from snapkafka.config import Config
from tests import reference
from tests.reference import FOLDER, PAGES, ROOT, commands, findings, settings


@pytest.mark.parametrize(
    ("page", "before", "after"),
    [
        ("settings.md", "| `cause` |", "| `causes` |"),
        ("commands.md", "| `--retries N` | `0` |", "| `--retries N` | `1` |"),
        ("findings.md", "| `left-late` | unverifiable |", "| `left-late` | note |"),
        ("errors.md", "| 9 | `offsets-gone` |", "| 8 | `offsets-gone` |"),
        ("metrics.md", "`snapkafka_cuts_total`", "`snapkafka_cuts`"),
        ("schemas.md", "| `above` |", "| `over` |"),
    ],
)
def test_a_page_that_differs_is_named(tmp_path: Path, page: str, before: str, after: str) -> None:
    shutil.copytree(ROOT / FOLDER, tmp_path / FOLDER)
    path = tmp_path / FOLDER / page
    text = path.read_text("utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, after), "utf-8")
    assert reference.outdated(tmp_path) == [f"{FOLDER}/{page}"]
    path.unlink()
    assert reference.outdated(tmp_path) == [f"{FOLDER}/{page}"]


def test_every_page_states_that_it_is_generated() -> None:
    for page in PAGES:
        assert reference.NOTE in (ROOT / FOLDER / page).read_text("utf-8").splitlines()


def test_a_setting_that_is_added_changes_the_page_or_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclasses.dataclass(frozen=True)
    class Longer(Config):
        pause_s: float = 1.5

    Longer.__doc__ = f"{inspect.cleandoc(Config.__doc__ or '')}\n    pause_s: seconds of pause.\n"
    monkeypatch.setattr(settings, "Config", Longer)
    assert "| `pause_s` | `float` | `1.5` | seconds of pause. |" in settings.page()
    Longer.__doc__ = Config.__doc__
    with pytest.raises(ValueError, match=r"Longer\.pause_s is not described"):
        settings.page()


def test_an_environment_variable_that_nobody_described_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(settings.VARIABLES, "SNAPKAFKA_LEDGER_KEY")
    with pytest.raises(ValueError, match="SNAPKAFKA_LEDGER_KEY"):
        settings.page()


def test_a_kind_of_finding_that_nobody_described_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(findings.MEANINGS, "left-late")
    with pytest.raises(ValueError, match=r"kinds without a meaning, or unknown: \['left-late'\]"):
        findings.page()


def test_notes_of_a_command_that_does_not_exist_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(commands.NOTES, "fork make", "- It makes a fork.\n")
    with pytest.raises(ValueError, match="fork make"):
        commands.page()
