"""The time until which records that are gone were expected to last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from snapkafka.errors import OffsetsGoneError, SnapkafkaError
from snapkafka.manifest import RestorableEntry
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.store import Store


@contextmanager
def with_time_of_loss(store: Store, captured: Captured) -> Iterator[None]:
    """Add to an `OffsetsGoneError` the date until which the records were expected to last, by an earlier assembly."""
    try:
        yield
    except OffsetsGoneError as error:
        said = _said_before(store, captured)
        if said is None or not said.until:
            raise
        message = f"{error.message}; it could be restored until {said.until}: {said.topic} {said.why}"
        raise OffsetsGoneError(message, hint=error.see) from error


def _said_before(store: Store, captured: Captured) -> RestorableEntry | None:
    try:
        return store.read(captured.id).restorable
    except SnapkafkaError:
        return None
