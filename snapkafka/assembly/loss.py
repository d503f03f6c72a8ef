"""The time until which lost records were expected to last."""

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
        expected = _expected_before(store, captured)
        if expected is None or not expected.until:
            raise
        message = (
            f"{error.message}; it could be restored until {expected.until}: {expected.topic} {expected.why}"
        )
        raise OffsetsGoneError(message, hint=error.hint) from error


def _expected_before(store: Store, captured: Captured) -> RestorableEntry | None:
    try:
        return store.read(captured.id).restorable
    except SnapkafkaError:
        return None
