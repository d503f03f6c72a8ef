"""Time and bytes as people write and read them: `500ms`, `90s`, `10m` or `10min`, `1h30m`, `2d`; ISO 8601; `1.5 GB`."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Final

from snapkafka.errors import BadInputError

DAY_MS: Final = 86_400_000
UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": DAY_MS}
PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)\s*")
HINT: Final = "write it as 500ms, 90s, 10m, 1h30m or 2d"


def wall_ms() -> int:
    """Return milliseconds since 1970, by this machine's clock."""
    return time.time_ns() // 1_000_000


# --- reading ---------------------------------------------------------------------------------------------------------


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
    """Read an ISO 8601 time, in milliseconds since 1970; without a time zone it is this machine's time.

    Raises:
        BadInputError: it is not a valid time.
    """
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1_000)
    except (ValueError, OverflowError) as error:
        raise BadInputError(
            f"invalid time: {text!r}", hint="write it as 2026-05-01T12:30:00 or 2026-05-01T10:30:00Z"
        ) from error


# --- printing --------------------------------------------------------------------------------------------------------


def format_ms(ms: int) -> str:
    """Format milliseconds exactly: `1 d 2 h`."""
    if ms < 1_000:
        return f"{ms} ms"
    words = []
    for unit, size in (("d", DAY_MS), ("h", 3_600_000), ("min", 60_000)):
        if ms >= size:
            words.append(f"{ms // size} {unit}")
            ms %= size
    if ms:
        words.append(f"{ms / 1_000:g} s")
    return " ".join(words)


def rounded_ms(ms: float) -> str:
    """Format milliseconds in their largest unit: `26 h`."""
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 120_000:
        return f"{ms / 1_000:.1f} s"
    if ms < 7_200_000:
        return f"{ms / 60_000:.0f} min"
    return f"{ms / 3_600_000:.0f} h" if ms < 2 * DAY_MS else f"{ms / DAY_MS:.0f} days"


def format_bytes(count: int | None) -> str:
    """Format a number of bytes; None: unknown."""
    if count is None:
        return "unknown"
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def iso_time(at_ms: int) -> str:
    """Format milliseconds since 1970 by ISO 8601, in UTC, to the millisecond."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds")


def utc_time(at_ms: int, timespec: str = "seconds") -> str:
    """Format milliseconds since 1970 for a person, in UTC."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).replace(tzinfo=None).isoformat(" ", timespec)
