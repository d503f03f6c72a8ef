"""The reader of the embedded engine, with a client that returns what a broker would not."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import confluent_kafka
import pytest

from snapkafka.assembly import HandOverError
from snapkafka.assembly.embedded import EmbeddedEngine
from snapkafka.assembly.records import Record
from snapkafka.checks import ReadRange
from snapkafka.errors import OffsetsGoneError
from tests.spark.at_hand import ENTRY, job_of, settings_of


def message(offset: int) -> Any:
    answers = {
        "topic": "t",
        "partition": 0,
        "offset": offset,
        "error": None,
        "timestamp": (1, 5),
        "key": None,
    }
    answers |= {"value": b"v", "headers": None}
    return Mock(**{f"{name}.return_value": answer for name, answer in answers.items()})


def read(monkeypatch: pytest.MonkeyPatch, *messages: Any) -> list[Record]:
    """Read the offsets from 2 to 5 from a client that returns these."""
    client = Mock(**{"consume.side_effect": [[it] for it in messages]})
    monkeypatch.setattr(confluent_kafka, "Consumer", lambda settings: client)
    settings = settings_of(ENTRY, bootstrap="nowhere:9092")
    return [*EmbeddedEngine(job_of(settings)).records(settings, [ReadRange("t", 0, 2, 6)])]


def test_what_compaction_or_a_transaction_left_out_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [it.offset for it in read(monkeypatch, message(3), message(7))] == [3]


@pytest.mark.parametrize("offsets", [[1, 5], [2, 2, 5], [2, 4, 3, 5]])
def test_a_log_that_was_cut_and_written_again_is_refused(
    monkeypatch: pytest.MonkeyPatch, offsets: list[int]
) -> None:
    """As by Spark: the checks need each record once."""
    with pytest.raises(OffsetsGoneError):
        read(monkeypatch, *map(message, offsets))


def test_the_name_of_a_header_that_is_no_text_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client cannot return it; Spark can."""
    odd = message(5)
    odd.headers.side_effect = SystemError("<method 'headers'> returned a result with an exception set")
    with pytest.raises(HandOverError, match=r"t\[0\].*UTF-8"):
        read(monkeypatch, odd)


def test_a_time_in_nanoseconds_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's source ends at it, and the job reads around it: this engine needs neither."""
    odd = message(5)
    odd.timestamp.return_value = (1, 2**62)
    assert [it.timestamp_ms for it in read(monkeypatch, odd)] == [2**62]
