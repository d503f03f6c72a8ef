"""The checks of the log on a list of records, each by itself."""

from __future__ import annotations

from collections.abc import Iterable

from snapkafka.checks import CutLog, CutView, Finding, LogRecord, find

__all__ = ["of_left", "v1", "v2", "v3", "v4", "v5"]


def v1(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    return find("V1", CutLog(view, records))


def v2(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    return find("V2", CutLog(view, records))


def v3(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    return find("V3", CutLog(view, records))


def v4(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    return find("V4", CutLog(view, records))


def v5(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    return find("V5", CutLog(view, records))


def of_left(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    """What V1 finds past the ends of processes that left."""
    return [it for it in v1(view, records) if it.kind in ("left-late", "copy")]
