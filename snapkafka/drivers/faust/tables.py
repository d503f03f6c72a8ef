"""What comes into tables by their changelogs, and what Faust's sensors do not tell of tables.

A record of a changelog is taken in during recovery, and for standbys and global tables all the time. Its colour is that
of the process which wrote it (R6); its cause says up to where the inputs of the app have had effects (R10).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

if TYPE_CHECKING:
    from .driver import FaustDriver

__all__ = ["Tables"]


class Tables:
    """The tables of one app.

    Args:
        driver: its machine is told.
    """

    def __init__(self, driver: FaustDriver) -> None:
        self._driver = driver
        self._colours: dict[
            tuple[Any, int], int
        ] = {}  # of records in Faust's queue, while an event could be torn
        self._effects: dict[
            tuple[int, int], int
        ] = {}  # (topic check, partition) of an input -> one past its causes
        self._held: dict[Any, bool] = {}  # changelog partition -> did its store hold any, when first asked?
        self._bounds: dict[TopicPartition, int] = {}  # input -> where its log ended, when first given

    def attach(self) -> None:
        """All tables are defined by now."""
        for table in self._driver.app.tables.values():
            self._hear_changelog(table)
            self._hear_store(table)
            of_sets = hasattr(table.data, "send_changelog_event")
            if of_sets:
                self._hear_sets(table)
            table.told = self._driver.sensor
            table.__class__ = _telling(table.__class__, of_sets=of_sets)

    # -- changelogs -----------------------------------------------------------------------------------------------

    @property
    def topics(self) -> set[str]:
        """The changelogs."""
        return set(self._driver.app.tables.changelog_topics)

    def met(self, tp: Any, offset: int, stamp: wire.Stamp) -> None:
        """A record of a changelog came in; its epoch was met."""
        if stamp.cause is not None:
            topic, partition, cause = stamp.cause
            self._effects[topic, partition] = max(cause + 1, self._effects.get((topic, partition), 0))
        if self._driver.machine.colours.tearing:
            self._colours[tp, offset] = stamp.epoch

    def effects_until(self, tp: TopicPartition) -> int:
        """One past the last event of an input that may have had effects in the tables; 0: none had."""
        met = self._effects.get((wire.topic_check(tp.topic), tp.partition), 0)
        return max(met, self._bounds.get(tp, 0))

    def to_bound(self, inputs: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of which a store may hold effects that were never met here: of these the log's end is wanted."""
        if not any(self._held.values()):
            return []
        return [tp for tp in inputs if tp not in self._bounds]

    def bound(self, ends: Mapping[TopicPartition, int]) -> None:
        """Effects that were never met are of events below these ends. What others do later will be met."""
        self._bounds.update(ends)

    def taken_away(self) -> None:
        """A rebalance empties the queues."""
        self._colours.clear()

    def _hear_changelog(self, table: Any) -> None:
        heard = table.on_changelog_event

        async def on_changelog_event(event: Any) -> None:
            if self._colours:
                message = event.message
                epoch = self._colours.pop((message.tp, message.offset), 0)
                if epoch:
                    self._driver.machine.key_received(table.name, _key(table, event.key), epoch)
            await heard(event)

        table.on_changelog_event = on_changelog_event

    def _hear_store(self, table: Any) -> None:
        """Faust asks a store how far it has got, and reads the changelog from there."""
        ask = table.persisted_offset

        def persisted_offset(tp: Any) -> int | None:
            offset: int | None = ask(tp)
            self._held.setdefault(tp, offset is not None)
            return offset

        table.persisted_offset = persisted_offset

    # -- what no sensor tells ---------------------------------------------------------------------------------------

    def _hear_sets(self, table: Any) -> None:
        """A table of sets tells no sensor that a set was changed."""
        touched = self._driver.sensor.touched
        send = table.data.send_changelog_event

        def send_changelog_event(key: Any, operation: int, value: Any) -> None:
            send(key, operation, value)
            touched(table, key, write=True)

        table.data.send_changelog_event = send_changelog_event


@cache
def _telling(cls: Hashable, *, of_sets: bool) -> Any:
    """A subclass of a class of tables that tells when it is read in a way that Faust's sensors do not hear of: as a
    whole, for a key that may be there or not, and where it is of sets at all."""
    base: Any = cls

    class Telling(base):
        def __contains__(self, key: Any) -> bool:
            self.told.touched(self, key, write=False)
            return bool(super().__contains__(key))

        def __iter__(self) -> Any:
            self.told.read_whole(self)
            return super().__iter__()

        def __len__(self) -> int:
            self.told.read_whole(self)
            return int(super().__len__())

        def keys(self) -> Any:
            self.told.read_whole(self)
            return super().keys()

        def values(self) -> Any:
            self.told.read_whole(self)
            return super().values()

        def items(self) -> Any:
            self.told.read_whole(self)
            return super().items()

    if of_sets:

        def lookup(self: Any, key: Any) -> Any:
            self.told.touched(self, key, write=False)
            return base.__getitem__(self, key)

        Telling.__getitem__ = lookup  # type: ignore[method-assign, assignment, unused-ignore]
    Telling.__name__, Telling.__qualname__, Telling.__module__ = (
        base.__name__,
        base.__qualname__,
        base.__module__,
    )
    return Telling


def _key(table: Any, key: Any) -> Any:
    """The key as agents use it; in the changelog of a table of sets the operation stands in front of it."""
    key = table._to_key(key)
    return key[1] if hasattr(table.data, "send_changelog_event") else key
