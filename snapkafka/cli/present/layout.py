"""Tables and texts in the width of a terminal. No word is broken: text continues on the next line between words; in a
table a word that is too long ends with `…`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.text import Text

#: Blanks between columns.
GAP: Final = 2
#: A word of a table keeps as many characters before it is elided; of a value of a query fewer.
WORD_MIN: Final = 12
VALUE_MIN: Final = 6
#: Ids as long as this are never elided: they are meant to be copied.
ID_MAX: Final = 40
#: Lines that continue a text or follow a row begin so far to the right.
HANG: Final = 2
#: A number stays beside its unit.
_WORD: Final = re.compile(r"(?<!\S)\d[\d.,]* (?:us|ms|s|min|h|days|B|kB|MB|GB)(?!\w)\S*|\S+")


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row, and texts that have lines of their own below it."""

    cells: tuple[Text, ...]
    notes: tuple[Text, ...] = ()


class Table:
    """Rows in columns; cells and notes have rich's markup.

    Args:
        columns: their names.
        right: those whose cells are numbers: flush right, never elided.
        ids: those whose cells are meant to be copied: not elided.
        values: a row is one line, whatever its cells hold, and names of columns may be elided as well.
    """

    def __init__(
        self, *columns: str, right: Collection[str] = (), ids: Collection[str] = (), values: bool = False
    ) -> None:
        self._columns = tuple(map(_text, columns))
        self._right = tuple(name in right for name in columns)
        self._ids = tuple(name in ids for name in columns)
        self._values = values
        self._rows: list[Row] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, *cells: str, notes: Iterable[str] = ()) -> None:
        """Append a row."""
        self._rows.append(Row(tuple(map(_text, cells)), tuple(map(_text, notes))))

    def lines(self, width: int, *, vertical: bool = False) -> Iterator[Text]:
        """Yield the lines of the table: a line for each value where it is asked for, or the columns do not fit."""
        widths = None if vertical else self._widths(width)
        if widths is None:
            yield from self._vertical(width)
            return
        yield from (_styled(line, "bold") for line in self._line(self._columns, widths))
        yield Text("─" * min(width, sum(widths) + GAP * (len(widths) - 1)), style="dim")
        for row in self._rows:
            yield from self._line(row.cells, widths)
            yield from _notes(row, width)

    def _widths(self, width: int) -> list[int] | None:
        """Return the widths of the columns; None: they do not fit."""
        free = width - GAP * (len(self._columns) - 1)
        columns = range(len(self._columns))
        least, words = [self._least(n) for n in columns], [self._words(n) for n in columns]
        if sum(least) > free:
            return None
        if sum(words) > free:
            return _spread(least, words, free)
        return _spread(words, [self._most(n) for n in columns], free)

    def _most(self, column: int) -> int:
        """Return the width of a column in which each of its cells is one line."""
        return max(self._columns[column].cell_len, *(row.cells[column].cell_len for row in self._rows), 0)

    def _words(self, column: int) -> int:
        """Return the width of a column in which no word is elided."""
        if self._values or (self._ids[column] and self._most(column) <= ID_MAX):
            return self._most(column)
        cells = (row.cells[column].plain for row in self._rows)
        return max(_longest(self._columns[column].plain), *map(_longest, cells), 0)

    def _least(self, column: int) -> int:
        """Return the least width of a column."""
        words = self._words(column)
        if self._values:
            numbers = (_longest(row.cells[column].plain) for row in self._rows if self._right[column])
            return max(min(words, VALUE_MIN), *numbers, 0)
        if self._right[column] or (self._ids[column] and words <= ID_MAX):
            return words
        return max(_longest(self._columns[column].plain), min(words, WORD_MIN))

    def _line(self, cells: Iterable[Text], widths: list[int]) -> Iterator[Text]:
        """Yield the lines of a row."""
        columns = [
            [_elided(cell, width)]
            if self._values
            else [_elided(line, width) for line in wrapped(cell, width)]
            for cell, width in zip(cells, widths, strict=True)
        ]
        for nth in range(max(map(len, columns))):
            line = Text()
            for lines, width, right in zip(columns, widths, self._right, strict=True):
                cell = lines[nth] if nth < len(lines) else Text()
                blanks = " " * (width - cell.cell_len)
                line.append_text(Text(blanks) + cell if right else cell + Text(blanks))
                line.append(" " * GAP)
            line.rstrip()
            yield line

    def _vertical(self, width: int) -> Iterator[Text]:
        """Yield a line for each value that is not empty, and an empty line between rows."""
        names = min(max((name.cell_len for name in self._columns), default=0), width // 2)
        for nth, row in enumerate(self._rows):
            if nth:
                yield Text()
            for name, cell in zip(self._columns, row.cells, strict=True):
                if not cell.plain:
                    continue
                head = _elided(name, names)
                for at, line in enumerate(wrapped(cell, width - names - GAP)):
                    label = _styled(head, "bold") if not at else Text()
                    blanks = " " * (names + GAP - label.cell_len)
                    yield label + Text(blanks) + _elided(line, width - names - GAP)
            yield from _notes(row, width)


def printable(text: str) -> str:
    """Escape what a terminal would obey, or would not show: anybody may have written it into a topic."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _text(markup: str) -> Text:
    return Text.from_markup(printable(markup))


def wrapped(text: Text, width: int, *, hang: int = 0) -> list[Text]:
    """Break a text between words; a word that is longer than a line has one of its own.

    Args:
        hang: blanks before all lines except the first.
    """
    found: list[Text] = []
    for paragraph in text.split("\n", allow_blank=True):
        plain, begin, end, first = paragraph.plain, 0, 0, True
        for word in _WORD.finditer(plain):
            if end and cell_len(plain[begin : word.end()]) > width - (0 if first else hang):
                found.append(_hung(paragraph[begin:end], 0 if first else hang))
                begin, first = word.start(), False
            end = word.end()
        found.append(_hung(paragraph[begin:end], 0 if first else hang))
    return found


def command_lines(command: str, width: int, *, indent: int = 0) -> list[Text]:
    """Break a command for a shell between words, with a backslash at the end of each line that continues."""
    inner = max(width - indent - GAP, 1)
    lines = [line.plain for line in wrapped(Text(command), inner, hang=HANG)]
    return [
        Text(" " * indent + line + (" \\" if nth < len(lines) - 1 else "")) for nth, line in enumerate(lines)
    ]


def _notes(row: Row, width: int) -> Iterator[Text]:
    for note in row.notes:
        yield from (_hung(line, HANG) for line in wrapped(note, width - HANG, hang=HANG))


def _hung(line: Text, blanks: int) -> Text:
    return Text(" " * blanks) + line if blanks else line


def _elided(line: Text, width: int) -> Text:
    short = line.copy()
    short.truncate(width, overflow="ellipsis")
    if short.plain.endswith(" …"):  # after a word, or where half of a wide character would be
        short.plain = f"{short.plain[:-1].rstrip()}…"
    return short


def _styled(line: Text, style: str) -> Text:
    found = line.copy()
    found.stylize(style)
    return found


def _longest(text: str) -> int:
    """Return the length of the longest word."""
    return max(map(cell_len, text.split()), default=0)


def _spread(low: list[int], high: list[int], free: int) -> list[int]:
    """Raise the lowest numbers, each to its bound at most, until their sum is `free`."""

    def raised(level: int) -> list[int]:
        return [max(least, min(most, level)) for least, most in zip(low, high, strict=True)]

    if sum(high) <= free:
        return high
    level, above = 0, free
    while above - level > 1:
        middle = (level + above) // 2
        level, above = (middle, above) if sum(raised(middle)) <= free else (level, middle)
    found = raised(level)
    spare = free - sum(found)
    for n, most in enumerate(high):
        if spare and found[n] == level < most:
            found[n] += 1
            spare -= 1
    return found
