"""The ledger on Kafka: topic `_snapkafka.<namespace>`, one partition, never compacted, never trimmed.

Its order is the order of everything (R11), so a second partition or a lost record would be a lost agreement: a topic
with such settings is refused, with a remedy. docs/reference/ledger.md explains how an administrator creates it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from aiokafka import errors

from snapkafka.errors import LedgerUnusableError, SnapkafkaError
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin, namespaces_hint
from snapkafka.kafka.login.connection import Connection, translated
from snapkafka.ports import Entry, Rest, Topic
from snapkafka.protocol import from_checkpoint
from snapkafka.protocol.records import LedgerRecord, TopicPartition
from snapkafka.wire import headers
from snapkafka.wire.codec import encode, load

from .ledger_producer import LedgerProducer
from .reader import LedgerRecreatedError, LedgerTrimmedError, read_entries
from .settings import RECORD_BYTES_MAX, harmful, settings_for
from .tail_marks import LedgerCutShortError, Marks, lost_since, mark_of

#: An append that is not acknowledged by then is given up; it may still land, and is then dropped as a repeat.
APPEND_TIMEOUT_S: Final = 8.0
#: A ledger that two requests this far apart do not find was deleted; one may have reached a broker that lags behind.
NOT_SEEN_FOR_S: Final = 1.0


def topic_name(namespace: str) -> str:
    """Return the topic that is the ledger of a namespace."""
    return f"_snapkafka.{namespace}"


class RecordTooLargeError(LedgerUnusableError):
    """A record that can never be written."""


def behind_checkpoint(topic: str, start: int, found: Sequence[Entry]) -> list[Entry]:
    """Return what a reader is given of a ledger that begins at `start`, where all of this was found: first what stands
    for the deleted records.

    Raises:
        LedgerUnusableError: nothing does.
    """
    first = from_checkpoint((entry.record for entry in found), start)
    if not first:
        raise LedgerUnusableError(
            f"ledger {topic} begins at offset {start}, and no checkpoint replaces the deleted records",
            hint="delete the topic and restart the services, which start a new one (docs/reference/ledger.md)",
        )
    kept = [Entry(one.offset, one.at_ms, one.record) for one in first]
    return [*kept, *(entry for entry in found if entry.offset > first[0].offset)]


class KafkaLedger:
    """The implementation of `ports.Ledger` on Kafka.

    Args:
        connection: the cluster.
        namespace: the systems that are snapshotted together share one.
    """

    def __init__(self, connection: Connection, namespace: str) -> None:
        self.connection = connection
        self.topic = topic_name(namespace)
        self._tp = TopicPartition(self.topic, 0)
        self._admin = KafkaTopicAdmin(connection)
        self._topic_id = ""
        self._seen_end = 0
        self._marks = Marks()
        self._leader_epoch = -1  # when the marks were last found to agree
        self._lost: int | None = None  # from this offset on, of what was read
        self._producer = LedgerProducer(connection, self.topic)
        self._replaced = asyncio.Event()

    @property
    def ledger_id(self) -> int:
        """The mark of the ledger in headers, see `wire.headers.ledger_id`."""
        assert self._topic_id, "open() comes first"
        return headers.ledger_id(bytes.fromhex(self._topic_id))

    @property
    def topic_id(self) -> str:
        """Kafka's own id of the topic that was opened, 32 hex digits; empty before."""
        return self._topic_id

    # -- opening ---------------------------------------------------------------------------------------------

    async def open(self, *, create: bool = True) -> None:
        """Find the ledger, or create it; again after it was deleted and recreated.

        Args:
            create: create a missing ledger; otherwise it is an error.

        Raises:
            LedgerUnusableError: it is not there and may not be made, or its settings would lose agreements.
            LedgerCutShortError: it has lost records that were read; the next time it is opened as it is then.
            BrokerUnavailableError: nobody answers.
        """
        await asyncio.to_thread(load)  # Avro takes some 100 ms to import: not on the loop of a service
        found = await self._describe()
        if found is None and create:
            found = await self._create()
        if found is None:
            raise LedgerUnusableError(
                f"there is no ledger {self.topic}: no service with snapkafka has run in this namespace",
                hint=await namespaces_hint(self._admin),
            )
        if found.partitions != 1:
            raise LedgerUnusableError(
                f"ledger {self.topic} has {found.partitions} partitions; it must have exactly one",
                hint="delete it and create it with 1 partition (docs/reference/ledger.md)",
            )
        await self._check_settings(found.replicas)
        if found.topic_id != self._topic_id or self._lost is not None:
            await self._producer.drop()
            self._seen_end, self._marks, self._lost = 0, Marks(), None
            self._leader_epoch = found.leader_epoch
        self._topic_id, self._replaced = found.topic_id, asyncio.Event()
        await self._check_tail(found.leader_epoch)

    async def _describe(self) -> Topic | None:
        return (await self._admin.describe_topics([self.topic])).get(self.topic)

    async def _create(self) -> Topic | None:
        try:
            replicas = await self._admin.replicas()
            await self._admin.create_topic(self.topic, replicas=replicas, settings=settings_for(replicas))
        except LedgerUnusableError as error:
            raise LedgerUnusableError(
                f"there is no ledger {self.topic} and it cannot be created: {error.message}",
                hint="have an administrator create it as docs/reference/ledger.md describes",
            ) from error
        return await self._describe()

    async def _check_settings(self, replicas: int) -> None:
        """Refuse settings that lose or refuse records, or make them unreadable."""
        try:
            holding, _ = await self._admin.topic_settings(self.topic)
        except LedgerUnusableError:
            return  # without the right to look, the administrator's word is taken
        for name, why in harmful(holding, replicas):
            raise LedgerUnusableError(
                f"ledger {self.topic} has {name}={holding[name]}: {why}",
                hint=f"delete it, or kafka-configs.sh --bootstrap-server {self.connection.bootstrap} --alter"
                f" --entity-type topics --entity-name {self.topic} --add-config"
                f" {name}={settings_for(replicas)[name]}",
            )

    async def _is_same(self) -> bool:
        """Return whether the topic is still the one that was opened. A broker that does not answer proves nothing."""
        for pause_s in (0.0, NOT_SEEN_FOR_S):
            await asyncio.sleep(pause_s)
            try:
                found = await self._describe()
            except SnapkafkaError:
                return True
            if found is not None and found.topic_id == self._topic_id:
                await self._check_tail(found.leader_epoch)
            if found is not None:
                return found.topic_id == self._topic_id
        return False

    async def _check_tail(self, leader_epoch: int) -> None:
        """Raise where records are lost that were read."""
        if self._lost is None and (leader_epoch != self._leader_epoch or self._replaced.is_set()):
            try:
                self._lost = await lost_since(self._marks, self.start, self._log_end, self._standing)
            except SnapkafkaError:
                return  # it is looked at again
            self._leader_epoch = leader_epoch
            self._replaced.clear()
        if self._lost is not None:
            self._seen_end = 0  # it can be written to: that it has lost something
            await self._producer.drop()
            raise LedgerCutShortError(self.topic, self._lost)

    async def _standing(self, first: int, upto: int) -> dict[int, int]:
        async def as_it_is() -> bool:
            return True

        entries = read_entries(
            self.connection, self.topic, first, until=upto, same=as_it_is, suspect=self._replaced
        )
        return {entry.offset: mark_of(entry) async for entry in entries}

    # -- writing ---------------------------------------------------------------------------------------------

    async def append(self, record: LedgerRecord) -> int:
        """Append a record and wait until it is safe; return its offset. Records are appended in the order of the
        calls.

        Raises:
            RecordTooLargeError: the record exceeds the limit of the ledger.
            LedgerUnusableError: writing is unauthorized.
            BrokerUnavailableError: not acknowledged in time; it may land later, and again if it is repeated.
            LedgerRecreatedError: the ledger is another one by now; the record stands in the new one, where it means
                nothing.
            LedgerCutShortError: the ledger has lost records that were read; this one may stand where one of them did.
        """
        assert self._topic_id, "open() comes first"
        value = encode(record)
        if len(value) > RECORD_BYTES_MAX:
            raise RecordTooLargeError(
                f"a {type(record).__name__} of {len(value):,} bytes is too large for the ledger"
                f" (at most {RECORD_BYTES_MAX:,})",
                hint="spread the app over more workers: each reports its own partitions only",
            )
        # before it leaves: a reader of ours may meet the record before its acknowledgement
        seen_end = self._seen_end
        async with translated(self.connection, f"append to ledger {self.topic}"):
            try:
                async with asyncio.timeout(APPEND_TIMEOUT_S):
                    offset = await self._producer.send(type(record).__name__.encode(), value)
            except (TimeoutError, errors.KafkaError) as error:
                await self._producer.drop()
                if isinstance(error, errors.OutOfOrderSequenceNumber):
                    self._replaced.set()  # the broker does not know what was written before
                    await self._is_same()
                raise
        await self._require_end(offset, seen_end)
        self._seen_end = max(self._seen_end, offset + 1)
        return offset

    async def _require_end(self, end: int, seen_end: int) -> None:
        """Refuse a ledger that ends below what was read: it is another one by now, or has lost its tail."""
        if end < seen_end:
            self._replaced.set()
            await self._is_same()
            raise LedgerRecreatedError(self.topic)

    # -- reading ---------------------------------------------------------------------------------------------

    async def read(
        self, start: int = 0, *, until: int | None = None, rest: Rest | None = None
    ) -> AsyncIterator[Entry]:
        """Yield the entries from `start` on, in order, live; or up to `until`. Where that was deleted: from the
        beginning, as `LedgerState.apply` takes it.

        Args:
            rest: see `reader.Gulps`; None: every entry is yielded as soon as it is there.

        Raises:
            LedgerRecreatedError: the ledger was deleted, or deleted and made again; noticed within a few seconds.
            LedgerCutShortError: it has lost records that were read; noticed within a few seconds.
            LedgerUnusableError, BrokerUnavailableError: it cannot be read.
        """
        assert self._topic_id, "open() comes first"
        while True:
            try:
                async for entry in self._read(start, until, rest):
                    start = entry.offset + 1
                    yield entry
                return
            except LedgerTrimmedError:
                pass
            async for entry in self._from_checkpoint():
                start = entry.offset + 1
                if until is None or start <= until:
                    yield entry

    async def _read(self, start: int, until: int | None, rest: Rest | None = None) -> AsyncIterator[Entry]:
        same, suspect = self._is_same, self._replaced
        async for entry in read_entries(
            self.connection, self.topic, start, until=until, same=same, suspect=suspect, rest=rest
        ):
            self._seen_end = max(self._seen_end, entry.offset + 1)
            self._marks.add(entry.offset, mark_of(entry))
            yield entry

    async def _from_checkpoint(self) -> AsyncIterator[Entry]:
        start = await self.start()
        found = [entry async for entry in self._read(start, await self.end())]
        for n, entry in enumerate(behind_checkpoint(self.topic, start, found)):
            if n % 50 == 0:  # folded in some three milliseconds
                await asyncio.sleep(0)
            yield entry

    async def start(self) -> int:
        """Return the first offset that exists: older records were deleted."""
        return (await self._admin.log_starts([self._tp]))[self._tp]

    async def end(self) -> int:
        """Return the next offset to be written.

        Raises:
            LedgerRecreatedError, LedgerCutShortError: it is below what was read.
        """
        seen_end, end = self._seen_end, await self._log_end()
        await self._require_end(end, seen_end)
        return end

    async def _log_end(self) -> int:
        return (await self._admin.log_ends([self._tp]))[self._tp]

    async def trim(self, upto: int) -> None:
        """Delete all records below `upto`, for good.

        Raises:
            LedgerUnusableError: deletion is unauthorized.
            BrokerUnavailableError: no broker answers.
        """
        await self._admin.delete_records(self._tp, upto)

    async def close(self) -> None:
        """Close the connections."""
        await self._producer.close()
        await self._admin.close()
