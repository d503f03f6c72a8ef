"""What commands print: texts, tables and results, in the width of a terminal.

No word is broken, nothing is elided: a table that does not fit is printed as lines of a name and a value, as psql does
by `\\x auto`. In a pipe nothing is wrapped: `grep` and `cut` read it.
"""

from __future__ import annotations

import dataclasses
import io
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.text import Text

from snapkafka.kafka.cluster.restorable import in_words
from snapkafka.manifest import RestorableEntry, WitnessEntry
from snapkafka.units import DAY_MS, format_bytes, rounded_ms, utc_time, wall_ms

#: What is printed: a text as it is, or one with a style. Rich's markup is never parsed: it would change data.
Part = str | tuple[str, str]
#: `name` or `heading=name` of a field, with `:` and how it is formatted; or a heading with what computes its cell.
Column = str | tuple[str, Callable[[Any], Any]]

#: The width where nothing is wrapped.
UNBOUNDED: Final = 1_000_000
#: Between columns.
GAP: Final = "  "
#: Lines that continue a text or follow a row begin so far to the right.
HANG: Final = 2
#: Milliseconds above are a moment; below, a duration.
SINCE_1970_MS: Final = 1_000 * DAY_MS
#: Where a table of a result ends; `--json` has all of it.
ROWS_SHOWN: Final = 40
#: What people call a field, where that is not its name.
LABELS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("notes", "not_compared"), "note"),
    "unread": "warning",
    "heard": "learned from",
    "capture_ms": "captured in",
    "stored": "external records",
    "again": "run again",
    "absent": "not restored",
    "irrevocable": "cannot be undone",
}
#: A column of these is flush right.
NUMBER: Final = re.compile(r"(-?\d[\d,.]*( (us|ms|s|min))?)?")
#: Fields of results that are for programs.
HIDDEN: Final = frozenset(
    """answers content digest external good idle left_open of_fork open outsiders place request says seq settings source
    strict title trust work""".split()  # noqa: SIM905
)
#: The style of a word for an outcome, in a column of these headings.
OUTCOMES: Final = ("status", "verdict", "state")
COLOURS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("INITIATED", "CAPTURING", "not yet"), "cyan"),
    **dict.fromkeys(("COMPLETED", "VERIFIED", "VERIFIED_WITH_REPLAYS", "VERIFIED_OPEN"), "green"),
    **dict.fromkeys(("passed", "holds", "done", "same", "equal", "verified"), "green"),
    **dict.fromkeys(("CAPTURED", "UNVERIFIABLE", "unverifiable", "unproven", "not-run", "warning"), "yellow"),
    **dict.fromkeys(("FAILED", "failed", "INCONSISTENT", "violated", "not good", "problem"), "bold red"),
    **dict.fromkeys(("not run", "note"), "dim"),
}


class Table:
    """Rows of values in columns. Numbers are flush right.

    Args:
        items: one for each row.
        columns: none: the fields of the items; those that are lists are lines below the row.
        notes: the lines below the row of an item.
        whole: also print columns without any value.
    """

    def __init__(
        self,
        items: Iterable[Any],
        *columns: Column,
        notes: Callable[[Any], Iterable[Any]] | None = None,
        whole: bool = False,
    ) -> None:
        rows = list(items)
        if not columns:
            lists = {name for row in rows for name, value in _fields(row) if _is_list(value)}
            columns = tuple(
                dict.fromkeys(name for row in rows for name, _ in _fields(row) if name not in lists)
            )
            notes = notes or (
                lambda row: (written("", it) for n, v in _fields(row) if n in lists for it in v)
            )
        notes = notes or (lambda row: ())
        self._notes = [list(map(text_of, notes(row))) for row in rows]
        self._columns: list[tuple[Text, bool, list[Text]]] = []
        for column in columns:
            heading, value = _column(column)
            cells = [_cell(value(row), coloured=heading in OUTCOMES) for row in rows]
            if whole or any(cell.plain for cell in cells):
                right = all(NUMBER.fullmatch(cell.plain) for cell in cells)
                self._columns.append((text_of((heading, "bold")), right, cells))

    def __len__(self) -> int:
        return len(self._notes)

    def lines(self, width: int, *, flat: bool = True) -> Iterator[Text]:
        """Yield the lines of the table. `flat`: False: as lines of a name and a value in any case."""
        widths = [max(cell.cell_len for cell in (name, *cells)) for name, _, cells in self._columns]
        rule = sum(widths) + len(GAP) * (len(widths) - 1) if flat else width + 1
        if rule <= width:
            yield self._line([name for name, _, _ in self._columns], widths)
            yield Text("-" * rule, style="dim")
        for nth, notes in enumerate(self._notes):
            cells = [column[nth] for _, _, column in self._columns]
            if rule <= width:
                yield self._line(cells, widths)
            else:
                yield from ([Text()] if nth else [])
                yield from self._vertical(cells, width)
            for note in notes:
                yield from wrapped(Text(" " * HANG) + note, width, hang=2 * HANG)

    def _line(self, cells: list[Text], widths: list[int]) -> Text:
        line = Text()
        for cell, width, (_, right, _) in zip(cells, widths, self._columns, strict=True):
            blanks = Text(" " * (width - cell.cell_len))
            line.append_text(blanks + cell if right else cell + blanks).append(GAP)
        line.rstrip()
        return line

    def _vertical(self, cells: list[Text], width: int) -> Iterator[Text]:
        """Yield a line for each value that is not empty."""
        names = max(name.cell_len for name, _, _ in self._columns)
        for (name, _, _), cell in zip(self._columns, cells, strict=True):
            if cell.plain:
                label = name + Text(" " * (names - name.cell_len) + GAP)
                yield from wrapped(label + cell, width, hang=names + len(GAP))


