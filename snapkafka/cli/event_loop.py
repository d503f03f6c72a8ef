"""The command as a process: its arguments, and the streams for its output.

Python treats a pipe without a reader as an error like any other, typer then exits with status 1, and a last write at
exit fails after the status was set. But status 1 means a snapshot that is not good.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO, TypeVar

from snapkafka.errors import COMMAND, BadInputError, OutputError
from snapkafka.runtime.signals import Interrupted, ending_signals, exit_status, raise_on_ending_signals

#: The status that a shell gives a command whose output nobody reads any more (`| head`).
EXIT_UNREAD: Final = 141
#: A command that was asked to end does so, whatever a broker or a storage keeps it waiting for.
ENDS_WITHIN_S: Final = 4.8

T = TypeVar("T")


class _Output(io.FileIO):
    """A stream whose errors name it when it cannot be written."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputError(f"the output cannot be written: {error.strerror}") from error


class _Notices(io.FileIO):
    """A stream that drops notices if nobody reads them."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def call(command: Callable[[], object]) -> NoReturn:
    """Run a function that ends by `SystemExit`, and exit with its status; or with one for a failure of the output."""
    raise_on_ending_signals()
    sys.stdout, sys.stderr = _text(sys.stdout, _Output), _text(sys.stderr, _Notices)
    try:
        try:
            command()
        finally:
            sys.stdout.flush()
    except OutputError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left goes there when Python ends
        if isinstance(error.__cause__, BrokenPipeError):
            sys.exit(EXIT_UNREAD)
        print(f"error: {COMMAND.message(error)}\n       {COMMAND.advice(error)}", file=sys.stderr)
        sys.exit(error.exit_status)
    sys.exit(0)


def run_until_signalled(
    work: Callable[[], Coroutine[Any, Any, T]], *, ends_within_s: float = ENDS_WITHIN_S
) -> T:
    """Run a coroutine, which the first ending signal cancels.

    Args:
        ends_within_s: the time limit of its clean-up.

    Raises:
        Interrupted: a signal came, and the clean-up is done.
    """
    arrived: list[int] = []

    async def main() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def cancel(number: int) -> None:
            if not arrived:  # a second one does not disturb what is put away after the first
                arrived.append(number)
                watchdog.args = (number,)
                watchdog.start()
                task.cancel()

        for number in before:
            loop.add_signal_handler(number, cancel, number)
        return await work()

    watchdog = threading.Timer(ends_within_s, _give_up)
    watchdog.daemon = True
    in_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in ending_signals()} if in_main else {}
    try:
        return asyncio.run(main())
    except (Exception, asyncio.CancelledError):
        if arrived:
            raise Interrupted(arrived[0]) from None
        raise
    finally:
        watchdog.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _give_up(number: int) -> None:
    print("stopped; the broker or the storage did not answer in time", file=sys.stderr, flush=True)
    os._exit(exit_status(number))


def _text(stream: TextIO | None, kind: type[io.FileIO]) -> TextIO:
    """Return a stream of the same encoding that spells out characters that the encoding lacks."""
    if stream is None:  # it was closed before we began: its number may be that of a file by now
        return Path(os.devnull).open("w", encoding="utf-8")
    raw = kind(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering if isinstance(stream, io.TextIOWrapper) else True,
    )


def require_text() -> None:
    """Refuse bytes that are not text, in arguments and in our environment variables: no record can hold them.

    Raises:
        BadInputError: names the first one.
    """
    ours = (value for name, value in os.environ.items() if name.startswith("SNAPKAFKA_"))
    for value in (*sys.argv[1:], *ours):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadInputError(f"{value!r} is not text", hint="write it in UTF-8") from None
