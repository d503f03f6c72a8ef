"""The one printer of the commands.

On a terminal a line is as wide as that: text continues between words, cells of tables are elided. In a pipe nothing is
wrapped or elided: `grep` and `cut` read it.
"""

from __future__ import annotations

import io
import sys
from typing import Final

from rich.console import Capture, Console
from rich.text import Text

from .present.layout import HANG, Table, command_lines, printable, wrapped

#: The width where nothing is wrapped or elided.
UNBOUNDED: Final = 1_000_000
#: What stands for our own characters where the encoding lacks them.
PLAIN: Final = str.maketrans("─…", "-~")


class Screen:
    """Standard output or standard error, as people read it.

    Attributes:
        of: the command that prints, without the word `snapkafka`; empty: none.
        wide: print whole cells of tables, however long the lines.
        vertical: print a line for each value of a table.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.of, self.wide, self.vertical = "", False, False
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

    def begin(self, command: str, *, wide: bool = False, vertical: bool = False) -> None:
        """Begin the output of a command."""
        self.of, self.wide, self.vertical = command, wide, vertical
        self._begun = self._after_table = False

    def print(
        self, item: str | Table = "", *, markup: bool = True, style: str = "", hang: int | None = None
    ) -> None:
        """Print a text or a table. Tables stand between empty lines.

        Args:
            hang: blanks before lines that continue the text. Default: two more than before its first one.
        """
        if isinstance(item, Table):
            self._break(before_table=True)
            for line in item.lines(UNBOUNDED if self.wide else self.width, vertical=self.vertical):
                self._line(line)
            self._after_table = True
            return
        self._break()
        for part in map(printable, item.split("\n")):
            text = Text.from_markup(part, style=style) if markup else Text(part, style=style)
            blanks = len(text.plain) - len(text.plain.lstrip(" "))
            for line in wrapped(text, self.width, hang=blanks + HANG if hang is None else hang):
                self._line(line)

    def command(self, command: str, *, indent: int = 0) -> None:
        """Print a command that can be copied, also where it takes several lines."""
        self._break()
        for line in command_lines(printable(command), self.width, indent=indent):
            self._line(line)

    def _break(self, *, before_table: bool = False) -> None:
        if self._renewed:
            self.renew("")
        if self._begun and (before_table or self._after_table):
            self.console.print()
        self._begun, self._after_table = True, False

    def _line(self, line: Text) -> None:
        if not self.console.encoding.startswith("utf"):
            line.plain = line.plain.translate(PLAIN)
        self.console.print(line, soft_wrap=True)


def standard(*, error: bool = False) -> Screen:
    """Return standard output, or standard error; without bounds unless it is a terminal."""
    stream = sys.stderr if error else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")  # a name that the locale lacks ends no command
    bounded = stream is not None and stream.isatty()
    return Screen(Console(stderr=error, width=None if bounded else UNBOUNDED, highlight=False))
