"""R10: where an app stands that does not run, by what the broker and the trigger say."""

from __future__ import annotations

from typing import Any

from snapkafka.drivers.faust.stopped import stopped_app
from snapkafka.protocol.actions import AskStopped
from snapkafka.protocol.records import LogEnd, TopicPartition
from tests.fakes import FakeAdmin

DONE, FRESH, UNNAMED = (TopicPartition("in", partition) for partition in range(3))


async def test_r10_what_is_committed_goes_before_the_reset_policy_and_that_before_the_beginning() -> None:
    admin: Any = FakeAdmin(
        starts={DONE: 1, FRESH: 1, UNNAMED: 1},
        ends={DONE: 9, FRESH: 9, UNNAMED: 9},
        commits={"shop": {DONE: 4}},
    )
    asked = AskStopped(
        epoch=1,
        app="shop",
        asked_at=0,
        inputs=(DONE, FRESH, UNNAMED),
        tables=(),
        starts=(LogEnd(topic="in", partition=0, end=7), LogEnd(topic="in", partition=1, end=7)),
    )
    seen = await stopped_app(admin, asked)
    assert [position.offset for position in seen.positions] == [4, 7, 1]
    assert [end.end for end in seen.ends] == [9, 9, 9]
