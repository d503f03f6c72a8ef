"""What commands print on terminals of 40 to 200 columns: a line is too wide only where it is one word or a command."""

from __future__ import annotations

import io
import sys
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from snapkafka.cli import Screen
from snapkafka.cli.running import data_output
from snapkafka.cli.screen import Table, standard

WORDS = st.text("abcdefghij-._/ü│漢", min_size=1, max_size=90)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)
WIDTHS = st.integers(40, 200)


def too_wide(printed: str, width: int) -> list[str]:
    """Return the lines that could have been broken between words; a command is on one line, to be copied."""
    lines = [line for line in printed.splitlines() if not line.startswith("    ")]
    return [line for line in lines if cell_len(line) > width and len(line.split()) > 1]


@given(
    st.integers(1, 9).flatmap(
        lambda n: st.lists(st.lists(TEXTS, min_size=n, max_size=n), min_size=1, max_size=4)
    ),
    TEXTS,
    WIDTHS,
)
def test_a_table_fits_or_is_lines_of_names_and_values(rows: list[list[str]], note: str, width: int) -> None:
    table = Table(
        rows, *((f"column-{n}", itemgetter(n)) for n in range(len(rows[0]))), notes=lambda row: (note,)
    )
    printed = [line.plain for line in table.lines(width)]
    assert too_wide("\n".join(printed), width) == []
    words = [word for row in rows for text in (*row, note) for word in text.split()]
    shown = "\n".join(printed).split()
    assert [word for word in shown if word in set(words)] == words


@given(TEXTS, WIDTHS)
def test_a_text_keeps_all_of_its_words_in_order(text: str, width: int) -> None:
    file = io.StringIO()
    Screen(Console(width=width, file=file)).print(text)
    assert file.getvalue().split() == text.split()
    assert too_wide(file.getvalue(), width) == []


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
def test_a_locale_without_our_characters_ends_no_command(
    encoding: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    screen = standard()
    screen.console.width = width
    screen.table([("日本語", "x" * 90)], ("snapshot", itemgetter(0)), ("topic", itemgetter(1)))
    stream.flush()
    shown = stream.buffer.getvalue().decode(encoding)
    assert ("日本語" if encoding == "utf-8" else r"\u65e5\u672c\u8a9e") in shown


def test_data_is_utf_8_in_every_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    data_output().write("日本語")
    stream.flush()
    assert stream.buffer.getvalue() == "日本語".encode()
