"""The producer, at hand for who sends: with the installed Faust, and no broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import faust
import pytest
from mode.utils.futures import StampedeWrapper

from snapkafka.drivers.faust.outbound.producer import skip_producer_guard


def app_of(kind: Any = faust.App, **settings: Any) -> Any:
    """Its producer has been started, as far as it can tell."""
    app: Any = kind("a", broker="kafka://127.0.0.1:1", store="memory://", web_enabled=False, **settings)
    app.finalize()
    app.producer._started.set()
    return app


def is_fausts(app: Any) -> bool:
    return isinstance(app.maybe_start_producer, StampedeWrapper)


async def test_a_producer_that_is_not_started_is_started_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Faust, and all who ask meanwhile wait for that."""
    app = app_of()
    app.producer._started.clear()
    begun: list[str] = []

    async def start() -> None:
        begun.append("start")
        await asyncio.sleep(0.01)
        app.producer._started.set()

    monkeypatch.setattr(app.producer, "start", start)
    skip_producer_guard(cast(Any, SimpleNamespace(app=app)))
    assert not is_fausts(app)
    given = await asyncio.gather(*(app.maybe_start_producer() for _ in range(5)))
    assert begun == ["start"]
    assert given == [app.producer] * 5
    turns: list[int] = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    await app.maybe_start_producer()
    assert turns, "a task that only sends would starve the others"


class Own(faust.App):
    """It makes something of it itself."""

    async def maybe_start_producer(self) -> Any:
        return self.producer


@pytest.mark.parametrize("why", ["in transactions Faust gives another producer", "a subclass"])
async def test_otherwise_faust_answers(why: str) -> None:
    app = app_of(
        Own if why == "a subclass" else faust.App,
        processing_guarantee="exactly_once" if "transactions" in why else "at_least_once",
    )
    before = app.maybe_start_producer
    skip_producer_guard(cast(Any, SimpleNamespace(app=app)))
    assert app.maybe_start_producer == before
