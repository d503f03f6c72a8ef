"""Tables and texts in the width of a terminal.

No word is broken, nothing is elided: a table that does not fit is printed as lines of a name and a value, as psql does
by `\\x auto`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from rich.text import Text

from snapkafka.units import DAY_MS, rounded_ms, utc_time

#: What is printed: a text as it is, or one with a style. Rich's markup is never parsed: it would change data.
Part = str | tuple[str, str]
#: One part, or a list of parts that stand side by side.
Line = Part | list[Part]
#: `name` or `heading=name` of a field, with `:` and how it is formatted; or a heading with what computes its cell.
Column = str | tuple[str, Callable[[Any], Any]]

#: Between columns.
GAP: Final = "  "
#: Lines that continue a text or follow a row begin so far to the right.
HANG: Final = 2
#: Milliseconds above are a moment; below, a duration.
SINCE_1970_MS: Final = 1_000 * DAY_MS
#: A column of these is flush right.
NUMBER: Final = re.compile(r"(-?\d[\d,.]*( (us|ms|s|min))?)?")
#: The style of a word for an outcome, wherever it is a cell.
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
        notes: the lines below the row of an item.
        whole: also print columns without any value.
    """

    def __init__(
        self,
        items: Iterable[Any],
        *columns: Column,
        notes: Callable[[Any], Iterable[Line]] = lambda item: (),
        whole: bool = False,
    ) -> None:
        rows = list(items)
        self._notes = [list(map(text_of, notes(row))) for row in rows]
        self._columns: list[tuple[Text, bool, list[Text]]] = []
        for column in columns:
            heading, value = _column(column)
            cells = [_cell(value(row)) for row in rows]
            if whole or any(cell.plain for cell in cells):
                right = all(NUMBER.fullmatch(cell.plain) for cell in cells)
                self._columns.append((text_of((heading, "bold")), right, cells))

    def __len__(self) -> int:
        return len(self._notes)

    def lines(self, width: int) -> Iterator[Text]:
        """Yield the lines of the table."""
        widths = [max(cell.cell_len for cell in (name, *cells)) for name, _, cells in self._columns]
        rule = sum(widths) + len(GAP) * (len(widths) - 1)
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
        found = getattr(item, name)
        if spec and found is not None:
            return format(found, spec)
        return _written(name, found)

    return heading.replace("_", " ").removesuffix(" ms"), value


def _written(name: str, value: Any) -> Any:
    """Format the value of a field as people read it: by the unit in its name, or its type."""
    if value is None or isinstance(value, str):
        return value
    if name.endswith("_ms"):
        return f"{utc_time(value)}Z" if value > SINCE_1970_MS else rounded_ms(value)
    if name.endswith("_us"):
        return f"{value} us"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, bool):
        return "yes" if value else ""
    return str(value) if isinstance(value, int | float) else ", ".join(map(str, value))


def _cell(value: Any) -> Text:
    if value is None:
        return Text()
    if isinstance(value, str):
        return text_of((value, COLOURS.get(value, "")))
    return text_of(value if isinstance(value, tuple | list) else str(value))


def printable(text: str) -> str:
    """Escape what a terminal would obey, or would not show: anybody may have written it into a topic."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def text_of(*parts: Line) -> Text:
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
