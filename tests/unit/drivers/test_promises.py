"""The promises of a worker's changelogs: read at its start, from a broker that may take its time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from snapkafka.drivers.faust import hello
from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError

HOLDING = {"cleanup.policy": "compact", "min.compaction.lag.ms": "60000", "delete.retention.ms": "86400000"}


class Admin:
    """Settings of topics, by how each is answered."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.cancelled: list[str] = []

    async def topic_settings(self, topic: str) -> tuple[dict[str, str], dict[str, str]]:
        answer = self.answers[topic].pop(0)
        if answer == "hangs":
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.append(topic)
        if isinstance(answer, Exception):
            raise answer
        return answer, {}


async def promised(admin: Admin) -> list[str]:
    driver = SimpleNamespace(admin=admin)
    return [found.topic for found in await hello._retention(cast(Any, driver), sorted(admin.answers))]


async def test_a_broker_that_does_not_answer_is_asked_again() -> None:
    away = BrokerUnavailableError("away")
    assert await promised(Admin(a=[away, away, HOLDING], b=[HOLDING])) == ["a", "b"]


async def test_what_may_not_be_seen_is_not_asked_for_again() -> None:
    admin = Admin(a=[LedgerUnusableError("not allowed"), HOLDING], b=[HOLDING])
    assert await promised(admin) == ["b"]
    assert admin.answers["a"] == [HOLDING]


async def test_one_that_hangs_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hello, "PROMISED_WITHIN_S", 0.1)
    admin = Admin(a=["hangs"], b=[HOLDING])
    async with asyncio.timeout(5):
        assert await promised(admin) == ["b"]
    assert admin.cancelled == ["a"]


async def test_a_bug_is_no_missing_promise() -> None:
    with pytest.raises(ZeroDivisionError):
        await promised(Admin(a=[ZeroDivisionError()], b=[HOLDING]))


async def test_an_app_without_tables_asks_for_nothing() -> None:
    assert await promised(Admin()) == []
