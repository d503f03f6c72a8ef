"""R10: positions of an app that does not run, by what the broker and the trigger say."""

from __future__ import annotations

from typing import Any

import pytest

from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka.cluster.stopped_app import stopped_app
from snapkafka.protocol import AskStopped, LogEnd, TopicPartition
from tests.worlds.fakes import FakeAdmin

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
    assert (seen.members, seen.unseen) == (0, "")


def asked_of(app: str) -> AskStopped:
    return AskStopped(epoch=1, app=app, asked_at=0, inputs=(DONE,), tables=())


@pytest.mark.parametrize("counts", [[1, 0], [0, 1]])
async def test_r10_its_group_is_looked_at_before_and_after(counts: list[int]) -> None:
    admin: Any = FakeAdmin(ends={DONE: 9}, member_counts=list(counts))
    seen = await stopped_app(admin, asked_of("shop"))
    assert seen.members == 1
    assert admin.asked_members == ["shop", "shop"]


async def test_r10_a_group_that_cannot_be_seen_is_not_taken_for_an_empty_one() -> None:
    admin: Any = FakeAdmin(
        ends={DONE: 9}, member_failure=LedgerUnusableError("not allowed to describe group shop", hint="ask")
    )
    seen = await stopped_app(admin, asked_of("shop"))
    assert seen.unseen == "not allowed to describe group shop (ask)"
