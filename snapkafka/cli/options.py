"""Arguments that several commands take, and times as people write them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from snapkafka.errors import BadInputError

__all__ = ["AsJson", "Bootstrap", "Namespace", "moment_ms"]

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", envvar="SNAPKAFKA_BOOTSTRAP", help="The broker: host:port, several with commas."
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace", envvar="SNAPKAFKA_NAMESPACE", help="The systems that are snapshotted together."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Say the result as JSON.")]


def moment_ms(text: str) -> int:
    """ISO 8601 in milliseconds since 1970; without a time zone it is this machine's time, as `show` tells it.

    Raises:
        BadInputError: it is no such time.
    """
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1_000)
    except (ValueError, OverflowError) as error:
        raise BadInputError(
            f"{text!r} is no time", hint="write it as 2026-05-01T12:30:00 or 2026-05-01T10:30:00Z"
        ) from error
