"""Signals that end a process: Ctrl-C, `kill`, a terminal that was closed. One exception and one rule of statuses."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, NoReturn

#: By their codes in `--json`.
CODES: Final = {
    signal.SIGHUP: "hangup",
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
}


def exit_status(number: int) -> int:
    """Return the exit status of a process that a signal ended, as a shell has it: 130 for Ctrl-C, 143 for `kill`."""
    return 128 + number


class Interrupted(SystemExit):
    """A signal asked this process to end. Uncaught, it ends the process with the status of that signal."""

    def __init__(self, number: int) -> None:
        super().__init__(exit_status(number))
        self.number = signal.Signals(number)


def ending_signals() -> Iterator[signal.Signals]:
    """Yield the signals that may end this process: those that its parent has not ignored (`nohup`)."""
    return (number for number in CODES if signal.getsignal(number) is not signal.SIG_IGN)


def on_ending_signal(heard: Callable[[int], None]) -> None:
    """Call `heard` in the main thread with the first ending signal. Later ones change nothing: another Ctrl-C does not
    disturb the clean-up after the first."""
    arrived: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        import asyncio  # help needs none, and goes without

        arrived.append(number)
        if len(arrived) > 1:
            return
        if (loop := asyncio._get_running_loop()) is None:
            heard(number)
        else:  # a task that nobody awaits would keep what is raised in it
            loop.call_soon_threadsafe(heard, number)

    for number in ending_signals():
        signal.signal(number, handle)


def raise_on_ending_signals() -> None:
    """Raise `Interrupted` in the main thread at the first signal that is to end this process."""
    on_ending_signal(_raise)


def _raise(number: int) -> NoReturn:
    raise Interrupted(number)
