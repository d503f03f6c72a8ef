"""Progress on standard error: a line that is renewed on a terminal, a new one a minute elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

from rich.text import Text

from snapkafka.ops import CaptureProgress
from snapkafka.units import rounded_ms

from .running import console, notices
from .screen import printable

#: The first line of progress, where it cannot overwrite itself, comes after so long.
FIRST_LINE_S: Final = 2.0
LINE_EVERY_S: Final = 60.0


@contextlib.contextmanager
def progress_lines(*, wanted: bool = True) -> Iterator[Callable[[CaptureProgress | str], None] | None]:
    """Provide what prints progress: in a line that is renewed on a terminal, elsewhere after two seconds and then every
    minute.

    Args:
        wanted: False provides None, as where the result is JSON.
    """
    if not wanted or console.as_json:
        yield None
        return
    if notices.console.is_terminal:
        with notices.console.status("") as status:
            yield lambda reached: status.update(
                Text(printable(progress_line(reached)), no_wrap=True, overflow="ellipsis")
            )
        return
    due = time.monotonic() + FIRST_LINE_S

    def notify(reached: CaptureProgress | str) -> None:
        nonlocal due
        if (now := time.monotonic()) >= due:
            due = now + LINE_EVERY_S
            notices.print(progress_line(reached))

    yield notify


def progress_line(reached: CaptureProgress | str) -> str:
    """Format what runs in one line: how much is done, and what a snapshot waits for."""
    if isinstance(reached, str):
        return reached
    line = f"{reached.id}: {reached.done} of {reached.needed} after {rounded_ms(reached.waited_ms)}"
    if reached.waits:
        first, *others = reached.waits
        line += f"; waiting for {first.text}" + (f" and {len(others)} more" if others else "")
    return line
