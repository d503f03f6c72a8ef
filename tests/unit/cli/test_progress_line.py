"""The progress of `trigger --wait`: one line, renewed on a terminal, printed once a minute elsewhere."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from snapkafka.cli import Screen, console, running
from snapkafka.cli.running import progress_lines
from snapkafka.errors import OutputError
from snapkafka.ops import CaptureProgress
from snapkafka.ops.info import WaitRow


def at(*texts: str, waited_ms: int = 2_000) -> CaptureProgress:
    waits = tuple(WaitRow(text=text, process=1, app="till", waited_ms=0) for text in texts)
    return CaptureProgress(id="s", waited_ms=waited_ms, done=3, needed=3 + len(waits), waits=waits)


def test_on_a_terminal_one_line_is_renewed_and_removed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed meanwhile, such as an error, stays."""
    file = io.StringIO()
    screen = Screen(Console(file=file, force_terminal=True, width=40, _environ={}))
    monkeypatch.setattr(console, "as_json", False)
    monkeypatch.setattr(running, "notices", screen)
    with progress_lines() as notify:
        assert notify is not None
        notify(at("report of process 6", "report of process 7"))
        screen.print("error: it failed")
    shown = file.getvalue()
    assert "s: 3 of 5 after 2.0 s; waiting for" in shown and "and 1 more" in shown
    assert "error: it failed\n" in shown
    assert shown.endswith("\x1b[2K")


def test_elsewhere_it_is_a_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, now_s = io.StringIO(), [0.0]
    monkeypatch.setattr(console, "as_json", False)
    monkeypatch.setattr(running, "notices", Screen(Console(file=file, width=200)))
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    with progress_lines() as notify:
        assert notify is not None
        for second in range(0, 181, 2):
            now_s[0] = second
            notify(at(waited_ms=second * 1_000))
    assert file.getvalue().splitlines() == [
        "s: 3 of 3 after 2.0 s",
        "s: 3 of 3 after 62.0 s",
        "s: 3 of 3 after 2 min",
    ]


@pytest.mark.parametrize(
    "code",
    [
        "print('a')",
        "from snapkafka.cli import running as r\n    r.console.as_json = True\n    r.run(lambda: r.print_json({}))",
    ],
)
def test_standard_output_on_a_full_disk_is_an_error_by_name(code: str) -> None:
    program = f"from snapkafka.cli import main, verbs\ndef app(**_):\n    {code}\nverbs.app = app\nmain()"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr.count("\n")) == (OutputError.exit_status, 2), done.stderr


def test_whoever_read_the_log_may_be_gone_and_the_work_goes_on() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    work = "from snapkafka.cli.running import notices\nfor _ in 1, 2: notices.print('a')\nprint('done')"
    with os.fdopen(writer, "w") as gone:
        ended = subprocess.run([sys.executable, "-c", work], stdout=subprocess.PIPE, stderr=gone, check=False)
    assert (ended.stdout, ended.returncode) == (b"done\n", 0)
