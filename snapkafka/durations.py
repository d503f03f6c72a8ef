"""Durations and times as people write them, the same for every option: `500ms`, `90s`, `10m` or `10min`, `1h30m`, `2d`;
ISO 8601."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from snapkafka.errors import BadInputError

UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)\s*")
HINT: Final = "write it as 500ms, 90s, 10m, 1h30m or 2d"


def duration_ms(text: str, option: str, *, bare: str = "", zero: bool = False) -> int:
    """Read a duration, in milliseconds.

    Args:
        option: the option that it was passed to, for the message.
        bare: the unit of a number without one; empty: a number needs one.
        zero: whether 0 is allowed.

    Raises:
        BadInputError: it is not a positive duration.
    """
    written = text.strip()
    if bare and re.fullmatch(r"\d+(?:\.\d+)?", written):
        written += bare
    total, at = 0.0, 0
    while at < len(written) and (part := PART.match(written, at)):
        total, at = total + float(part[1]) * UNITS_MS[part[2]], part.end()
    if at < len(written) or (round(total) <= 0 and not (zero and written)):
        raise BadInputError(f"{option} {text!r} is not a duration", hint=HINT)
    return round(total)


def moment_ms(text: str) -> int:
    """Read an ISO 8601 time, in milliseconds since 1970; without a time zone it is this machine's time, as `show`
    reports it.

    Raises:
        BadInputError: it is not a valid time.
    """
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1_000)
    except (ValueError, OverflowError) as error:
        raise BadInputError(
            f"invalid time: {text!r}", hint="write it as 2026-05-01T12:30:00 or 2026-05-01T10:30:00Z"
        ) from error
