"""The demo's accounts are opened, also where a service has passed over what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from snapkafka.demo import PARTITIONS, open_accounts
from snapkafka.demo import system as opening
from snapkafka.demo.settings import ACCOUNTS
from snapkafka.errors import TimedOutError
from snapkafka.protocol import TopicPartition


class Service:
    """Stands for the workers, their changelog and the load: passes over all that it is asked at first."""

    def __init__(self, passes_over: int) -> None:
        self.asked, self.opened = 0, 0
        self._passes_over = passes_over

    async def open_accounts(self) -> None:
        self.asked += 1
        if self.asked > self._passes_over:
            self.opened = ACCOUNTS

    async def log_ends(self, tps: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        assert len(tps) == PARTITIONS
        return dict.fromkeys(tps, -(-self.opened // PARTITIONS))

    def check_alive(self) -> None:
        """They live."""


def open_them(service: Any) -> None:
    asyncio.run(open_accounts(service, service, service))


def test_what_was_passed_over_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "ASK_AGAIN_S", 0.1)
    service = Service(passes_over=1)
    open_them(service)
    assert service.asked == 2


def test_who_never_answers_is_waited_for_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "START_TIMEOUT_S", 0.2)
    monkeypatch.setattr(opening, "ASK_AGAIN_S", 0.1)
    with pytest.raises(TimedOutError, match="accounts"):
        open_them(Service(passes_over=99))
