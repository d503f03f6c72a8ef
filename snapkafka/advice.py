"""A finding of `doctor`, with its weight."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Weight(StrEnum):
    """The weight of a finding."""

    #: Snapshots fail, or cannot be relied on.
    PROBLEM = "problem"
    #: Snapshots work, and prove or hold less than they could.
    WARNING = "warning"
    #: Good to know.
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A finding. `code` is stable; `do`: the remedy. `subject`: what it is about, where there are others of its kind.
    `command`, `undo`: of a remedy that is one command, that command and the one that undoes it."""

    code: str
    weight: Weight
    what: str
    do: str = ""
    subject: str = ""
    command: str = ""
    undo: str = ""


def worst_first(found: list[Advice]) -> tuple[Advice, ...]:
    """Sort findings in the order in which to read them."""
    order = list(Weight)
    return tuple(sorted(found, key=lambda advice: (order.index(advice.weight), advice.code, advice.what)))
