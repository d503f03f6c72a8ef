"""The one printer of the commands.

On a terminal text continues between words on the next line, and tables that do not fit are lines of names and values.
In a pipe nothing is wrapped: `grep` and `cut` read it.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterable, Iterator
from typing import Final

from rich.console import Capture, Console
from rich.text import Text

from snapkafka.errors import OutputError

from .present.layout import HANG, Part, Table, printable, text_of, wrapped

#: The width where nothing is wrapped.
UNBOUNDED: Final = 1_000_000


class StandardOutputError(OutputError):
    """What `main` reports: no command can print anything any more."""


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """Name the error of an output that cannot be written. A pipe that is closed is none: it is of `| head`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StandardOutputError(f"the output cannot be written: {error.strerror}") from error


class Screen:
    """Standard output or standard error, as people read it.

    Attributes:
        of: the command that prints, without the word `snapkafka`; empty: none.
    """

    def __init__(self, console: Console) -> None:
        self.console, self.of = console, ""
        self._begun = self._after_table = self._renewed = False

    @property
    def width(self) -> int:
        return self.console.width

    @width.setter
    def width(self, width: int) -> None:
        self.console.width = width

    @property
    def is_terminal(self) -> bool:
        return self.console.is_terminal

    def capture(self) -> Capture:
        """Return a block in which what is printed is kept, and not printed."""
        return self.console.capture()

    def renew(self, line: str) -> None:
        """Print a line of progress in place of the last one; an empty line, or any other text, removes it. For a
        terminal."""
        self._renewed = bool(line)
        text = Text(printable(line))
        text.truncate(self.width - 1, overflow="ellipsis")
        self.console.file.write(f"\r\x1b[2K{text.plain}")
        self.console.file.flush()

    def begin(self, command: str) -> None:
        """Begin the output of a command."""
        self.of = command
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
        self._lines(wrapped(text, self.width, hang=blanks + HANG if hang is None else hang))

    def table(self, table: Table) -> None:
        """Print a table, between empty lines."""
        self._break(before_table=True)
        self._lines(table.lines(self.width))
        self._after_table = True

    def command(self, command: str, *, indent: int = 0) -> None:
        """Print a command on one line, however long: it is meant to be copied."""
        self._break()
        self._lines([Text(" " * indent + printable(command))])

    def _break(self, *, before_table: bool = False) -> None:
        if self._renewed:
            self.renew("")
        if self._begun and (before_table or self._after_table):
            self.console.print()
        self._begun, self._after_table = True, False

    def _lines(self, lines: Iterable[Text]) -> None:
        with printing():
            for line in lines:
                self.console.print(line, soft_wrap=True)


def standard(*, error: bool = False) -> Screen:
    """Return standard output, or standard error; without bounds unless it is a terminal."""
    stream = sys.stderr if error else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")  # a name that the locale lacks ends no command
    bounded = stream is not None and stream.isatty()
    width = None if bounded else UNBOUNDED
    return Screen(Console(stderr=error, width=width, highlight=False, markup=False, emoji=False))
