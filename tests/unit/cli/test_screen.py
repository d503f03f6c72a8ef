"""What commands print on terminals of 40 to 200 columns: a line is too wide only where it is one word or a command; and
the progress of `trigger --wait`: one line, renewed on a terminal, printed once a minute elsewhere."""

import io
import os
import subprocess
import sys
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from snapkafka.cli import Screen, console, running
from snapkafka.cli.running import data_output, progress_lines
from snapkafka.cli.screen import Table, standard
from snapkafka.errors import OutputError
from snapkafka.ops import CaptureProgress
from snapkafka.ops.info import WaitRow

WORDS = st.text("abcdefghij-._/ü│漢", min_size=1, max_size=90)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)
WIDTHS = st.integers(40, 200)


def too_wide(printed: str, width: int) -> list[str]:
    """Return the lines that could have been broken between words; a command is on one line, to be copied."""
    lines = [line for line in printed.splitlines() if not line.startswith("    ")]
    return [line for line in lines if cell_len(line) > width and len(line.split()) > 1]


ROWS = st.integers(1, 9).flatmap(
    lambda n: st.lists(st.lists(TEXTS, min_size=n, max_size=n), min_size=1, max_size=4)
)


@given(ROWS, TEXTS, WIDTHS)
def test_what_is_too_wide_is_broken_and_keeps_its_words(rows: list[list[str]], note: str, width: int) -> None:
    """A table that does not fit is lines of names and values."""
    columns = [(f"column-{n}", itemgetter(n)) for n in range(len(rows[0]))]
    printed = "\n".join(line.plain for line in Table(rows, *columns, notes=lambda row: (note,)).lines(width))
    assert too_wide(printed, width) == []
    words = [word for row in rows for text in (*row, note) for word in text.split()]
    assert [word for word in printed.split() if word in set(words)] == words
    file = io.StringIO()
    Screen(Console(width=width, file=file)).print(note)
    assert file.getvalue().split() == note.split()
    assert too_wide(file.getvalue(), width) == []


def test_the_word_of_an_outcome_is_coloured_and_data_is_not() -> None:
    rows = [{"table": "passed", "key": "failed", "status": "passed"}]
    *_, row = Table(rows, "table", ("key", itemgetter("key")), "status").lines(80)
    (span,) = row.spans
    assert (row.plain[span.start :], span.style) == ("passed", "green")
    assert span.start == row.plain.rindex("passed")


HOSTILE = "a\x1b[2J\x1b]0;b\x07c\x9b2Jd\r\u202ee\tf"
ESCAPED = r"a\x1b[2J\x1b]0;b\x07c\x9b2Jd\r\u202ee\tf"


def test_what_a_terminal_would_obey_is_escaped_wherever_it_is_printed() -> None:
    file = io.StringIO()
    screen = Screen(Console(width=80, file=file))
    screen.begin("list")
    screen.print(HOSTILE, ("", "red"), (HOSTILE, "red"))
    screen.table([f"{HOSTILE}\n"], (HOSTILE, str), notes=lambda row: (HOSTILE,))
    screen.console.width = 20
    screen.command(f"a command is on one line, to be copied {HOSTILE}", indent=4)
    rule = "-" * (len(ESCAPED) + 2)
    *before, command = file.getvalue().splitlines()
    assert " ".join(before).split() == f"{ESCAPED * 2} {ESCAPED} {rule} {ESCAPED}\\n {ESCAPED}".split()
    assert command == f"    a command is on one line, to be copied {ESCAPED}"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("width", [1, 20, 80])
def test_no_locale_ends_a_command(encoding: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And data is UTF-8 in any."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    screen = standard()
    screen.console.width = width
    screen.table([("日本語", "x" * 90)], ("snapshot", itemgetter(0)), ("topic", itemgetter(1)))
    stream.flush()
    shown = stream.buffer.getvalue()
    assert ("日本語" if encoding == "utf-8" else r"\u65e5\u672c\u8a9e") in shown.decode(encoding)
    data_output().write("日本語")
    stream.flush()
    assert stream.buffer.getvalue() == shown + "日本語".encode()


def progress(monkeypatch: pytest.MonkeyPatch, *reached: tuple[int, tuple[str, ...]], **terminal: Any) -> str:
    """What is printed of a snapshot: at which seconds it waits for what; after the last comes an error."""
    file, now_s = io.StringIO(), [0]
    monkeypatch.setattr(console, "as_json", False)
    monkeypatch.setattr(running, "notices", Screen(Console(file=file, _environ={}, **terminal)))
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    with progress_lines() as notify:
        assert notify is not None
        for now_s[0], texts in reached:
            waits = tuple(WaitRow(text=text, process=1, app="till", waited_ms=0) for text in texts)
            of: Any = {"waited_ms": now_s[0] * 1_000, "waits": waits}
            notify(CaptureProgress(id="s", done=3, needed=3 + len(waits), **of))
        running.notices.print("error: it failed")
    return file.getvalue()


def test_on_a_terminal_one_line_is_renewed_and_removed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed meanwhile, such as an error, stays."""
    waits = 2, ("report of process 6", "report of process 7")
    shown = progress(monkeypatch, waits, width=40, force_terminal=True)
    assert "s: 3 of 5 after 2.0 s; waiting for" in shown and "and 1 more" in shown
    assert "error: it failed\n" in shown
    assert shown.endswith("\x1b[2K")


def test_elsewhere_it_is_a_line_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = progress(monkeypatch, *((second, ()) for second in range(0, 181, 2)), width=200).splitlines()
    assert lines[:-1] == ["s: 3 of 3 after 2.0 s", "s: 3 of 3 after 62.0 s", "s: 3 of 3 after 2 min"]


JSON = "from snapkafka.cli import running as r\n    r.console.as_json = True\n    r.run(lambda: r.print_json({}))"


@pytest.mark.parametrize("code", ["print('a')", JSON])
def test_standard_output_on_a_full_disk_is_an_error_by_name(code: str) -> None:
    program = f"from snapkafka.cli import main, verbs\ndef app(**_):\n    {code}\nverbs.app = app\nmain()"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (OutputError.exit_status, 2), done.stderr


def test_whoever_read_the_log_may_be_gone_and_the_work_goes_on() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    work = "from snapkafka.cli.running import notices\nfor _ in 1, 2: notices.print('a')\nprint('done')"
    with os.fdopen(writer, "w") as gone:
        ended = subprocess.run([sys.executable, "-c", work], stdout=subprocess.PIPE, stderr=gone)
    assert (ended.stdout, ended.returncode) == (b"done\n", 0)
