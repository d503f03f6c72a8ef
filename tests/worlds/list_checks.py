"""The checks of the log on a list of records, each by itself."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from snapkafka.checks import CutView, Finding, LogRecord, find, listed

__all__ = ["of_left", "v1", "v2", "v3", "v4", "v5"]


def _found(check: str, view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    return find(check, listed(view, records))


v1, v2, v3, v4, v5 = (partial(_found, f"V{n}") for n in range(1, 6))


def of_left(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    """What V1 finds past the ends of processes that left."""
    return [it for it in v1(view, records) if it.kind in ("left-late", "copy")]
