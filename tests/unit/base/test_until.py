"""The one wait with a deadline; and R1: pauses before the next attempt, a fresh epoch."""

import asyncio
import itertools
from functools import partial

import pytest

from snapkafka.errors import BadInputError, TimedOutError
from snapkafka.until import blocking_until, pause_after, succeed, until, within


async def test_a_wait_ends_with_what_holds() -> None:
    counts, later = itertools.count(), itertools.count()

    async def third() -> int | None:
        return 7 if next(later) == 2 else None

    assert await until(lambda: next(counts) == 2, 60.0, "the third try", every_s=0) is True
    assert await until(third, 60.0, "the third try", every_s=0) == 7
    assert blocking_until(lambda: next(counts), 60.0, "anything", every_s=0) == 3


async def test_a_wait_that_is_over_reports_what_was_awaited() -> None:
    tries: list[int] = []
    with pytest.raises(TimedOutError, match="the moon"):
        await until(lambda: tries.append(0), 0.01, "the moon", every_s=0.001)
    assert len(tries) > 1
    with pytest.raises(TimedOutError, match="the moon"):
        blocking_until(tries.clear, 0.0, "the moon")
    assert not tries, "it is tried once at least"


async def test_only_the_named_failures_are_tried_again_and_the_last_one_is_raised() -> None:
    counts = itertools.count()

    async def work() -> str:
        if (count := next(counts)) == 3:
            return "done"
        raise BadInputError(f"failure {count}")

    assert await succeed(work, 60.0, TimedOutError, BadInputError, every_s=0) == "done"
    with pytest.raises(BadInputError, match="failure 4"):
        await succeed(work, 60.0, TimedOutError)
    with pytest.raises(BadInputError, match="failure 5"):
        await succeed(work, 0.0, BadInputError)


async def test_only_its_own_deadline_ends_a_block_with_its_error() -> None:
    late = partial(BadInputError, "too late")
    with pytest.raises(BadInputError):
        async with within(0.001, late):
            await asyncio.Event().wait()
    for seconds in (60.0, None):
        with pytest.raises(TimeoutError, match="the socket"):
            async with within(seconds, late):
                raise TimeoutError("the socket")


def test_pauses_grow_twofold_up_to_a_bound_and_half_of_each_is_random() -> None:
    """So those who failed together do not come back together."""
    assert [pause_after(n, 1, first=1, most=10) for n in (1, 2, 3, 4, 5, 6)] == [1, 2, 4, 8, 10, 10]
    assert pause_after(10**6, 1, first=1, most=10) == 10
    for attempt in (1, 3, 9):
        pauses = [pause_after(attempt, share / 10, first=1, most=10) for share in range(11)]
        assert pauses[0] == pauses[-1] / 2
        assert all(a < b for a, b in itertools.pairwise(pauses))
