"""The command as a process: what it was given, and where its words go.

Python takes a pipe that nobody reads for an error like any other, typer ends by status 1 then, and what is still to be
written when all is done fails after the status was given. But 1 is that of a snapshot that is not good.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

from snapkafka.errors import BadInputError, OutputError

__all__ = ["EXIT_INTERRUPTED", "EXIT_UNREAD", "call", "require_text"]

#: What a shell says of a command that Ctrl-C ended, and of one whose output nobody reads any more (`| head`).
EXIT_INTERRUPTED: Final = 130
EXIT_UNREAD: Final = 141


class _Output(io.FileIO):
    """Says what it is that cannot be written."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputError(f"the output cannot be written: {error.strerror}") from error


class _Notices(io.FileIO):
    """Nobody is told where nobody listens."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def call(command: Callable[[], object]) -> NoReturn:
    """Run what ends by `SystemExit`, and end by its status; or by one that says what became of the output."""
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
        print(f"error: {error.message}\n       {error.advice}", file=sys.stderr)
        sys.exit(error.exit_status)
    sys.exit(0)


def _text(stream: TextIO | None, kind: type[io.FileIO]) -> TextIO:
    """A stream of the same encoding, in which a character that the encoding has not is spelled out."""
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
    """Refuse bytes that are no text, in arguments and in our variables of the environment: no record can hold them.

    Raises:
        BadInputError: naming the first one.
    """
    ours = (value for name, value in os.environ.items() if name.startswith("SNAPKAFKA_"))
    for value in (*sys.argv[1:], *ours):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadInputError(f"{value!r} is no text", hint="write it in UTF-8") from None
