"""Signals that end a process: Ctrl-C, `kill`, a terminal that was closed. One exception and one rule of statuses."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any, Final, NoReturn, TypeVar

__all__ = [
    "CODES",
    "Interrupted",
    "ending_signals",
    "exit_status",
    "on_ending_signal",
    "raise_on_ending_signals",
    "to_its_end",
]

T = TypeVar("T")

#: By their codes in `--json`.
CODES: Final = {
    signal.SIGHUP: "hangup",
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
}


def exit_status(number: int) -> int:
    """The exit status of a process that a signal ended, as a shell has it: 130 for Ctrl-C, 143 for `kill`."""
    return 128 + number


class Interrupted(SystemExit):
    """A signal asked this process to end. Uncaught it ends it, with the status of that signal."""

    def __init__(self, number: int) -> None:
        super().__init__(exit_status(number))
        self.number = signal.Signals(number)


def ending_signals() -> Iterator[signal.Signals]:
    """The signals that may end this process: those that whoever started it has not ignored (`nohup`)."""
    return (number for number in CODES if signal.getsignal(number) is not signal.SIG_IGN)


def on_ending_signal(heard: Callable[[int], None]) -> None:
    """Call `heard` in the main thread with the first signal that is to end this process. Later ones change nothing:
    what is put away after the first is not disturbed by who presses Ctrl-C again."""
    numbers = tuple(ending_signals())

    def handle(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, _disregard)
        heard(number)

    for number in numbers:
        signal.signal(number, handle)


def raise_on_ending_signals() -> None:
    """Raise `Interrupted` in the main thread at the first signal that is to end this process."""
    on_ending_signal(_raise)


def _raise(number: int) -> NoReturn:
    raise Interrupted(number)


def _disregard(number: int, frame: FrameType | None) -> None:
    """Unlike `SIG_IGN` it is not inherited by what is started meanwhile."""


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await what must not be left half-done, also where this task is cancelled meanwhile: that is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
        except Exception:
            break
    result = task.result()
    if cancelled:
        raise asyncio.CancelledError
    return result
