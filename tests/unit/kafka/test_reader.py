"""What readers remember of what they have read, and what they name or give up."""

import time
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import confluent_kafka
import pytest

from snapkafka.errors import BadInputError, TimedOutError
from snapkafka.kafka.cluster.group_hold import SESSION_S
from snapkafka.kafka.ledger.tail_marks import Marks, lost_since
from snapkafka.kafka.records import bulk
from snapkafka.kafka.records.bulk import IDLE_S, PRODUCER, messages_of


@pytest.mark.parametrize(
    ("now", "since", "appended"),
    [
        ([102, 103, 104, 105], None, ""),
        ([102, 103, 104, 105, 106], None, ""),
        ([102, 103, 104], 5, ""),
        ([102, 7, 8, 9, 10], 3, ""),
        ([7, 8], 0, ""),
        ([], 0, ""),
        ([102, 103, 104, 105], None, "end"),
        ([102, 103, 104, 105], None, "standing"),
    ],
    ids=["same", "grown", "tail", "grown again", "all that is remembered", "everything", "asked", "read"],
)
async def test_r11_a_loss_shows_in_end_or_records(now: list[int], since: int | None, appended: str) -> None:
    """`now`: from offset 2 on. What is appended while a reader asks for the `end`, or for what stands there, is not
    lost."""
    marks = Marks()
    for offset in (2, 3, 5):  # one that was not read
        marks.add(offset, 100 + offset)

    async def answer(what: str, value: Any) -> Any:
        if what == appended:
            marks.add(6, 106)
        return value

    def standing(first: int, upto: int) -> Any:
        return answer("standing", {offset: now[offset - 2] for offset in range(first, upto)})

    asks = (lambda: answer("start", 0), lambda: answer("end", 2 + len(now)), standing)
    assert await lost_since(marks, *asks) == since


def message(offset: int, **more: Any) -> Mock:
    answers = {"topic": "t", "partition": 0, "offset": offset, "timestamp": (1, 5), "error": None}
    return Mock(**{f"{name}.return_value": value for name, value in answers.items()} | more)


def test_a_header_that_the_client_cannot_return_is_named() -> None:
    """It has a name that is not UTF-8, of a producer in another language."""
    odd = {"headers.side_effect": SystemError("returned a result with an exception set")}
    with pytest.raises(BadInputError, match=r"t\[0\].*UTF-8"):
        bulk._record(message(7, **odd))


def test_a_record_is_not_sent_any_more_once_the_hold_of_its_groups_may_be_over() -> None:
    """A run that was suspended for longer than its hold finds what it had in hand timed out when it wakes up."""
    assert PRODUCER["message.timeout.ms"] / 1_000 < SESSION_S


@pytest.mark.parametrize("silent", [True, False])
def test_a_silent_broker_is_given_up_not_a_slow_caller(monkeypatch: pytest.MonkeyPatch, silent: bool) -> None:
    """A restore waits for another broker, for instance."""
    now, batches = 0.0, [[message(3), message(4)], [], [] if silent else [message(5)]]

    def consume(most: int, within_s: float) -> list[Mock]:
        nonlocal now
        now += within_s
        return batches.pop(0) if batches else []

    monkeypatch.setattr(confluent_kafka, "Consumer", lambda settings: Mock(consume=consume))
    monkeypatch.setattr(time, "monotonic", lambda: now)
    found = []
    with pytest.raises(TimedOutError, match=r"t\[0\].*30") if silent else nullcontext():
        for record in messages_of({}, [("t", 0, 3, 6), ("t", 1, 4, 4)], Mock()):
            found.append(record.offset())
            now += IDLE_S
    assert found == ([3, 4] if silent else [3, 4, 5])
    assert not silent or 3 * IDLE_S < now < 3 * IDLE_S + 1
