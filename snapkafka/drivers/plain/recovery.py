"""The recovery of a table: the changelogs of the assigned partitions are read to their ends.

Their records are taken in like any other (R2), and show up to which offset the inputs have had effects (R10).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from aiokafka import TopicPartition as KafkaPartition

from snapkafka.kafka.login import clients
from snapkafka.kafka.login.connection import translated
from snapkafka.protocol.events import RecordMet
from snapkafka.protocol.records import ChangelogEnd, TopicPartition
from snapkafka.wire import headers as wire

if TYPE_CHECKING:
    from .driver import PlainDriver
    from .table import Table

#: One fetch waits no longer than this.
FETCH_MS: Final = 200


@dataclass(slots=True)
class Recovered:
    """The content of changelog partitions, and their ends. `effects`: one past the last event of an input that had
    effects there, by the marks of its topic and partition."""

    data: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    effects: dict[tuple[int, int], int] = field(default_factory=dict)

    def changelogs(self, table: Table) -> tuple[ChangelogEnd, ...]:
        """Return the ends, as the machine is fed them."""
        return tuple(
            ChangelogEnd(table=table.name, topic=table.changelog, partition=partition, end=end)
            for partition, end in sorted(self.ends.items())
        )

    def effects_until(self, tp: TopicPartition) -> int:
        """Return one past the last event of an input that had effects; 0: none had."""
        return self.effects.get((wire.topic_check(tp.topic), tp.partition), 0)


async def recover(host: PlainDriver, table: Table, partitions: Collection[int]) -> Recovered:
    """Read these partitions of a changelog to their ends; records of aborted transactions are none.

    Raises:
        SnapkafkaError: they cannot be read.
    """
    found = Recovered(data={partition: {} for partition in partitions})
    if not partitions:
        return found  # there may be more members than partitions
    wanted = {KafkaPartition(table.changelog, partition) for partition in partitions}
    consumer = clients.consumer(
        host.connection, group_id=None, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    async with translated(host.connection, f"read {table.changelog}"):
        try:
            await consumer.start()
            consumer.assign(wanted)
            ends: Mapping[Any, int] = await host.admin.log_ends(TopicPartition(*tp) for tp in wanted)
            found.ends = {tp.partition: end for tp, end in ends.items()}
            unread = set(wanted)
            while unread := {tp for tp in unread if await consumer.position(tp) < found.ends[tp.partition]}:
                for tp, records in (await consumer.getmany(*unread, timeout_ms=FETCH_MS)).items():
                    for record in records:
                        if await _counts(host, TopicPartition(*tp), record, found):
                            _apply(found.data[tp.partition], record)
        finally:
            await consumer.stop()
    return found


async def _counts(host: PlainDriver, tp: TopicPartition, record: Any, found: Recovered) -> bool:
    """Return whether a record is a change of the table; note what it is an effect of."""
    if record.value is None and wire.is_marker(record.key, record.headers):
        return False
    header = None if host.absent else wire.find(record.headers)
    stamp = None if header is None else wire.read(header, host.stamps.ledger_id, wire.tp_check(*tp))
    if stamp is None:
        return True
    ledger = host.machine.ledger
    if ledger.is_void(stamp.process, tp, record.offset):
        return False
    if stamp.epoch > host.machine.colours.epoch:
        await host.follower.meet(RecordMet(epoch=stamp.epoch))
    base = ledger.restores.bases.get(tp)
    now = base is None or (record.offset >= base.end and stamp.process > base.author)
    if stamp.cause is not None and now:
        topic, partition, offset = stamp.cause
        found.effects[topic, partition] = max(offset + 1, found.effects.get((topic, partition), 0))
    return True


def _apply(data: dict[bytes, bytes], record: Any) -> None:
    if record.value is None:
        data.pop(record.key, None)
    else:
        data[record.key] = record.value
