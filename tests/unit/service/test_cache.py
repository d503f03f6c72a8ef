"""Answers that many requests share."""

from __future__ import annotations

import asyncio

import pytest

from snapkafka.service.cache import Kept, Recent


class Source:
    """Answers `key * n` to the n-th question, once it is let."""

    def __init__(self, *, times_s: tuple[float, float] = (20, 30), most: int = 10) -> None:
        self.questions: list[int] = []
        self.let = asyncio.Event()
        self.let.set()
        self.now = 0.0
        self.kept: Kept[int, int] = Kept(self._ask, lambda found: times_s, clock=lambda: self.now, most=most)

    async def _ask(self, key: int) -> int:
        self.questions.append(key)
        number = len(self.questions)
        await self.let.wait()
        if key < 0:
            raise LookupError(key)
        return key * number


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_many_who_wait_for_one_answer_ask_once() -> None:
    source = Source()
    source.let.clear()
    waiting = [asyncio.ensure_future(source.kept.get(7, 5)) for _ in range(20)]
    await turns()
    waiting.pop().cancel()  # who goes away takes nothing from the others
    source.let.set()
    assert await asyncio.gather(*waiting) == [7] * 19
    assert source.questions == [7]


async def test_an_answer_that_ages_is_given_while_a_new_one_is_asked_for_and_an_old_one_is_not() -> None:
    source = Source()
    assert await source.kept.get(7, 5) == 7
    source.now = 19.9
    assert await source.kept.get(7, 5) == 7
    await turns()
    assert source.questions == [7]
    source.now = 20
    assert await source.kept.get(7, 5) == 7, "at once"
    await turns()
    assert source.questions == [7, 7]
    assert await source.kept.get(7, 5) == 14
    source.now = 50
    assert await source.kept.get(7, 5) == 21, "too old: the next is waited for"


async def test_one_that_does_not_come_holds_up_the_first_alone() -> None:
    source = Source()
    source.let.clear()
    loop = asyncio.get_running_loop()
    with pytest.raises(TimeoutError):
        await source.kept.get(7, 0.05)
    began = loop.time()
    for _ in range(20):
        with pytest.raises(TimeoutError):
            await source.kept.get(7, 0.05)
    assert loop.time() - began < 0.05, "none of these waited"
    assert source.questions == [7]
    source.let.set()
    await turns()
    assert await source.kept.get(7, 0.05) == 7


async def test_what_cannot_be_answered_is_asked_again() -> None:
    source = Source()
    for _ in range(2):
        with pytest.raises(LookupError):
            await source.kept.get(-1, 5)
    assert source.questions == [-1, -1]


async def test_what_was_forgotten_does_not_come_back_with_a_late_answer() -> None:
    source = Source()
    source.let.clear()
    waiting = asyncio.ensure_future(source.kept.get(7, 5))
    await turns()
    source.kept.clear()
    source.let.set()
    assert await waiting == 7, "who had asked before is answered"
    assert await source.kept.get(7, 5) == 14


async def test_no_more_are_kept_than_allowed() -> None:
    source = Source(most=2)
    for key in (1, 2, 1, 3, 1):
        await source.kept.get(key, 5)
    assert source.questions == [1, 2, 3]
    await source.kept.get(2, 5)
    assert source.questions == [1, 2, 3, 2], "the one not looked at for the longest time was dropped"


def test_a_mapping_drops_what_was_not_looked_at() -> None:
    recent: Recent[str, int] = Recent(2)
    for key in ("a", "b"):
        recent.keep(key, 1)
    assert recent.seen("a") == 1
    recent.keep("c", 1)
    assert (recent.seen("b"), list(recent)) == (None, ["a", "c"])
