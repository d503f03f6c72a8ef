"""The checks of the log on a list of records, each by itself."""

from collections.abc import Iterable
from functools import partial

from snapkafka.checks import CutView, Finding, LogRecord, find, listed

__all__ = ["said", "v1", "v2", "v3", "v4", "v5"]


def _found(check: str, view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    return find(check, listed(view, records))


v1, v2, v3, v4, v5 = (partial(_found, f"V{n}") for n in range(1, 6))


def said(found: Finding) -> str:
    """A finding in a few words: kind, topic and offset, process and seq, app, `a` and `b`."""
    words = [found.kind, f"{found.topic}@{found.offset}"]
    words += [f"{found.process}#{found.seq}"] * (found.process >= 0)
    numbers = (f"{name}{it}" for name, it in (("a", found.a), ("b", found.b)) if it >= 0)
    return " ".join(filter(None, [*words, found.app, *numbers]))
