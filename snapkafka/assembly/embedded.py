"""The engine in this process: records from librdkafka, questions to SQLite."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, Final

from snapkafka.checks import ReadRange, questions
from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError, OffsetsGoneError
from snapkafka.kafka.records.bulk import client_settings, headers_of, messages_of
from snapkafka.wire import headers as wire

from .examine import Examination, Part, Reading
from .job import Job, Settings
from .order import Engine, HandOverError
from .records import CLIENT_ID, Record, pieces, record_of
from .state import Change, Fold
from .table_files import Written

#: The libraries of the engine, for the manifest.
LIBRARIES: Final = ("confluent-kafka", "duckdb", "pyarrow")
#: Keys and values of the state that are held in memory at most.
BYTES_MAX: Final = 512 << 20
#: Numbers that are held of each change.
COLUMNS: Final = 5
#: Kafka's numbers of the types of timestamps, by librdkafka's.
TIMESTAMP_TYPES: Final = {1: 0, 2: 1}


class EmbeddedEngine(Engine):
    """The engine without Spark: a log is a stream, and what is left of its changes is held."""

    name = "embedded"

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._asked = array("q")  # place, pos, hash of the key, whether there is a key, white
        self._fold: Fold | None = None

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in LIBRARIES}

    @contextmanager
    def reading(self, name: str) -> Iterator[None]:
        try:
            yield
        finally:
            self._asked, self._fold = array("q"), None

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
        for tp, records in pieces(self.records(reading.settings, reading.to_read())):
            for change in work.take(tp, records):
                self._keep(change)
        return [work.part()]

    def fold(self, write: Callable[[Fold, int], Written]) -> list[Written]:
        assert self._fold is not None, "it is examined before"
        return [write(self._fold, 0)]

    def ask(self, question: str) -> Sequence[tuple[Any, ...]]:
        """Ask SQLite."""
        rows = zip(*(self._asked[nth::COLUMNS] for nth in range(COLUMNS)), strict=True)
        return questions.answered(
            question, ((place, pos, of if keyed else None, white) for place, pos, of, keyed, white in rows)
        )

    def records(self, settings: Settings, ranges: Iterable[ReadRange]) -> Iterator[Record]:
        """Read the records of ranges, one per partition, in the order of each."""
        client = client_settings(self._job.connection()) | {
            "client.id": CLIENT_ID,
            "group.id": CLIENT_ID,
            "isolation.level": settings.spec.isolation,
        }
        ledger_id = wire.ledger_id(bytes.fromhex(settings.ledger.topic_id))
        return (_record(ledger_id, message) for message in messages_of(client, list(ranges), _refuse))

    def _keep(self, change: Change) -> None:
        of = change.key_hash
        self._asked.extend((change.place, change.pos, of or 0, int(of is not None), change.white))
        if change.bucket is not None:
            assert self._fold is not None, "changes are of the first examination"
            self._fold.take(change)
            if self._fold.bytes > BYTES_MAX:
                raise HandOverError(f"state of more than {BYTES_MAX >> 20} MB")


def _record(ledger_id: int, message: Any) -> Record:
    place = message.topic(), message.partition(), message.offset()
    kind, at_ms = message.timestamp()
    try:
        headers = headers_of(message)
    except UnicodeError as error:
        raise HandOverError(str(error)) from error
    time = at_ms, TIMESTAMP_TYPES.get(kind, -1)
    return record_of(ledger_id, place, time, message.key(), message.value(), headers, wire.find(headers))


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
