"""Answers that many requests share."""

from __future__ import annotations

import asyncio

import pytest

from snapkafka.service.cache import Shared


class Source:
    """Answers `key * n` to the n-th question, once it is let."""

    def __init__(self, *, kept_s: float = 60, most: int = 10) -> None:
        self.questions: list[int] = []
        self.let = asyncio.Event()
        self.let.set()
        self.kept: Shared[int, int] = Shared(self._ask, lambda found: kept_s, most=most)

    async def _ask(self, key: int) -> int:
        self.questions.append(key)
        number = len(self.questions)
        await self.let.wait()
        if key < 0:
            raise LookupError(key)
        return key * number


async def test_many_who_wait_for_one_answer_ask_once() -> None:
    source = Source()
    source.let.clear()
    waiting = [asyncio.ensure_future(source.kept.get(7, 5)) for _ in range(20)]
    await asyncio.sleep(0)
    waiting.pop().cancel()  # who goes away takes nothing from the others
    await asyncio.sleep(0)
    source.let.set()
    assert await asyncio.gather(*waiting) == [7] * 19
    assert await source.kept.get(7, 5) == 7
    assert source.questions == [7]


async def test_an_answer_that_is_over_a_failure_and_the_oldest_are_not_kept() -> None:
    source = Source(kept_s=0)
    assert [await source.kept.get(7, 5) for _ in range(2)] == [7, 14]
    source = Source(most=2)
    for _ in range(2):
        with pytest.raises(LookupError):
            await source.kept.get(-1, 5)
    for key in (1, 2, 3, 1):
        await source.kept.get(key, 5)
    assert source.questions == [-1, -1, 1, 2, 3, 1]
    source.kept.clear()
    await source.kept.get(1, 5)
    assert source.questions[-2:] == [1, 1]


async def test_an_answer_that_does_not_come_is_waited_for_once() -> None:
    source = Source()
    source.let.clear()
    for within_s in (0.05, 0.05):
        with pytest.raises(TimeoutError):
            await source.kept.get(7, within_s)
    source.let.set()
    await asyncio.sleep(0)
    assert await source.kept.get(7, 0.05) == 7
    assert source.questions == [7]
