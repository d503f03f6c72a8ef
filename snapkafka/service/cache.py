"""A cache of answers that many requests share: each is asked for once at a time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class Recent(OrderedDict[_K, _V]):
    """A mapping of at most `most` keys: one more drops the least recently used key."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def seen(self, key: _K) -> _V | None:
        """Look a key up, and count that as a use; None: it is not kept."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value

    def keep(self, key: _K, value: _V) -> None:
        """Keep a value as the latest one."""
        self[key] = value
        self.move_to_end(key)
        while len(self) > self._most:
            self.popitem(last=False)


class Kept(Generic[_K, _V]):
    """Answers by key. However many callers wait for one, it is asked for once; only the first caller waits for a slow
    one.

    Args:
        ask: finds an answer; an exception goes to all waiting callers, and is not kept.
        times_s: of an answer: how long it is fresh, and how long it may be returned while a newer one is asked for.
        clock: seconds.
        most: the limit of kept answers.
    """

    def __init__(
        self,
        ask: Callable[[_K], Coroutine[Any, Any, _V]],
        times_s: Callable[[_V], tuple[float, float]],
        *,
        clock: Callable[[], float],
        most: int,
    ) -> None:
        self._ask, self._times_s, self._clock, self._most = ask, times_s, clock, most
        self.clear()

    def clear(self) -> None:
        """Forget all answers; those in flight are not kept when they come."""
        self._answers: Recent[_K, tuple[float, _V]] = Recent(self._most)
        self._asked: dict[_K, tuple[float, asyncio.Task[_V]]] = {}

    async def get(self, key: _K, within_s: float) -> _V:
        """Return the kept answer, or ask and wait.

        Raises:
            TimeoutError: it was asked for `within_s` seconds ago and has not come.
            Exception: asking failed.
        """
        kept = self._answers.seen(key)
        if kept is not None:
            since, answer = kept
            good_s, usable_s = self._times_s(answer)
            age_s = self._clock() - since
            if age_s >= good_s:
                self._begin(key)
            if age_s < max(good_s, usable_s):
                return answer
        began, task = self._begin(key)
        async with asyncio.timeout_at(began + within_s):
            await asyncio.wait({task})  # goes on when who waits is cancelled
        return task.result()

    def _begin(self, key: _K) -> tuple[float, asyncio.Task[_V]]:
        """Ask, unless a request is in flight; return when it began, by the loop's clock, and its task."""
        if key not in self._asked:
            task = asyncio.create_task(self._ask(key))
            self._asked[key] = asyncio.get_running_loop().time(), task
            task.add_done_callback(lambda done: self._end(key, done))
        return self._asked[key]

    def _end(self, key: _K, task: asyncio.Task[_V]) -> None:
        current = self._asked.get(key)
        # The exception is looked at in any case: nobody may wait for it any more.
        failed = task.cancelled() or task.exception() is not None
        if current is None or current[1] is not task:
            return  # forgotten
        del self._asked[key]
        if not failed:
            self._answers.keep(key, (self._clock(), task.result()))
