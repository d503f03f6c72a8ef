"""The one printer of the commands.

On a terminal text continues between words on the next line, and tables that do not fit are lines of names and values.
In a pipe nothing is wrapped: `grep` and `cut` read it.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from .layout import HANG, Column, Line, Part, Table, printable, text_of, wrapped

#: The width where nothing is wrapped.
UNBOUNDED: Final = 1_000_000


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
        self,
        items: Iterable[Any],
        *columns: Column,
        notes: Callable[[Any], Iterable[Line]] = lambda item: (),
        whole: bool = False,
    ) -> None:
        """Print a table (see `Table`) between empty lines; nothing, if there are no items."""
        if rows := Table(items, *columns, notes=notes, whole=whole):
            self._break(before_table=True)
            self._lines(rows.lines(self.console.width))
            self._after_table = True

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
