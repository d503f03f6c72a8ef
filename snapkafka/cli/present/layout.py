"""Tables and texts in the width of a terminal.

No word is broken, nothing is elided: a table that does not fit is printed as lines of a name and a value, as psql does
by `\\x auto`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from rich.text import Text

#: What is printed: a text as it is, or one with a style. Rich's markup is never parsed: it would change data.
Part = str | tuple[str, str]
#: One part, or a list of parts that stand side by side.
Line = Part | list[Part]

#: Between columns.
GAP: Final = "  "
#: Lines that continue a text or follow a row begin so far to the right.
HANG: Final = 2


class Table:
    """Rows in columns.

    Args:
        columns: their names.
        right: those whose cells are numbers: flush right.
    """

    def __init__(self, *columns: str, right: Collection[str] = ()) -> None:
        self._columns = [text_of((name, "bold")) for name in columns]
        self._right = [name in right for name in columns]
        self._rows: list[tuple[list[Text], list[Text]]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, *cells: Line, notes: Iterable[Line] = ()) -> None:
        """Append a row; its notes are lines below it."""
        self._rows.append((list(map(text_of, cells)), list(map(text_of, notes))))

    def lines(self, width: int) -> Iterator[Text]:
        """Yield the lines of the table."""
        columns = zip(self._columns, *(cells for cells, _ in self._rows), strict=True)
        widths = [max(cell.cell_len for cell in column) for column in columns]
        fits = sum(widths) + len(GAP) * (len(widths) - 1) <= width
        if fits:
            yield self._line(self._columns, widths)
            yield Text("-" * (sum(widths) + len(GAP) * (len(widths) - 1)), style="dim")
        for nth, (cells, notes) in enumerate(self._rows):
            if fits:
                yield self._line(cells, widths)
            else:
                yield from ([Text()] if nth else [])
                yield from self._vertical(cells, width)
            for note in notes:
                yield from wrapped(Text(" " * HANG) + note, width, hang=2 * HANG)

    def _line(self, cells: list[Text], widths: list[int]) -> Text:
        line = Text()
        for cell, width, right in zip(cells, widths, self._right, strict=True):
            blanks = Text(" " * (width - cell.cell_len))
            line.append_text(blanks + cell if right else cell + blanks).append(GAP)
        line.rstrip()
        return line

    def _vertical(self, cells: list[Text], width: int) -> Iterator[Text]:
        """Yield a line for each value that is not empty."""
        names = max(name.cell_len for name in self._columns)
        for name, cell in zip(self._columns, cells, strict=True):
            if cell.plain:
                label = name + Text(" " * (names - name.cell_len) + GAP)
                yield from wrapped(label + cell, width, hang=names + len(GAP))


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
