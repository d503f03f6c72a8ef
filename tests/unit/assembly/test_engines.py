"""The choice of the engine, what the embedded one hands over, and what it reads by a client that returns what a broker
would not; and what Spark reports of the world outside, in our words."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from unittest.mock import Mock

import confluent_kafka
import pytest

from snapkafka.assembly import HandOverError, Job, JobSpec, embedded, engines
from snapkafka.assembly.embedded import EmbeddedEngine
from snapkafka.assembly.spark_errors import as_ours
from snapkafka.checks import ReadRange
from snapkafka.errors import BadInputError, DependencyMissingError, OffsetsGoneError
from snapkafka.runtime import extras
from tests.spark.at_hand import ENTRY, job_of, settings_of


class Fake:
    """An engine that says its name, or hands over."""

    def __init__(self, name: str, reason: str = "") -> None:
        self.name, self.reason = name, reason

    def assemble(self) -> str:
        if self.reason:
            raise HandOverError(self.reason)
        return self.name


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Both engines, without Spark; `reason`: why the embedded one hands over."""
    handed = {"reason": ""}

    @contextmanager
    def spark(*_: object) -> Iterator[Fake]:
        yield Fake("spark")

    monkeypatch.setattr("snapkafka.assembly.spark.engine.spark_engine", spark)
    monkeypatch.setattr(embedded, "EmbeddedEngine", lambda job: Fake("embedded", handed["reason"]))
    return handed


def taken(lines: list[str], spec: JobSpec, *, offsets: int = 1_000) -> str:
    """Return the name of the engine that assembles."""
    with engines.Chosen(Job(spec=spec, notify=lines.append)) as engine:
        return engine.do(offsets, lambda it: cast(Fake, it).assemble())


@pytest.mark.parametrize("name", ["spark", "embedded", "auto"])
def test_a_small_snapshot_is_that_of_the_option(fakes: dict[str, str], lines: list[str], name: str) -> None:
    assert taken(lines, JobSpec(engine=name)) == ("spark" if name == "spark" else "embedded")
    assert lines == []


@pytest.mark.parametrize(
    ("offsets", "missing", "reason", "named"),
    [
        (engines.OFFSETS_MAX + 1, [], "", f"{engines.OFFSETS_MAX + 1:,} offsets"),
        (1_000, [], "an odd header", "an odd header"),  # that shows only in the records
        (1_000, ["duckdb"], "", "without duckdb"),
    ],
)
def test_what_only_spark_does_is_named(
    fakes: dict[str, str], lines: list[str], monkeypatch: pytest.MonkeyPatch,
    offsets: int, missing: list[str], reason: str, named: str,
) -> None:  # fmt: skip
    """Never a silent difference: `auto` takes Spark and says why, `embedded` refuses."""
    fakes["reason"] = reason
    monkeypatch.setattr(engines, "missing_of", lambda extra: missing)
    assert taken(lines, JobSpec(engine="auto"), offsets=offsets) == "spark"
    (line,) = lines
    assert named in line
    with pytest.raises(BadInputError, match=named):
        taken(lines, JobSpec(engine="embedded"), offsets=offsets)


def test_where_spark_is_needed_and_missing_the_reason_is_named(
    fakes: dict[str, str], lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes["reason"] = "an odd header"
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "pyspark" else name)
    with pytest.raises(DependencyMissingError) as raised:
        taken(lines, JobSpec(engine="auto"))
    assert raised.value.message.startswith("Spark (for an odd header) needs pyspark, ")
    assert raised.value.hint.startswith("pip install '.[spark]'")


# -- the reader of the embedded engine -------------------------------------------------------------------------


def message(offset: int, **more: Any) -> Any:
    answers = {"topic": "t", "partition": 0, "offset": offset, "error": None, "timestamp": (1, 5)}
    answers |= {"key": None, "value": b"v", "headers": None, **more}
    return Mock(**{f"{name}.return_value": answer for name, answer in answers.items()})


def read(monkeypatch: pytest.MonkeyPatch, *messages: Any) -> list[dict[str, Any]]:
    """Read the offsets from 2 to 5 from a client that returns these."""
    client = Mock(**{"consume.side_effect": [[it] for it in messages]})
    monkeypatch.setattr(confluent_kafka, "Consumer", lambda settings: client)
    settings = settings_of(ENTRY, bootstrap="nowhere:9092")
    batches = EmbeddedEngine(job_of(settings)).batches(settings, [ReadRange("t", 0, 2, 6)])
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_log_that_was_cut_and_written_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by Spark: the checks need each record once. What compaction or a transaction left out is not missed."""
    assert [it["offset"] for it in read(monkeypatch, message(3), message(7))] == [3]
    for offsets in ([1, 5], [2, 2, 5], [2, 4, 3, 5]):
        with pytest.raises(OffsetsGoneError):
            read(monkeypatch, *map(message, offsets))


def test_large_records_are_put_into_columns_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else ten thousand of them were held."""
    monkeypatch.setattr(embedded, "PIECE_BYTES", 5)
    batch_of = Mock(side_effect=embedded.batch_of)
    monkeypatch.setattr(embedded, "batch_of", batch_of)
    read(monkeypatch, message(2), message(3, value=None, headers=[("h", b"large")]), message(5))
    assert [len(call.args[0]) for call in batch_of.call_args_list] == [2, 1]


def test_the_name_of_a_header_that_is_no_text_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client cannot return it; Spark can."""
    odd = message(5)
    odd.headers.side_effect = SystemError("<method 'headers'> returned a result with an exception set")
    with pytest.raises(HandOverError, match=r"t\[0\].*UTF-8"):
        read(monkeypatch, odd)


def test_a_time_in_nanoseconds_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's source ends at it, and the job reads around it: this engine needs neither."""
    assert [it["at_ms"] for it in read(monkeypatch, message(5, timestamp=(1, 2**62)))] == [2**62]


# -- what Spark reports ----------------------------------------------------------------------------------------


LOSS = """An error occurred while calling o1.count.
: org.apache.spark.SparkException: [KAFKA_DATA_LOSS.{kind}] Some data may have been lost because they are not \
available in Kafka any more; {reason}"""

RANGE = "Could not read records in offset [1, 9) for topic partition shop.orders-new-3 with consumer"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (LOSS.format(kind="COULD_NOT_READ_OFFSET_RANGE", reason=RANGE), "shop.orders-new[3]"),
        (LOSS.format(kind="PARTITIONS_DELETED", reason="Partitions HashSet(a-0) have been deleted."), None),
        (LOSS.format(kind="PARTITIONS_DELETED", reason="Partitions [orders-0] have been."), "orders[0]"),
        ("OffsetOutOfRangeException: position 5 is out of range for partition orders-12, ra", "orders[12]"),
        ("UnknownTopicOrPartitionException: This server does not host this topic-partition.", None),
    ],
)
def test_the_topic_whose_records_are_gone_is_named(text: str, place: str | None) -> None:
    found = as_ours(RuntimeError(text), print)
    assert isinstance(found, OffsetsGoneError)
    assert (f"({place}): " in found.message) == (place is not None), found.message
    assert "\n" not in found.message


def test_a_session_without_the_kafka_source_says_how_to_give_it() -> None:
    error = RuntimeError("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka. Make sure")
    found = as_ours(error, print)
    assert isinstance(found, DependencyMissingError)
    assert "--packages" in found.hint
