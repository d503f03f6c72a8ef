"""A restored app whose group has no offsets any more: they are committed again before its worker joins."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from snapkafka.drivers.faust import uncommitted
from snapkafka.drivers.faust.uncommitted import commit_restored
from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError
from snapkafka.protocol import TopicPartition
from tests.unit.drivers.test_restored import BASE, Worker, restore
from tests.worlds.fakes import FakeTopic

HERE = TopicPartition("in", 0)
TOPICS = ("in", "other")


class Admin:
    """A cluster with one topic. `refusals`: what the next commits raise; `others`: commits by another worker, seen from
    the next refusal on."""

    def __init__(self, *, start: int = 0, end: int = 100, partitions: int = 1) -> None:
        self.start, self.end, self.partitions = start, end, partitions
        self.there: dict[TopicPartition, tuple[int, str]] = {}
        self.refusals: list[Exception] = []
        self.others: dict[TopicPartition, tuple[int, str]] = {}
        self.asked = 0
        self.keeps = True

    async def committed(self, group: str) -> Mapping[TopicPartition, tuple[int, str]]:
        assert group == "p"
        self.asked += 1
        return dict(self.there)

    async def commit_positions(self, group: str, positions: Mapping[TopicPartition, int], note: str) -> None:
        if self.refusals:
            self.there |= self.others
            raise self.refusals.pop(0)
        if self.keeps:
            self.there |= {tp: (at, note) for tp, at in positions.items()}

    async def describe_topics(self, topics: Collection[str] | None = None) -> Mapping[str, FakeTopic]:
        return {"in": FakeTopic(self.partitions)} if self.partitions else {}

    async def log_starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, self.start)

    async def log_ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, self.end)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uncommitted, "RETRY_S", 0)


async def commit(worker: Any, admin: Any, topics: Collection[str]) -> None:
    await commit_restored(worker, worker.restored.scope, admin, topics)


def restored() -> Any:
    worker = Worker()
    restore(worker, ("x", BASE + 9, ()), ("y", BASE + 2, ()))
    return worker


async def test_the_lowest_position_is_committed_with_the_plan_as_the_restore_did(
    caplog: pytest.LogCaptureFixture,
) -> None:
    admin = Admin()
    await commit(restored(), admin, TOPICS)
    assert admin.there == {HERE: (BASE + 2, "snapkafka:r")}
    assert (
        "group p had committed nothing any more for inputs that were restored: it starts at in[0] at 12"
        in (caplog.text)
    )


async def test_where_no_agent_skips_anything_above_the_plan_is_left_out() -> None:
    """Without snapkafka a worker may run there (D6)."""
    worker, admin = Worker(), Admin()
    restore(worker, ("x", BASE + 2, ()))
    await commit(worker, admin, TOPICS)
    assert admin.there == {HERE: (BASE + 2, "")}


async def test_what_is_committed_stays() -> None:
    admin = Admin()
    admin.there = {HERE: (BASE + 5, "mine")}
    await commit(restored(), admin, TOPICS)
    assert admin.there == {HERE: (BASE + 5, "mine")}


@pytest.mark.parametrize("topics", [("other",), ()])
async def test_inputs_that_the_worker_does_not_read_are_left_alone(topics: tuple[str, ...]) -> None:
    admin = Admin()
    await commit(restored(), admin, topics)
    assert (admin.there, admin.asked) == ({}, 0)


async def test_an_app_that_was_never_restored_asks_nothing() -> None:
    admin = Admin()
    await commit(Worker(), admin, TOPICS)
    assert (admin.there, admin.asked) == ({}, 0)


async def test_another_worker_that_came_first_has_committed_and_is_not_overwritten() -> None:
    admin = Admin()
    admin.refusals = [LedgerUnusableError("the group has members")]
    admin.others = {HERE: (BASE + 7, "")}
    await commit(restored(), admin, TOPICS)
    assert admin.there == {HERE: (BASE + 7, "")}


async def test_a_broker_that_is_away_is_asked_again() -> None:
    admin = Admin()
    admin.refusals = [BrokerUnavailableError("no broker answers")] * 3
    await commit(restored(), admin, TOPICS)
    assert admin.there == {HERE: (BASE + 2, "snapkafka:r")}


async def test_what_cannot_be_committed_is_named_and_the_worker_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(uncommitted, "COMMITTED_WITHIN_S", -1.0)
    admin = Admin()
    admin.refusals = [LedgerUnusableError("the group has members")]
    await commit(restored(), admin, TOPICS)
    assert admin.there == {}
    assert "some of in[0], and it cannot be committed: the group has members" in caplog.text
    deaf = Admin()
    deaf.keeps = False
    await commit(restored(), deaf, TOPICS)
    assert "the broker reports nothing committed for in[0]" in caplog.text


@pytest.mark.parametrize(
    ("admin", "expected"),
    [
        (Admin(start=BASE + 5), {HERE: (BASE + 5, "snapkafka:r")}),  # what is left of the log is read
        (Admin(end=BASE + 2), {HERE: (BASE + 2, "snapkafka:r")}),
        (Admin(end=BASE + 1), {}),  # another topic by now, or cut: its offsets are none of the restore's
        (Admin(partitions=0), {}),
    ],
)
async def test_a_position_that_the_log_does_not_have(
    admin: Admin, expected: dict[TopicPartition, Any], caplog: pytest.LogCaptureFixture
) -> None:
    await commit(restored(), admin, TOPICS)
    assert admin.there == expected
    assert ("it was recreated, or cut" in caplog.text) == (admin.end < BASE + 2)
