"""The engine in this process: records from librdkafka, questions to DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import chain
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from snapkafka.checks import ReadRange
from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError, OffsetsGoneError
from snapkafka.kafka.records.bulk import client_settings, headers_of, messages_of
from snapkafka.wire import headers as wire

from .arrow_schema import arrow_schema
from .examine import Examination, Part, Reading
from .job import Job, Settings
from .order import Engine, HandOverError
from .records import CLIENT_ID, PIECE_BYTES, ROWS
from .state import Fold
from .table_files import Written

#: The libraries of the engine, for the manifest.
LIBRARIES: Final = ("confluent-kafka", "duckdb", "pyarrow")
#: Keys and values of the state that are held in memory at most.
BYTES_MAX: Final = 512 << 20
#: Records that are put into columns at once.
BATCH: Final = 10_000
#: What is held of each change.
ASKED: Final = arrow_schema("place int, pos bigint, key_hash bigint, white int")
#: Kafka's numbers of the types of timestamps, by librdkafka's.
TIMESTAMP_TYPES: Final = {1: 0, 2: 1}


class EmbeddedEngine(Engine):
    """The engine without Spark: a log is a stream, and what is left of its changes is held."""

    name = "embedded"

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._asked: list[pa.RecordBatch] = []
        self._fold: Fold | None = None

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in LIBRARIES}

    @contextmanager
    def reading(self, name: str) -> Iterator[None]:
        try:
            yield
        finally:
            self._asked, self._fold = [], None

    def examine(self, reading: Reading) -> list[Part]:
        """Read and examine.

        Raises:
            HandOverError: there is more than memory is meant for, or a record that this engine cannot hold.
            OffsetsGoneError: records were deleted.
            BrokerUnavailableError, LedgerUnusableError, TimedOutError: they cannot be read.
        """
        work = Examination(reading)
        if not reading.is_again:
            self._fold = reading.new_fold()
        for changes in work.take(self.batches(reading.settings, reading.to_read())):
            self._keep(changes)
        return [work.part()]

    def fold(self, write: Callable[[Fold, int], Written]) -> list[Written]:
        assert self._fold is not None, "it is examined before"
        return [write(self._fold, 0)]

    def ask(self, question: str) -> Sequence[tuple[Any, ...]]:
        """Ask DuckDB."""
        import duckdb

        with duckdb.connect() as database:
            database.register("changes", pa.Table.from_batches(self._asked, ASKED))
            found: list[tuple[Any, ...]] = database.execute(question).fetchall()
        return found

    def batches(self, settings: Settings, ranges: Iterable[ReadRange]) -> Iterator[pa.RecordBatch]:
        """Read the records of ranges, one per partition, in the order of each, by `ROWS`."""
        client = client_settings(self._job.connection()) | {
            "client.id": CLIENT_ID,
            "group.id": CLIENT_ID,
            "isolation.level": settings.spec.isolation,
        }
        some, size = list[tuple[Any, ...]](), 0
        for message in messages_of(client, list(ranges), _refuse):
            some.append(_row(message))
            *_, key, value, headers, _ = some[-1]
            size += sum(len(it or b"") for it in (key, value, *chain(*headers)))
            if len(some) >= BATCH or size >= PIECE_BYTES:
                batch, some, size = batch_of(some), [], 0
                yield batch
        if some:
            yield batch_of(some)

    def _keep(self, changes: pa.RecordBatch) -> None:
        self._asked.append(changes.select(ASKED.names))
        assert self._fold is not None, "changes are of the first examination"
        self._fold.take(changes)
        if self._fold.bytes > BYTES_MAX:
            raise HandOverError(f"state of more than {BYTES_MAX >> 20} MB")


def batch_of(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """Return rows, by `ROWS`."""
    columns = [pa.array(of, kind.type) for of, kind in zip(zip(*rows, strict=True), ROWS, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=ROWS)


def _row(message: Any) -> tuple[Any, ...]:
    kind, at_ms = message.timestamp()
    try:
        headers = headers_of(message)
    except UnicodeError as error:
        raise HandOverError(str(error)) from error
    place = message.topic(), message.partition(), message.offset()
    of_client = at_ms, TIMESTAMP_TYPES.get(kind, -1), message.key(), message.value()
    return *place, *of_client, headers, wire.find(headers)


def _refuse(topic: str, partition: int, error: Any) -> None:
    from confluent_kafka import KafkaError

    what = f"could not read {topic}[{partition}]: {error.str()}"
    if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
        raise OffsetsGoneError(f"records were deleted while they were read: {what}")
    if error.code() in (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    ):
        raise OffsetsGoneError(f"a topic was deleted while it was read: {what}")
    if error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
        raise LedgerUnusableError(
            f"not allowed to read what the snapshot needs: {what}",
            hint="docs/reference/ledger.md lists the rights that the assembly job needs",
        )
    raise BrokerUnavailableError(what)
