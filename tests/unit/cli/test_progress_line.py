"""The progress of `trigger --wait`: one line, renewed on a terminal, printed once a minute elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from snapkafka.cli import Screen, progress
from snapkafka.cli.progress import progress_line, progress_lines
from snapkafka.ops import CaptureProgress
from snapkafka.ops.listing import WaitRow


def at(*texts: str, waited_ms: int = 2_000) -> CaptureProgress:
    waits = tuple(
        WaitRow(what="report", text=text, process=1, app="till", topic="", partition=-1, waited_ms=0)
        for text in texts
    )
    return CaptureProgress(id="s", waited_ms=waited_ms, done=3, needed=3 + len(waits), waits=waits)


def test_the_line_has_the_first_wait_and_the_number_of_others() -> None:
    assert progress_line(at("a", "b", "c")) == "s: 3 of 6 after 2.0 s; waiting for a and 2 more"


def test_on_a_terminal_one_line_is_renewed_and_removed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(progress, "notices", Screen(Console(file=file, force_terminal=True, width=40)))
    with progress_lines(printed=True) as notify:
        assert notify is not None
        notify(at("report of process 6", "report of process 7"))
        notify(at())
    clear = "\r\x1b[2K"
    lines = file.getvalue().split(clear)
    assert lines == ["", "s: 3 of 5 after 2.0 s; waiting for rep…", "s: 3 of 3 after 2.0 s", ""]


def test_what_is_printed_meanwhile_takes_the_place_of_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error ends the wait: it is printed before the progress is over."""
    file = io.StringIO()
    screen = Screen(Console(file=file, force_terminal=True, width=40))
    monkeypatch.setattr(progress, "notices", screen)
    with progress_lines(printed=True) as notify:
        assert notify is not None
        notify(at())
        screen.print("error: it failed")
    clear = "\r\x1b[2K"
    assert file.getvalue() == f"{clear}s: 3 of 3 after 2.0 s{clear}error: it failed\n{clear}"


def test_elsewhere_it_is_a_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, now_s = io.StringIO(), [0.0]
    monkeypatch.setattr(progress, "notices", Screen(Console(file=file, width=200)))
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    with progress_lines(printed=True) as notify:
        assert notify is not None
        for second in range(0, 181, 2):
            now_s[0] = second
            notify(at(waited_ms=second * 1_000))
    assert file.getvalue().splitlines() == [
        "s: 3 of 3 after 2.0 s",
        "s: 3 of 3 after 62.0 s",
        "s: 3 of 3 after 2 min",
    ]
