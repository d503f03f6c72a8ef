"""The snapshots of a run that could not be assembled or verified."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from snapkafka.errors import (
    BrokerUnavailableError,
    DependencyMissingError,
    InternalError,
    LedgerUnusableError,
    OutputError,
    SnapkafkaError,
)

from .spark.interrupts import interrupted_by
from .spark.spark_errors import translate

#: What befalls every snapshot of a run, so that the others are not tried.
OF_ALL: Final = (BrokerUnavailableError, LedgerUnusableError, DependencyMissingError, OutputError)


class Failures:
    """The snapshots of a run that failed, by their names in it. One does not stop the others."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self.alone = False  # only one snapshot is named
        self.found: dict[str, SnapkafkaError] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Note a failure in the block as that of a snapshot; raise it if no other is named, or it would befall all."""
        try:
            yield
        except Exception as error:
            ours = error if isinstance(error, SnapkafkaError) else translate(error)
            if self.alone or interrupted_by() is not None or isinstance(ours, OF_ALL):
                raise
            if ours is None:
                self._notify(traceback.format_exc())
            self.found[name] = ours or InternalError(f"{type(error).__name__}: {error}"[:300])
            self._notify(f"{name}: {' '.join(self.found[name].message.split())}")
