"""Tables: the records that come in by their changelogs, and the changes that Faust's sensors do not see.

A record of a changelog is taken in during recovery, and for standbys and global tables all the time. Its colour is
that of the process that wrote it (R6); its cause shows up to which offset the inputs of the app have had effects
(R10).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from snapkafka.protocol.records import TopicPartition
from snapkafka.units import duration_ms
from snapkafka.wire import headers as wire

from ...patches import after
from ..describe import in_transactions
from ..support import in_consumer
from .reads import USED, attach, is_fixed

if TYPE_CHECKING:
    from ..driver import FaustDriver

#: (topic check, partition) of an input.
Place = tuple[int, int]

#: Kafka's name of the time for which no record of a topic is compacted.
LAG: Final = "min.compaction.lag.ms"


def delay_compaction(app: Any, lag: str | None) -> None:
    """Let Faust create the changelogs of an app so that nothing is compacted for that long; what the app says of a
    topic goes before it. Called before the tables start."""
    if lag is None:
        return
    lag_ms = duration_ms(lag, "changelog_lag")
    for table in app.tables.values():
        topic = table.changelog_topic
        topic.config = {LAG: str(lag_ms), **(topic.config or {})}


def recover_to_the_end(app: Any, consumer: Any) -> None:
    """Let tables recover to the ends that the broker reports with `processing_guarantee="exactly_once"`.

    Faust 0.15.3 uses the last stable offset that its consumer knows of each changelog. Before the first fetch that is
    None, and Faust takes None for an empty changelog: most starts recover no table, or only some, and go on with empty
    ones. After a rebalance it is the offset of the last fetch, which may lie below what was committed since. So the
    broker is asked: for a consumer that reads committed records, the end offset is the last stable offset.
    """
    highwaters = consumer.highwaters

    async def ends(*tps: Any) -> Mapping[Any, Any]:
        if not tps or not in_transactions(app):
            return await highwaters(*tps)  # type: ignore[no-any-return]
        found: Mapping[Any, Any] = await in_consumer(consumer, lambda client: client.end_offsets(tps))
        return found

    consumer.highwaters = ends


class Tables:
    """The tables of one app."""

    def __init__(self, driver: FaustDriver) -> None:
        self._driver, self._reads = driver, driver.reads
        #: Of records in Faust's queue, while an event could be torn.
        self._colours: dict[tuple[Any, int], int] = {}
        self._effects: dict[Place, int] = {}  # one past the causes that were met
        self._void: set[tuple[Any, int]] = set()  # records in Faust's queue that are not to be applied
        self._asked: set[Any] = set()  # changelog partitions of which a store was asked what it holds
        self.holds = False  # did one hold anything, and so effects that were never met here?
        #: Input -> where its log ended, when it was first assigned: a bound of such effects. Later ones will be met.
        self.bounds: dict[TopicPartition, int] = {}

    def attach(self) -> None:
        """Patch the tables: all are defined by now, and no store is open."""
        for table in self._driver.app.tables.values():
            if table.window is not None and table.window.expires is not None:
                # Faust removes expired windows from the store without a notification: each is a write.
                popped = lambda _, key, *__, table=table: self._reads.touched_by(None, table, key)  # noqa: E731
                after(self._driver, table.data, "pop", popped, USED)
            attach(self._driver, table)

    # -- changelogs -----------------------------------------------------------------------------------------------

    @property
    def topics(self) -> set[str]:
        return set(self._driver.app.tables.changelog_topics)

    def met(self, tp: Any, offset: int, stamp: wire.Stamp | None) -> None:
        """Note a record of a changelog that came in, whose epoch was met. `stamp` None: of a writer without snapkafka.

        Records below the base of a restore, and records that it appended, are not effects of present events.
        """
        base = self._driver.restored.bases.get(TopicPartition(*tp))
        restored = base and (offset < base.end or (stamp and stamp.process <= base.author))
        if stamp is not None and stamp.cause is not None and not restored:
            topic, partition, cause = stamp.cause
            self._effects[topic, partition] = max(cause + 1, self._effects.get((topic, partition), 0))
        if stamp is not None and self._driver.machine.colours.tearing:
            self._colours[tp, offset] = stamp.epoch

    def effects_until(self, tp: TopicPartition) -> int:
        """Return one past the last event of an input that may have had effects in the tables; 0: none had."""
        return max(self._effects.get((wire.topic_check(tp.topic), tp.partition), 0), self.bounds.get(tp, 0))

    def void(self, tp: Any, offset: int) -> None:
        """Drop a record of a changelog by a process that is older than a restore: it is not applied."""
        self._void.add((tp, offset))

    def on_revoked(self) -> None:
        """Forget what waits: a rebalance empties the queues."""
        self.forget_epochs()
        self._void.clear()

    def forget_epochs(self) -> None:
        """Forget the epochs: they belong to another ledger."""
        self._colours.clear()

    # -- what the class of tables calls -------------------------------------------------------------------------------

    def to_apply(self, batch: list[Any]) -> list[Any]:
        """Return the records of a batch that are applied to its table."""
        if self._void:
            places = [(event.message.tp, event.message.offset) for event in batch]
            batch = [event for event, at in zip(batch, places, strict=True) if at not in self._void]
            self._void.difference_update(places)
        return batch

    def comes_in(self, table: Any, event: Any) -> bool:
        """Note a record that comes in while the app runs; return whether the table hears of it."""
        place = event.message.tp, event.message.offset
        if place in self._void:
            return False
        if table.keeps_objects and not table.in_place and not is_fixed(event.value):
            table.in_place = True
        if self._colours and (epoch := self._colours.pop(place, 0)):
            key = table._to_key(event.key)
            if table.of_sets:  # the operation precedes the key
                key = key[1]
            machine = self._driver.machine
            self._driver.do(machine.torn(machine.colours.received(table.name, key, epoch)))
        return True

    def store_asked(self, tp: Any, offset: int | None) -> None:
        """Note how far a store has read the changelog: Faust continues from there."""
        if tp not in self._asked:
            self._asked.add(tp)
            self.holds |= offset is not None
