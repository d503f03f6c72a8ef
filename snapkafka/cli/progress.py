"""Progress on standard error: a line that changes on a terminal, new lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

from rich.markup import escape

from snapkafka.ops import Progress

from .running import notices
from .tables import duration

__all__ = ["progress_lines", "spoken_lines"]

#: How often progress is told where it cannot overwrite itself.
LINE_EVERY_S: Final = 2.0


@contextlib.contextmanager
def progress_lines(*, told: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Progress on standard error: a line that changes on a terminal, a new one every two seconds elsewhere.

    Args:
        told: False gives None: nothing is to be said.
    """
    if not told:
        yield None
        return
    last = time.monotonic()

    def tell(progress: Progress) -> None:
        nonlocal last
        if notices.is_terminal:
            notices.file.write(f"\r\x1b[2K{_bar(progress)[: notices.width - 1]}")
            notices.file.flush()
        elif time.monotonic() - last > LINE_EVERY_S:
            last = time.monotonic()
            notices.print(_bar(progress), markup=False)

    try:
        yield tell
    finally:
        if notices.is_terminal:
            notices.file.write("\r\x1b[2K")


def _bar(progress: Progress) -> str:
    """A running snapshot in one line."""
    waits = f"waits for {progress.waits[0].text}" if progress.waits else ""
    more = f" and {len(progress.waits) - 1} more" if len(progress.waits) > 1 else ""
    return f"{progress.id}: {progress.done} of {progress.needed} after {duration(progress.waited_ms)}  {waits}{more}"


@contextlib.contextmanager
def spoken_lines(*, told: bool) -> Iterator[Callable[[str], None] | None]:
    """What a job says while it works: with a spinner on a terminal, as it comes elsewhere.

    Args:
        told: False gives None: nothing is to be said.
    """
    if not told:
        yield None
        return
    with notices.status("starting") if notices.is_terminal else contextlib.nullcontext() as status:
        yield (
            lambda line: (
                status.update(escape(line[: notices.width - 4]))
                if status
                else notices.print(line, markup=False)
            )
        )
