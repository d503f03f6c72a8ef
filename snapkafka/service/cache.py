"""A cache of answers that many requests share: each is asked for once at a time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from .problems import RefusedError

_K = TypeVar("_K")
_V = TypeVar("_V")


class Shared(Generic[_K, _V]):
    """Answers by key. However many callers wait for one, it is asked for once.

    Args:
        ask: finds an answer; an exception goes to all waiting callers, and is not kept.
        kept_s: of an answer: how long it is returned.
        most: the limit of kept answers.
    """

    def __init__(
        self, ask: Callable[[_K], Coroutine[Any, Any, _V]], kept_s: Callable[[_V], float], *, most: int
    ) -> None:
        self._ask, self._kept_s, self._most = ask, kept_s, most
        self._asked: OrderedDict[_K, tuple[float, asyncio.Task[_V]]] = OrderedDict()

    def clear(self) -> None:
        """Forget all answers, and those in flight."""
        self._asked.clear()

    async def get(self, key: _K, within_s: float) -> _V:
        """Return the kept answer, or ask and wait.

        Raises:
            RefusedError: it was asked for `within_s` seconds ago and has not come.
            Exception: asking failed.
        """
        now = asyncio.get_running_loop().time()
        began, task = self._asked.get(key, (now, None))
        if task is None or (task.done() and self._is_over(task, now - began)):
            began, task = now, asyncio.create_task(self._ask(key))
            task.add_done_callback(retrieve)
            self._asked[key] = began, task
            while len(self._asked) > self._most:
                self._asked.popitem(last=False)
        try:
            async with asyncio.timeout_at(began + within_s):
                return await asyncio.shield(task)  # it goes on when who waits is cancelled
        except TimeoutError:
            raise RefusedError("busy", "no answer has come yet", "ask again soon") from None

    def _is_over(self, task: asyncio.Task[_V], age_s: float) -> bool:
        return task.cancelled() or task.exception() is not None or age_s >= self._kept_s(task.result())


def retrieve(task: asyncio.Task[Any]) -> None:
    """Take note of a failure: nobody may wait for it any more."""
    if not task.cancelled():
        task.exception()
