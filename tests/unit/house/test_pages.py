"""Pages are held to what is there: README, the generated reference, the page about drivers and that about rules."""

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Final

import pytest

from snapkafka.config import Config
from snapkafka.drivers import MachineDriver
from snapkafka.protocol import actions
from tests.check_rules import PAGE as RULES
from tests.check_rules import check
from tools import reference

ROOT: Final = Path(__file__).parents[3]

# -- README ---------------------------------------------------------------------------------------------------


def test_every_link_leads_somewhere() -> None:
    """Of README and of the pages for contributors; Sphinx checks those of docs/."""
    found = [
        (page, link)
        for page in ("README.md", "CONTRIBUTING.md", "SECURITY.md")
        for link in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text("utf-8"))
    ]
    assert len(found) > 10
    generated = (ROOT / ".gitignore").read_text("utf-8").split()  # by `make docs`
    assert [
        (page, link) for page, link in found if not (ROOT / link).exists() and f"/{link}" not in generated
    ] == []


def test_every_test_that_a_page_names_is_there() -> None:
    pages = [page.read_text("utf-8") for page in ROOT.glob("docs/**/*.md")]
    named = {name for page in pages for name in re.findall(r"tests/[\w/]+\.py", page)}
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


# -- docs/reference, which is generated -----------------------------------------------------------------------


def test_every_page_is_made_of_the_code() -> None:
    pages = reference.pages()
    assert "| `left-late` | unverifiable |" in pages["findings.md"]
    assert "| 9 | `offsets-gone` |" in pages["errors.md"]
    assert "## fork create\n" in pages["commands.md"]


def test_what_nobody_has_described_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclasses.dataclass(frozen=True)
    class Longer(Config):
        pause_s: float = 1.5

    Longer.__doc__ = Config.__doc__
    with monkeypatch.context() as patch:
        patch.setattr(reference, "Config", Longer)
        with pytest.raises(ValueError, match="pause_s"):
            reference.settings_page()
    monkeypatch.delitem(reference.VARIABLES, "SNAPKAFKA_CACHE")
    with pytest.raises(ValueError, match="SNAPKAFKA_CACHE"):
        reference.settings_page()


# -- docs/explanation/drivers.md ------------------------------------------------------------------------------

PAGE: Final = (ROOT / "docs/explanation/drivers.md").read_text("utf-8")


def test_the_example_takes_part_in_a_snapshot(capsys: pytest.CaptureFixture[str]) -> None:
    code = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert len(code) == 6, "the steps of the page"
    exec(compile("\n".join(code), "drivers.md", "exec"), {})
    (printed,) = re.findall(r"^```\n(monday .*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert capsys.readouterr().out == printed


def test_the_loop_on_the_page_names_each_action_and_its_hook() -> None:
    (loop,) = re.findall(r"^```\n(def feed.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert len(loop.splitlines()) <= 21
    names = {
        name for name, kind in vars(actions).items() if getattr(kind, "__module__", "") == actions.__name__
    }
    assert len(names) > 6
    for action in names:
        assert action in loop
    for hook in MachineDriver.__abstractmethods__:
        assert f"{hook}(" in loop
    assert "return self.do(actions, us=" in inspect.getsource(MachineDriver.feed), (
        "the page shows what is there"
    )


# -- docs/explanation/protocol.md -----------------------------------------------------------------------------

TEXT: Final = (ROOT / RULES).read_text("utf-8")


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("", "", ""),
        ("## R4: ", "## Four: ", "R4 has no section"),
        ("## R4: ", "## R44: ", "there is no rule R44"),
        ("`r12-the-dead.txt`", "`r12-gone.txt`", "R12 names no scenario that opens with it"),
        ("`r12-the-dead.txt`", "`r1-anyone-triggers.txt`", "R12 names no scenario that opens with it"),
    ],
)
def test_what_is_missing_is_named(before: str, after: str, problem: str) -> None:
    assert before in TEXT
    found = check(ROOT, TEXT.replace(before, after, 1))
    assert problem in found if problem else found == []


def test_a_rule_that_does_not_exist_is_cited_nowhere(tmp_path: Path) -> None:
    (tmp_path / "snapkafka").mkdir()
    (tmp_path / "snapkafka/value.py").write_text('"""As R99 has it, and R15."""\n')
    assert "snapkafka/value.py cites R99, which is no rule" in check(tmp_path, "")
