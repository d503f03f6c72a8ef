"""The heads of the manifests of a storage, and their order."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Protocol, TypeVar

import msgspec

from snapkafka.manifest import LedgerEntry, Times
from snapkafka.store import Store, manifest_name


class _Head(Protocol):
    """The common part of a head and a whole manifest, as far as it gives an order."""

    @property
    def epoch(self) -> int: ...
    @property
    def ledger(self) -> LedgerEntry: ...
    @property
    def times(self) -> Times: ...


_T = TypeVar("_T", bound=_Head)


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What an order needs of a manifest. To make all of a large one takes a tenth of a second, and there may be
    thousands."""

    id: str
    epoch: int
    namespace: str
    verdict: str
    ledger: LedgerEntry
    times: Times


_HEAD: Final = msgspec.json.Decoder(Head)


def heads(store: Store) -> list[Head]:
    """Read the heads of all manifests of a storage; a copy under another name is ignored."""
    found = {name: _head(text) for name, text in store.texts().items()}
    return [head for name, head in found.items() if head is not None and manifest_name(head.id) == name]


def _head(text: str) -> Head | None:
    """Read a head; None: the text is not a manifest."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeEncodeError):
        return _HEAD.decode(text)
    return None


def oldest_first(found: Iterable[_T]) -> list[_T]:
    """Sort by epochs; as those of a recreated ledger begin again, ledgers are sorted by their latest assembly."""
    last: dict[str, float] = {}
    for item in (found := list(found)):
        ledger = item.ledger.topic_id
        last[ledger] = max(assembled_ms(item.times, unknown=math.inf), last.get(ledger, 0))
    return sorted(found, key=lambda item: (last[item.ledger.topic_id], item.ledger.topic_id, item.epoch))


def assembled_ms(times: Times, *, unknown: float) -> float:
    """Return when it was assembled, milliseconds since 1970; `unknown` if that cannot be read."""
    try:
        when = datetime.fromisoformat(times.assembled_at)
    except ValueError:
        return unknown
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1_000
