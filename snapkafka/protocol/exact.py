"""A function for tuples that are created over and over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

_T = TypeVar("_T")


def exact(items: Iterable[_T]) -> tuple[_T, ...]:
    """Return a tuple that is allocated in its exact size.

    `tuple(generator)` allocates ten places and shrinks the tuple. Python keeps up to two thousand freed tuples of each
    size for reuse, but never reuses those of a size that is only reached by shrinking: a worker would grow by half a
    megabyte over its first thousand snapshots.
    """
    return (*items,)
