"""The run of a verb: its result or its error, for a person or as JSON, and the exit status."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import getpass
import io
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar

import msgspec
import typer
from rich.text import Text

from snapkafka.errors import BadInputError, InternalError, OutputError, SnapkafkaError
from snapkafka.kafka.login.connection import Connection
from snapkafka.ops import CaptureProgress
from snapkafka.runtime.signals import CODES, Interrupted, ending_signals, exit_status, on_ending_signal
from snapkafka.units import rounded_ms

from .screen import printable, standard

#: A command that was asked to end does so, whatever a broker or a storage keeps it waiting for.
ENDS_WITHIN_S: Final = 4.8
#: Of standard output: `| head` has ended, the disk is full.
OUTPUT_GONE: Final = (errno.EPIPE, errno.ENOSPC)
T = TypeVar("T")

#: Results go here.
console: Final = standard()
#: Progress and errors go here, so that what is piped stays clean.
notices: Final = standard(error=True)


def connect(bootstrap: str, environ: Mapping[str, str] = os.environ) -> Connection:
    """Return the connection to the cluster, with the credentials of the environment.

    Raises:
        BadInputError: there is no address.
    """
    if not bootstrap:
        raise BadInputError(
            "no broker is given", hint="add --bootstrap host:port, or set SNAPKAFKA_BOOTSTRAP"
        )
    return Connection.from_environment(bootstrap, environ)


def reach(bootstrap: str) -> Connection | None:
    """Return the connection to the cluster; None: no address is given, nor needed."""
    return connect(bootstrap) if bootstrap else None


def run(
    work: Callable[[], Coroutine[Any, Any, T]],
    *,
    beside: Mapping[str, Any] | None = None,
    ends_within_s: float = ENDS_WITHIN_S,
) -> T:
    """Run a verb and return its result; see `reporting`.

    Args:
        work: creates the coroutine; errors that it raises itself count as well.
        ends_within_s: see `run_until_signalled`.
    """
    # We report an unavailable broker ourselves, once.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    with reporting(beside):
        return run_until_signalled(work, ends_within_s=ends_within_s)


@contextlib.contextmanager
def reporting(beside: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Make an error one line, a line of advice, and an exit status, and where the result is JSON, also JSON on standard
    output.

    Args:
        beside: further fields of an error as JSON.

    Raises:
        typer.Exit: it failed.
    """
    try:
        yield
        return
    except (typer.Exit, typer.Abort):
        raise
    except Interrupted as interrupted:
        code, status = CODES[interrupted.number], exit_status(interrupted.number)
        message, hint = f"{code} by {interrupted.number.name}", console.continues
        notices.print(_plain(f"{code.capitalize()}. {hint or f'`snapkafka {console.of}` stopped.'}"))
    except Exception as error:
        failed = error
        if isinstance(error, OSError) and error.errno in OUTPUT_GONE and error.filename is None:
            raise
        if not isinstance(failed, SnapkafkaError):
            traceback.print_exc()
            failed = InternalError(f"a bug in snapkafka: {type(error).__name__}: {error}")
        code, message, hint, status = failed.code, failed.message, failed.hint, failed.exit_status
        notices.print(("error:", "bold red"), f" {_plain(message)}", hang=7)
        notices.print(f"       {_plain(hint)}", hang=7)
    if console.as_json:
        details = {"code": code, "message": message, "hint": hint, "exit_status": status}
        print_json({**(beside or {}), "error": details})
    raise typer.Exit(status)


def print_json(value: Any) -> None:
    """Print a result as JSON on standard output; one of several on one line, for programs that read along."""
    print(json_of(value), flush=console.in_lines)


def json_of(value: Any) -> str:
    indent = None if console.in_lines else 2
    ascii_alone = not (sys.stdout.encoding or "").lower().startswith("utf")
    return json.dumps(value, indent=indent, ensure_ascii=ascii_alone, default=msgspec.to_builtins)


def notifier(*, anyway: bool = False) -> Callable[[str], None]:
    """Return what prints the steps of a long command on standard error, if a person reads them, or `anyway`."""
    word, silent = console.of.split()[0], console.as_json and not anyway
    return lambda text: None if silent else notices.print(f"{word}: {text}")


def data_output() -> TextIO:
    """Return standard output for what programs read: UTF-8, whatever the locale."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="strict")
    return sys.stdout


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file for the user.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from error


def who() -> str:
    """Return the name of the caller, for people. A container may have no name for its user."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def _plain(text: str) -> str:
    """Return one line."""
    return " ".join(text.split())


# -- the event loop -------------------------------------------------------------------------------------------


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
        task = asyncio.current_task()
        assert task is not None

        def cancel(number: int) -> None:
            arrived.append(number)
            watchdog.args = (number,)
            watchdog.start()
            task.cancel()

        if in_main:
            on_ending_signal(cancel)
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


#: The first line of progress, where it cannot overwrite itself, comes after so long.
FIRST_LINE_S: Final = 2.0
LINE_EVERY_S: Final = 60.0


@contextlib.contextmanager
def progress_lines(*, wanted: bool = True) -> Iterator[Callable[[CaptureProgress], None] | None]:
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
            yield lambda reached: status.update(Text(printable(progress_line(reached))))
        return
    due = time.monotonic() + FIRST_LINE_S

    def notify(reached: CaptureProgress) -> None:
        nonlocal due
        if (now := time.monotonic()) >= due:
            due = now + LINE_EVERY_S
            notices.print(progress_line(reached))

    yield notify


def progress_line(reached: CaptureProgress) -> str:
    """Format a running snapshot in one line: how much is done, and what it waits for."""
    line = f"{reached.id}: {reached.done} of {reached.needed} after {rounded_ms(reached.waited_ms)}"
    if reached.waits:
        first, *others = reached.waits
        line += f"; waiting for {first.text}" + (f" and {len(others)} more" if others else "")
    return line
