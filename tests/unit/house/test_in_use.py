"""What the bench of memory takes for used: what is kept is in it, nearly to the byte, and what is freed is not."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.bench.in_use import of_malloc, of_python


@pytest.mark.parametrize(
    ("used", "size", "number"),
    [(of_python, 100, 20_000), (of_malloc, 100_000, 20), (of_malloc, 100_000_000, 1)],
)
def test_what_is_kept_is_used_and_what_is_freed_is_not(
    used: Callable[[], int], size: int, number: int
) -> None:
    before = used()
    kept = [bytes(size) for _ in range(number)]
    more = used() - before
    del kept
    left = used() - before
    assert size * number <= more < 1.5 * size * number
    assert abs(left) < 0.1 * more


def test_what_is_written_to_stderr_goes_there_again(capfd: pytest.CaptureFixture[str]) -> None:
    os.write(2, b"before\n")
    of_python()
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "before\nafter\n"
