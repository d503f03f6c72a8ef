"""Arguments that several commands take, and times as people write them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from snapkafka.errors import BadInputError
from snapkafka.units import duration_ms

from .job_options import option_of

Bootstrap = Annotated[str | None, option_of("bootstrap")]
Namespace = Annotated[str, option_of("namespace")]
Ttl = Annotated[
    str, typer.Option("--ttl", metavar="TIME", help="Fail if not captured within TIME: 5s, 1min, 500 (ms).")
]
Align = Annotated[bool, typer.Option("--align", help="Hold inputs back until no message is in flight.")]
AlignTimeout = Annotated[
    str, typer.Option("--align-timeout", metavar="TIME", help="Align for TIME at most, then do not wait: 2s.")
]
AllowUnmatched = Annotated[
    bool, typer.Option("--allow-unmatched", help="Accept rules of --suppress or --mask that match nothing.")
]
Stored = Annotated[
    str,
    typer.Option(
        "--storage", metavar="URI", help="Directory or URI of the tables. Default: from the ledger."
    ),
]
ManifestPath = Annotated[
    str, typer.Option("--manifest", metavar="PATH", help="Path of the manifest: no broker, no --storage.")
]
Suppress = Annotated[
    str, typer.Option("--suppress", metavar="FILE", help="TOML file with keys that stay erased.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the plan, or why it is refused; change nothing.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
KeepLast = Annotated[
    int | None, typer.Option("--keep-last", metavar="N", min=0, help="Keep the newest N snapshots.")
]
KeepDays = Annotated[
    float | None,
    typer.Option("--keep-days", metavar="D", min=0, help="Keep snapshots assembled in the last D days."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

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


def align_ms_of(text: str) -> int:
    """Read `--align-timeout`, in milliseconds; empty: 0."""
    return duration_ms(text, "--align-timeout", bare="ms") if text else 0


def ttl_ms_of(text: str) -> int:
    """Read `--ttl`, in milliseconds, which is also the unit of a plain number."""
    return duration_ms(text, "--ttl", bare="ms")
