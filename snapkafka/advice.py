"""Describe what `doctor` has to report: one thing that was found, and how bad it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Advice", "Weight", "worst_first"]


class Weight(StrEnum):
    """How bad it is."""

    #: Snapshots fail, or cannot be relied on.
    PROBLEM = "problem"
    #: Snapshots work, and prove or hold less than they could.
    WARNING = "warning"
    #: Good to know.
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One thing that was found. `code` is stable; `do`: what to do, with the way back where something is changed."""

    code: str
    weight: Weight
    what: str
    do: str = ""


def worst_first(found: list[Advice]) -> tuple[Advice, ...]:
    """In the order in which to read them."""
    order = list(Weight)
    return tuple(sorted(found, key=lambda advice: (order.index(advice.weight), advice.code, advice.what)))
