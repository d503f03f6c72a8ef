"""The progress of the demo."""

from __future__ import annotations

import time

from rich.console import Console
from rich.status import Status
from rich.text import Text


class Reporter:
    """A line for every phase, with its progress."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._status: Status | None = None
        self._what, self._since = "", 0.0

    def begin(self, what: str) -> None:
        """Begin a phase."""
        self._what, self._since = what, time.monotonic()
        if self._console.is_terminal:
            self._status = self._console.status(Text(f"{what} ..."))
            self._status.start()
        else:
            self._print(Text(f"... {what}"))

    def tick(self, note: str) -> None:
        """Print a note about the phase."""
        if self._status is not None:
            took = time.monotonic() - self._since
            self._status.update(Text(f"{self._what} ... {took:.0f} s  {note[:100]}"))

    def done(self, note: str = "") -> None:
        """End the phase."""
        self.stop()
        took = time.monotonic() - self._since
        self._print(Text.assemble(("✓", "green"), f" {self._what}  ", (f"{took:.1f} s  {note}", "dim")))

    def _print(self, line: Text) -> None:
        self._console.print(line, soft_wrap=not self._console.is_terminal)  # in a file, a line is a line

    def stop(self) -> None:
        """Remove a half-drawn line."""
        if self._status is not None:
            self._status.stop()
            self._status = None
