"""The producer, at hand for who sends: with the installed Faust, and no broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import faust
import pytest
from mode.utils.futures import StampedeWrapper

from snapkafka.drivers.faust.outbound.producer_guard import skip_producer_guard

SENDS = 50


def app_of(kind: Any = faust.App, **settings: Any) -> Any:
    """Its producer has been started, as far as it can tell."""
    app: Any = kind("a", broker="kafka://127.0.0.1:1", store="memory://", web_enabled=False, **settings)
    app.finalize()
    app.producer._started.set()
    return app


def stood_down(what: str, error: Exception) -> None:
    raise AssertionError(what) from error


def is_fausts(app: Any) -> bool:
    return isinstance(app.maybe_start_producer, StampedeWrapper)


async def turns_of_others(ask: Callable[[], Any]) -> int:
    """How often everything else runs, while somebody asks `SENDS` times and awaits nothing else."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(others())
    await asyncio.sleep(0)
    for _ in range(SENDS):
        await ask()
    beside.cancel()
    return turns


async def test_r15_who_does_nothing_but_send_holds_up_nobody() -> None:
    """The others run once for each record, which is less than in Faust, and saves what that takes."""
    app = app_of()
    assert await turns_of_others(app.maybe_start_producer) in range(SENDS * 3 - 1, SENDS * 3 + 2)
    skip_producer_guard(app, stood_down)
    assert await app.maybe_start_producer() is app.producer
    assert await turns_of_others(app.maybe_start_producer) in range(SENDS - 1, SENDS + 2)


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
    skip_producer_guard(app, stood_down)
    assert not is_fausts(app)
    given = await asyncio.gather(*(app.maybe_start_producer() for _ in range(5)))
    assert begun == ["start"]
    assert given == [app.producer] * 5
    assert app.producer._started.is_set()


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
    skip_producer_guard(app, stood_down)
    assert app.maybe_start_producer == before
