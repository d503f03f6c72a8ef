"""A finding of `doctor`, with its weight."""

from __future__ import annotations

import re
from collections.abc import Iterable
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
    """A finding. `code` is stable; `do`: the remedy. `subject`: the name in `what` and `do` by which it differs from
    others of its kind. `command`, `undo`: of a remedy that is one command, that command and the one that undoes it."""

    code: str
    weight: Weight
    what: str
    do: str = ""
    subject: str = ""
    command: str = ""
    undo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Findings that differ in their subjects only, which are sorted."""

    first: Advice
    subjects: tuple[str, ...]


def grouped(found: Iterable[Advice]) -> list[Group]:
    """Group findings of a kind, in the order of the first of each."""
    groups: dict[tuple[str, ...], list[Advice]] = {}
    for advice in found:
        key = (advice.code, advice.weight, _without(advice, advice.what), _without(advice, advice.do))
        groups.setdefault(key, []).append(advice)
    return [
        Group(first=group[0], subjects=tuple(sorted({it.subject for it in group})))
        for group in groups.values()
    ]


def _without(advice: Advice, text: str) -> str:
    return with_subject(text, advice.subject, "\0") if advice.subject else text


def with_subject(text: str, subject: str, other: str) -> str:
    """Replace the subject of a text, where it is a name of its own and not a part of another."""
    return re.sub(rf"(?<![\w.-]){re.escape(subject)}(?![\w-])", lambda _: other, text)


def worst_first(found: list[Advice]) -> tuple[Advice, ...]:
    """Sort findings in the order in which to read them."""
    order = list(Weight)
    return tuple(sorted(found, key=lambda advice: (order.index(advice.weight), advice.code, advice.what)))
