"""docs/explanation/drivers.md: its example runs, and prints what the page says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Final

import pytest

from snapkafka.drivers import MachineDriver
from snapkafka.protocol import actions

PAGE: Final = (Path(__file__).resolve().parents[3] / "docs" / "explanation" / "drivers.md").read_text("utf-8")


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
