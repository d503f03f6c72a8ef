"""Progress on standard error: a line that is renewed on a terminal, a new one a minute elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from snapkafka.assembly.progress import LINE_EVERY_S, Working, now_and_then
from snapkafka.ops import CaptureProgress
from snapkafka.units import rounded_ms

from .running import notices

#: The first line of progress of a snapshot, where it cannot overwrite itself, comes after so long.
FIRST_LINE_S: Final = 2.0


@contextlib.contextmanager
def progress_lines(*, printed: bool) -> Iterator[Callable[[CaptureProgress], None] | None]:
    """Provide progress on standard error: a line that is renewed on a terminal, elsewhere one after two seconds
    and then every minute.

    Args:
        printed: False provides None: no progress is wanted.
    """
    if not printed:
        yield None
        return
    due = time.monotonic() + FIRST_LINE_S

    def notify(progress: CaptureProgress) -> None:
        nonlocal due
        if notices.is_terminal:
            notices.renew(progress_line(progress))
        elif (now := time.monotonic()) >= due:
            due = now + LINE_EVERY_S
            notices.print(progress_line(progress))

    try:
        yield notify
    finally:
        if notices.is_terminal:
            notices.renew("")


def progress_line(progress: CaptureProgress) -> str:
    """Format a running snapshot in one line: how much is done, and what it waits for."""
    line = f"{progress.id}: {progress.done} of {progress.needed} after {rounded_ms(progress.waited_ms)}"
    if progress.waits:
        first, *others = progress.waits
        line += f"; waiting for {first.text}" + (f" and {len(others)} more" if others else "")
    return line


def print_line(line: str) -> None:
    """Print a line of a log on standard error."""
    notices.print(line)


class Log(NamedTuple):
    """The receiver of a job's output: lines of its log, which stay, and its progress."""

    print_line: Callable[[str], None] | None = None
    progress: Callable[[Working], None] | None = None


@contextlib.contextmanager
def job_log(*, printed: bool) -> Iterator[Log]:
    """Provide the output of a job on standard error: its log, and below it bars on a terminal; elsewhere a line every
    minute.

    Args:
        printed: False: no output is wanted.
    """
    if not printed:
        yield Log()
        return

    if not notices.is_terminal:
        yield Log(print_line, now_and_then(print_line, LINE_EVERY_S))
        return
    columns = (_column("{task.description}"), BarColumn(), _column("{task.fields[amount]}"))
    with _Bars(*columns, console=notices.console, transient=True) as bars:
        yield Log(print_line, bars.show)


def _column(text: str) -> TextColumn:
    return TextColumn(text, markup=False)  # it would change names of topics


class _Bars(Bars):
    """A bar for each step that runs."""

    def show(self, working: Working) -> None:
        shown = {task.description: task.id for task in self.tasks}
        wanted = {step.name: (step.done, step.tasks) for step in working.steps}
        for name in shown.keys() - wanted.keys():
            self.remove_task(shown[name])
        for name, (done, total) in wanted.items():
            task = shown[name] if name in shown else self.add_task(name, amount="")
            self.update(task, completed=done, total=total, amount=f"{done} of {total} tasks")
