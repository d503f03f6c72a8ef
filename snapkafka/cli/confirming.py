"""Ask before something is changed; where there is nobody to ask, refuse."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import typer

from snapkafka.errors import EXIT_NOT_GOOD, BadInputError

from .running import console, run

__all__ = ["confirm"]


def confirm(
    question: str, *, asks: str, hint: str, as_json: bool, planned: Any = None, change: str = "changed"
) -> None:
    """Ask a question on the terminal, and end the command unless the answer is yes.

    Args:
        asks: the command and what it asks before, as in "{asks}, and there is no terminal to ask on".
        hint: how it is done without being asked.
        as_json: nobody reads the question.
        planned: what would be done, for JSON.
        change: what did not happen to anything then: "changed" or "removed".

    Raises:
        typer.Exit: the answer is no, or nobody can be asked.
    """

    def nobody_to_ask() -> NoReturn:
        raise BadInputError(f"{asks}, and there is no terminal to ask on; nothing was {change}", hint=hint)

    if as_json or not sys.stdin.isatty():
        run(nobody_to_ask, as_json=as_json, beside={"planned": planned})
    if not typer.confirm(question, err=True):
        console.print(f"nothing was {change}")
        raise typer.Exit(EXIT_NOT_GOOD)