def _column(column: Column) -> tuple[str, Callable[[Any], Any]]:
    if not isinstance(column, str):
        return column
    column, _, spec = column.partition(":")
    heading, _, name = column.partition("=")
    name = name or heading

    def value(item: Any) -> Any:
        found = item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)
        return format(found, spec) if spec and found is not None else written(name, found)

    return _label(heading), value


def _label(name: str) -> str:
    return LABELS.get(name) or re.sub("_(ms|us|s)$", "", name).replace("_", " ")


def written(name: str, value: Any) -> str:
    """Format the value of a field as people read it: by the unit in its name, or its type; empty: it says nothing."""
    if value is None or isinstance(value, str):
        return f"{value[:16].replace('T', ' ')}Z" if value and name.endswith("_at") else value or ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int | float):
        return _number(name, value)
    if isinstance(value, WitnessEntry):
        place = f"{value.topic}[{value.partition}] offset {value.offset}: " if value.offset >= 0 else ""
        return place + value.what
    if isinstance(value, RestorableEntry):
        return in_words(value, wall_ms()).removeprefix("restorable ")
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={written(key, item)}" for key, item in value.items())
    if isinstance(value, Collection) and not _is_struct(value):
        return ", ".join(written(name, item) for item in value)
    if _is_sentence(value):
        return str(value)
    name = getattr(value, "id", "")
    return str(name) if name else ", ".join(filter(None, (written(key, it) for key, it in _fields(value))))


def _number(name: str, value: float) -> str:
    if name in ("created_ms", "expires_ms", "taken_ms") and not value:
        return ""  # unknown, or never
    if name.endswith("_ms"):
        return f"{utc_time(round(value))}Z" if value > SINCE_1970_MS else rounded_ms(value)
    if name.endswith("_us"):
        return f"{value} us"
    if name == "seconds" or name.endswith("_s"):
        return rounded_ms(value * 1_000)
    if name == "bytes":
        return format_bytes(round(value)) if value else ""
    return "" if value == -1 else str(value)


def _is_struct(value: Any) -> bool:
    return isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value) or hasattr(value, "_fields")


def _is_sentence(value: Any) -> bool:
    kind: Any = type(value)
    return kind.__str__ is not object.__str__


def _is_list(value: Any) -> bool:
    """Return whether a value has lines or rows of its own: structs, or sentences."""
    items = () if isinstance(value, str | Mapping) or _is_struct(value) else value
    return isinstance(items, Collection) and any(_is_struct(it) or " " in str(it) for it in items)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a struct, or of a mapping, that people read."""
    if isinstance(value, Mapping):
        yield from value.items()
        return
    names = getattr(value, "__struct_fields__", None) or getattr(value, "_fields", None)
    for name in names or [field.name for field in dataclasses.fields(value)]:
        if name not in HIDDEN:
            yield name, getattr(value, name)


def _cell(value: Any, *, coloured: bool) -> Text:
    text = "" if value is None else str(value)
    return text_of((text, COLOURS.get(text, "") if coloured else ""))


def headline(found: Any) -> list[Part]:
    """Return the parts of the line about a snapshot that a result begins with; empty: it is about none."""
    name = getattr(found, "id", "") or getattr(found, "snapshot", "")
    if not name or not hasattr(found, "epoch"):
        return []
    words = [str(word) for word in (getattr(found, "status", ""), getattr(found, "verdict", "")) if word]
    head: list[Part] = ["snapshot ", (name, "bold"), f"  epoch {found.epoch}"]
    return head + [part for word in words for part in ("  ", (word, COLOURS.get(word, "")))]


def printable(text: str) -> str:
    """Escape what a terminal would obey, or would not show: anybody may have written it into a topic."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def text_of(*parts: Part | list[Part]) -> Text:
    """Return what is printed, with its styles."""
    found = Text()
    for part in parts:
        if isinstance(part, list):
            found.append_text(text_of(*part))
        elif isinstance(part, str):
            found.append(printable(part))
        else:
            found.append(printable(part[0]), part[1])
    return found


