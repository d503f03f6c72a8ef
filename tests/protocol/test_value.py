"""`@value` behaves as a frozen dataclass does."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, replace

import pytest

from snapkafka.protocol import ChangelogEnd, InputTopic, LogEnd


def test_equal_and_hashed_by_what_it_is_made_of() -> None:
    one, same = (InputTopic(topic="t", partitions=2) for _ in range(2))
    assert one == same
    assert {one: 1}[same] == 1
    assert one != replace(one, partitions=3)


def test_another_type_with_the_same_fields_is_another_value() -> None:
    class Alike(LogEnd):
        """Nothing but another name."""

    fields = {"topic": "t", "partition": 0, "end": 1}
    assert LogEnd(**fields) != Alike(**fields)  # type: ignore[arg-type]


def test_nothing_about_it_changes() -> None:
    end = LogEnd(topic="t", partition=0, end=1)
    with pytest.raises(FrozenInstanceError):
        end.end = 2  # type: ignore[misc]
    with pytest.raises((FrozenInstanceError, TypeError)):
        end.more = 2  # type: ignore[attr-defined]


def test_it_shows_what_it_is_made_of() -> None:
    end = ChangelogEnd(table="a", topic="t", partition=0, end=1)
    assert repr(end) == "ChangelogEnd(table='a', topic='t', partition=0, end=1)"
    assert asdict(end) == {"table": "a", "topic": "t", "partition": 0, "end": 1}


def test_it_can_be_copied_and_sent_elsewhere() -> None:
    end = LogEnd(topic="t", partition=0, end=1)
    assert copy.deepcopy(end) == end == pickle.loads(pickle.dumps(end))
