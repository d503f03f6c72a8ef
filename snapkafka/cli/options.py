"""Arguments that several commands take, and times as people write them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from snapkafka.durations import duration_ms
from snapkafka.errors import BadInputError

from .job_options import option_of

Bootstrap = Annotated[str | None, option_of("bootstrap")]
Namespace = Annotated[str, option_of("namespace")]
Ttl = Annotated[
    str,
    typer.Option(
        "--ttl",
        metavar="TIME",
        help="Fail if not captured within TIME: 5s, 1min, 500 (ms).",
    ),
]
AllowUnmatched = Annotated[
    bool,
    typer.Option(
        "--allow-unmatched",
        help="Accept rules of --suppress or --mask that match nothing.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

Storage = Annotated[str, option_of("storage")]
Invariants = Annotated[list[str] | None, option_of("invariants")]
Parameters = Annotated[list[str] | None, option_of("parameters")]


def names_in(given: Iterable[str]) -> list[str]:
    """Split names that are separated by commas.

    Raises:
        BadInputError: a name is empty: an unset variable would mean all.
    """
    names = [name.strip() for text in given for name in text.split(",")]
    if not all(names):
        raise BadInputError("a name is empty", hint="write --apps a,b, or leave it out for all")
    return names


def ttl_ms_of(text: str) -> int:
    """Read `--ttl`, in milliseconds, which is also the unit of a plain number."""
    return duration_ms(text, "--ttl", bare="ms")
