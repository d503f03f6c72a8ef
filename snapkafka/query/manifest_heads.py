"""Describe what the manifests of a storage state first, and their order."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from snapkafka.manifest import LedgerEntry, Times
from snapkafka.store import Store
from snapkafka.store.base import manifest_name

__all__ = ["Head", "assembled_ms", "heads", "oldest_first"]


class _Told(Protocol):
    """Hold what a head and a whole manifest have in common, as far as it gives an order."""

    @property
    def epoch(self) -> int: ...
    @property
    def ledger(self) -> LedgerEntry: ...
    @property
    def times(self) -> Times: ...


_T = TypeVar("_T", bound=_Told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The beginning of a manifest. To read a large one as a whole takes a tenth of a second, and there may be
    thousands."""

    id: str
    epoch: int
    namespace: str
    verdict: str
    ledger: LedgerEntry
    times: Times


def heads(store: Store) -> list[Head]:
    """Of all manifests of a storage; a copy under another name is not one of ours."""
    found = {name: _head(text) for name, text in store.texts().items()}
    return [head for name, head in found.items() if head is not None and manifest_name(head.id) == name]


def _head(text: str) -> Head | None:
    """From its beginning, as we write it, or from the whole, in whatever order it is; None: it is not a manifest."""
    for part in (text.partition(',\n "tables":')[0] + "}", text):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            told = json.loads(part)
            return Head(
                id=str(told["id"]),
                epoch=int(told["epoch"]),
                namespace=str(told["namespace"]),
                verdict=str(told["verdict"]),
                ledger=LedgerEntry(
                    topic=str(told["ledger"]["topic"]), topic_id=str(told["ledger"]["topic_id"])
                ),
                times=Times(assembled_at=str(told["times"]["assembled_at"])),
            )
    return None


def oldest_first(found: Iterable[_T]) -> list[_T]:
    """By epochs; those of a ledger that was recreated begin again, so ledgers go by what was assembled of them last."""
    last: dict[str, float] = {}
    for item in (found := list(found)):
        ledger = item.ledger.topic_id
        last[ledger] = max(assembled_ms(item.times, unknown=math.inf), last.get(ledger, 0))
    return sorted(found, key=lambda item: (last[item.ledger.topic_id], item.ledger.topic_id, item.epoch))


def assembled_ms(times: Times, *, unknown: float) -> float:
    """When it was assembled, milliseconds since 1970; `unknown` where that cannot be read."""
    try:
        when = datetime.fromisoformat(times.assembled_at)
    except ValueError:
        return unknown
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1_000
