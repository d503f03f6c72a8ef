"""The demo's `accounts` service, without Kafka."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from typing import Any

import pytest


class Requests:
    """A stream of what is asked of one account."""

    def __init__(self, *requests: dict[str, Any]) -> None:
        self._requests = requests

    async def items(self) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        for request in self._requests:
            yield "acct-0000", request


def test_an_account_is_opened_once_however_often_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for until it is there, and what came late must not put back what was spent meanwhile."""
    monkeypatch.setenv("SNAPKAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("SNAPKAFKA_NAMESPACE", "demo")
    accounts = importlib.import_module("snapkafka.demo.accounts")
    monkeypatch.setattr(accounts, "balances", {})
    asyncio.run(accounts.take_requests.fun(Requests({"open": 100})))
    accounts.balances["acct-0000"] -= 30
    asyncio.run(accounts.take_requests.fun(Requests({"open": 100})))
    assert accounts.balances == {"acct-0000": 70}
