"""Tuples that are made over and over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

__all__ = ["exact"]

_T = TypeVar("_T")


def exact(items: Iterable[_T]) -> tuple[_T, ...]:
    """A tuple that was made in its size.

    `tuple(generator)` takes one of ten places and cuts it. Of those that are freed Python keeps two thousand of each
    size to use again, and so it never does: a worker would grow by half a megabyte over its first thousand snapshots.
    """
    return (*items,)