def wrapped(text: Text, width: int, *, hang: int = 0) -> list[Text]:
    """Break a text between words; a word that is longer than a line has one of its own.

    Args:
        hang: blanks before all lines except the first.
    """
    found: list[Text] = []
    begin = end = 0
    for word in re.finditer(r"\S+", text.plain):
        line = Text(" " * hang if found else "") + text[begin : word.end()]
        if end and line.cell_len > width:
            found.append(Text(" " * hang if found else "") + text[begin:end])
            begin = word.start()
        end = word.end()
    return [*found, Text(" " * hang if found else "") + text[begin:end]]


class Screen:
    """Standard output or standard error, as people read it.

    Attributes:
        of: the command that prints, without the word `snapkafka`; empty: none.
        continues: a sentence on what continues though the command is interrupted.
        as_json: whether its result and its error are printed as JSON; `in_lines`: on lines of their own.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.begin("")

    def begin(self, command: str, *, as_json: bool = False, in_lines: bool = False) -> None:
        """Begin the output of a command."""
        self.of, self.as_json, self.in_lines = command, as_json, in_lines
        self.continues = ""
        self._begun = self._after_table = False

    def print(self, *parts: Part, style: str = "", hang: int | None = None) -> None:
        """Print a text of parts, each as it is or with a style.

        Args:
            style: of the whole text.
            hang: blanks before lines that continue the text. Default: two more than before its first one.
        """
        text = text_of(*parts)
        text.stylize(style)
        blanks = len(text.plain) - len(text.plain.lstrip(" "))
        self._break()
        self._lines(wrapped(text, self.console.width, hang=blanks + HANG if hang is None else hang))

    def note(self, head: str, lines: Iterable[object], style: str = "yellow") -> None:
        """Print lines that begin with the same word."""
        for line in lines:
            self.print((f"{head}:", style), f" {line}")

    def table(
        self, items: Iterable[Any], *columns: Column, title: str = "", most: int | None = None, **more: Any
    ) -> None:
        """Print a table (see `Table`) of so many items at most, between empty lines; without items only if it is
        `whole`: its headings."""
        there = list(items)
        if (rows := Table(there[:most], *columns, **more)) or more.get("whole"):
            self._break(before_table=True)
            self._lines([text_of((title, "bold"))] if title else [])
            self._lines(rows.lines(self.console.width))
            self._after_table = True
        if hidden := len(there) - len(rows):
            self.print(f"{hidden:,} more: --json has them", style="dim")

    def show(self, found: Any, without: Collection[str] = ()) -> None:
        """Print a result: its values as lines of a name and a value, its lists of sentences as lines, its lists of
        structs as tables. One that is a list of structs is a table itself.

        Args:
            without: fields that are left out.
        """
        if isinstance(found, list | tuple) and not _is_struct(found):
            self.table(found)
            return
        if head := headline(found):
            self.print(*head)
        shown = [(name, value) for name, value in _fields(found) if name not in without]
        single = {n: "no" if v is False else written(n, v) for n, v in shown if not _is_list(v)}
        for name in ("id", "snapshot", "epoch", "status", "verdict") if head else ():
            single.pop(name, None)
        if any(single.values()):
            self._break()
            self._lines(Table([single], *single).lines(self.console.width, flat=False))
        for name, value in shown:
            if not _is_list(value):
                continue
            if all(map(_is_sentence, value)):
                self.note(_label(name), value)
                continue
            self.table(value, title=_label(name), most=ROWS_SHOWN)

    def command(self, command: str, *, indent: int = 0) -> None:
        """Print a command on one line, however long: it is meant to be copied."""
        self._break()
        self._lines([Text(" " * indent + printable(command))])

    def _break(self, *, before_table: bool = False) -> None:
        if self._begun and (before_table or self._after_table):
            self.console.print()
        self._begun, self._after_table = True, False

    def _lines(self, lines: Iterable[Text]) -> None:
        for line in lines:
            self.console.print(line, soft_wrap=True)


def standard(*, error: bool = False) -> Screen:
    """Return standard output, or standard error; without bounds unless it is a terminal."""
    stream = sys.stderr if error else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")  # a name that the locale lacks ends no command
    bounded = stream is not None and stream.isatty()
    width = None if bounded else UNBOUNDED
    kind = Unread if error else Console
    return Screen(kind(stderr=error, width=width, highlight=False, markup=False, emoji=False))


class Unread(Console):
    """Standard error, whose reader may be gone: then nothing is printed, and what runs goes on to its end."""

    def on_broken_pipe(self) -> None:
        """Print nothing more, where rich would end us in the middle of whatever we clean up."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
