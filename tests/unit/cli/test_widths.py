"""What commands print on terminals of 40 to 200 columns: no line is wider, and no word is broken."""

from __future__ import annotations

import io
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape

from snapkafka.cli.present.layout import Table, command_lines
from snapkafka.cli.running import data_output
from snapkafka.cli.screen import UNBOUNDED, Screen, standard
from tests.golden.calls import texts

LONG = "-of-the-northern-warehouses-and-their-suppliers"
WORDS = st.text("abcdefghij-._/ü…│漢", min_size=1, max_size=90)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)
WIDTHS = st.integers(40, 200)


def broken(printed: str, whole: set[str], width: int) -> list[str]:
    """Return the lines that are too wide though they could be broken, and those with a part of a word."""
    return [line for line in printed.splitlines() if _too_wide(line, width) or not _whole(line, whole)]


def _too_wide(line: str, width: int) -> bool:
    """A word that is longer than a line has one of its own; a command ends it with a backslash."""
    return cell_len(line) > width and len(line.removesuffix(" \\").split()) > 1


def _whole(line: str, whole: set[str]) -> bool:
    return all(
        word in whole
        or word == "\\"  # where a command continues
        or set(word) == {"─"}
        or (word.endswith("…") and any(other.startswith(word[:-1]) for other in whole))
        for word in line.split()
    )


@pytest.fixture(scope="module")
def unbounded() -> dict[str, str]:
    return texts(UNBOUNDED, LONG)


@pytest.mark.parametrize(
    "width",
    [40, pytest.param(57, marks=pytest.mark.nightly), 80, pytest.param(133, marks=pytest.mark.nightly), 200],
)
def test_no_line_of_a_verb_is_wider_than_the_terminal_and_no_word_is_broken(
    unbounded: dict[str, str], width: int
) -> None:
    for name, printed in texts(width, LONG).items():
        assert broken(printed, set(unbounded[name].split()), width) == [], name


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9).flatmap(
        lambda n: st.lists(st.lists(TEXTS, min_size=n, max_size=n), min_size=1, max_size=4)
    ),
    TEXTS,
    WIDTHS,
    st.booleans(),
    st.booleans(),
)
def test_a_table_fits_or_is_vertical(
    rows: list[list[str]], note: str, width: int, vertical: bool, values: bool
) -> None:
    names = [f"column {n}" for n in range(len(rows[0]))]
    table = Table(*names, values=values)
    for row in rows:
        table.add(*map(escape, row), notes=(escape(note),))
    printed = [line.plain for line in table.lines(width, vertical=vertical)]
    whole = {
        word for text in (*names, *(cell for row in rows for cell in row), note) for word in text.split()
    }
    assert all(cell_len(line) <= width or len(line.split()) == 1 for line in printed)
    assert all(_whole(line, whole) for line in printed)


@given(TEXTS, WIDTHS)
def test_a_text_keeps_all_of_its_words_in_order(text: str, width: int) -> None:
    file = io.StringIO()
    Screen(Console(width=width, file=file)).print(text, markup=False)
    assert file.getvalue().split() == text.split()
    assert broken(file.getvalue(), set(text.split()), width) == []


@given(st.lists(st.text("abcxyz-", min_size=1, max_size=60), min_size=1, max_size=12), WIDTHS)
def test_a_command_is_the_same_when_it_is_copied(words: list[str], width: int) -> None:
    lines = [line.plain for line in command_lines(" ".join(words), width, indent=4)]
    assert re.sub(r" \\\n *", " ", "\n".join(lines)).split() == words
    assert all(cell_len(line) <= width or len(line.removesuffix(" \\").split()) == 1 for line in lines)


def test_a_table_that_does_not_fit_is_printed_as_lines_of_name_and_value() -> None:
    table = Table("snapshot", "verdict", "found", right=("found",), ids=("snapshot",))
    table.add("nightly-0", "VERIFIED", "3", notes=("V5: ran twice",))
    table.add("x" * 38, "", "12,345")
    assert [line.plain for line in table.lines(40)] == [
        "snapshot  nightly-0",
        "verdict   VERIFIED",
        "found     3",
        "  V5: ran twice",
        "",
        f"snapshot  {'x' * 29}…",
        "found     12,345",
    ]


def test_a_number_stays_beside_its_unit() -> None:
    file = io.StringIO()
    Screen(Console(width=24, file=file)).print("Kafka drops them after 60 s, or 1,024 MB.")
    assert file.getvalue() == "Kafka drops them after\n  60 s, or 1,024 MB.\n"


def test_texts_and_tables_are_apart_by_one_empty_line() -> None:
    file = io.StringIO()
    screen = Screen(Console(width=40, file=file))
    table = Table("app")
    table.add("shop")
    screen.begin("list")
    for item in (table, table, "one", "two", table):
        screen.print(item)
    assert file.getvalue() == "app\n────\nshop\n\napp\n────\nshop\n\none\ntwo\n\napp\n────\nshop\n"


def test_wide_prints_whole_cells_and_vertical_a_line_for_each() -> None:
    def printed(*, wide: bool = False, vertical: bool = False) -> str:
        file = io.StringIO()
        screen = Screen(Console(width=40, file=file))
        screen.begin("list", wide=wide, vertical=vertical)
        table = Table("app", "topic")
        table.add("a" * 30, "b" * 30)
        screen.print(table)
        return file.getvalue()

    assert "…" in printed()
    assert f"{'a' * 30}  {'b' * 30}" in printed(wide=True)
    assert printed(wide=True, vertical=True) == f"app    {'a' * 30}\ntopic  {'b' * 30}\n"


HOSTILE = "a\x1b[2J\x1b]0;b\x07c\x9b2Jd\r\u202ee\tf"
ESCAPED = r"a\x1b[2J\x1b]0;b\x07c\x9b2Jd\r\u202ee\tf"


def test_what_a_terminal_would_obey_is_escaped_wherever_it_is_printed() -> None:
    def printed(item: str | Table, *, markup: bool = True) -> str:
        file = io.StringIO()
        Screen(Console(width=80, file=file)).print(item, markup=markup)
        return file.getvalue()

    table = Table(HOSTILE)
    table.add(f"{escape(HOSTILE)}\n", notes=(escape(HOSTILE),))
    file = io.StringIO()
    screen = Screen(Console(width=80, file=file))
    screen.command(HOSTILE)
    screen.renew(HOSTILE)
    assert printed(escape(HOSTILE)) == printed(HOSTILE, markup=False) == f"{ESCAPED}\n"
    assert printed(table).splitlines() == [ESCAPED, "─" * (len(ESCAPED) + 2), rf"{ESCAPED}\n", f"  {ESCAPED}"]
    assert file.getvalue() == f"{ESCAPED}\n\r\x1b[2K{ESCAPED}"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("width", [1, 20, 80])
def test_a_locale_without_our_characters_ends_no_command(
    encoding: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    screen = standard()
    screen.width = width
    table = Table("snapshot", "topic")
    table.add("日本語", "x" * 90)
    screen.print(table)
    stream.flush()
    shown = stream.buffer.getvalue().decode(encoding)
    assert ("…" in shown) == (encoding == "utf-8")
    assert ("~" in shown) == (encoding != "utf-8")
    if width == 80:
        assert ("日本語" if encoding == "utf-8" else r"\u65e5\u672c\u8a9e") in shown


def test_data_is_utf_8_in_every_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    data_output().write("日本語")
    stream.flush()
    assert stream.buffer.getvalue() == "日本語".encode()
