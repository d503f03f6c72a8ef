"""Progress on standard error: a line that changes on a terminal, new lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from rich.markup import escape
from rich.progress import BarColumn
from rich.progress import Progress as Bars

from snapkafka.assembly.progress import Working, now_and_then
from snapkafka.ops import CaptureProgress
from snapkafka.units import rounded_ms

from .running import notices

#: How often progress is printed where it cannot overwrite itself: of a snapshot, and of a job.
LINE_EVERY_S: Final = 2.0
JOB_LINE_EVERY_S: Final = 10.0


@contextlib.contextmanager
def progress_lines(*, printed: bool) -> Iterator[Callable[[CaptureProgress], None] | None]:
    """Provide progress on standard error: a line that changes on a terminal, a new one every two seconds elsewhere.

    Args:
        printed: False provides None: no progress is wanted.
    """
    if not printed:
        yield None
        return
    last = time.monotonic()

    def notify(progress: CaptureProgress) -> None:
        nonlocal last
        if notices.is_terminal:
            notices.file.write(f"\r\x1b[2K{_bar(progress)[: notices.width - 1]}")
            notices.file.flush()
        elif time.monotonic() - last > LINE_EVERY_S:
            last = time.monotonic()
            notices.print(_bar(progress), markup=False)

    try:
        yield notify
    finally:
        if notices.is_terminal:
            notices.file.write("\r\x1b[2K")


def _bar(progress: CaptureProgress) -> str:
    """Format a running snapshot in one line."""
    waits = f"; waiting for {progress.waits[0].text}" if progress.waits else ""
    more = f" ({len(progress.waits) - 1} more)" if len(progress.waits) > 1 else ""
    return f"{progress.id}: {progress.done} of {progress.needed} after {rounded_ms(progress.waited_ms)}{waits}{more}"


def print_line(line: str) -> None:
    """Print a line of a log on standard error."""
    notices.print(line, markup=False)


class Log(NamedTuple):
    """The receiver of a job's output: lines of its log, which stay, and its progress."""

    print_line: Callable[[str], None] | None = None
    progress: Callable[[Working], None] | None = None


@contextlib.contextmanager
def job_log(*, printed: bool) -> Iterator[Log]:
    """Provide the output of a job on standard error: its log, and below it bars on a terminal; elsewhere a line every
    ten seconds.

    Args:
        printed: False: no output is wanted.
    """
    if not printed:
        yield Log()
        return

    if not notices.is_terminal:
        yield Log(print_line, now_and_then(print_line, JOB_LINE_EVERY_S))
        return
    with _Bars(
        "{task.description}", BarColumn(), "{task.fields[amount]}", console=notices, transient=True
    ) as bars:
        yield Log(print_line, bars.show)


class _Bars(Bars):
    """A bar for each step that runs."""

    def show(self, working: Working) -> None:
        shown = {task.description: task.id for task in self.tasks}
        wanted = {escape(step.name): (step.done, step.tasks) for step in working.steps}
        for name in shown.keys() - wanted.keys():
            self.remove_task(shown[name])
        for name, (done, total) in wanted.items():
            task = shown[name] if name in shown else self.add_task(name, amount="")
            self.update(task, completed=done, total=total, amount=f"{done} of {total} tasks")
