"""Describe who has an input, and until when somebody may cut it (R9).

The latest `Assigned` states who has it. An input that a process already red for E has read can be cut for E only by
that process, where it started (R10), or never: for everybody who gets it later it is too late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from .exact import exact
from .records import NOBODY, CutReport, TopicPartition

__all__ = [
    "Input",
    "Owner",
    "Reader",
    "before",
    "came_and_went",
    "earlier",
    "gone",
    "moved",
    "next_owner",
    "reads_red",
]

#: An input, or a table partition: the app that has it, and where.
Input = tuple[str, TopicPartition]

#: Earlier readers of an input that are remembered: those whose work may still be found in front of a position. Where
#: there were more (a worker that crashes at one record again and again), the others are `UNKNOWN`, and any process may
#: have been one of them.
KEEP_EARLIER: Final = 64


class Reader(NamedTuple):
    """Hold who had an input once, and the ledger offset of the latest `Assigned` that gave it."""

    process: int
    offset: int


#: Stands for readers that nobody remembers.
UNKNOWN: Final = Reader(NOBODY, NOBODY)


class Owner(NamedTuple):
    """Hold who has an input: the ledger offset of the `Assigned` that reported it, its author, the generation of its
    group.

    `red` is the highest epoch that it was red for while it read the input, `before` the same of all earlier owners: for
    no snapshot up to there can the present one cut this input, it comes too late (R9). `earlier` names the latest of
    them, `UNKNOWN` standing for those that nobody remembers.
    """

    offset: int
    process: int
    generation: int
    before: int
    red: int
    earlier: tuple[Reader, ...]


def next_owner(
    last: Owner | None, *, offset: int, process: int, generation: int, red: int, unknown: bool
) -> Owner:
    """The owner after `last`. `unknown`: where there is no last, there may have been one all the same."""
    if last is None:
        return Owner(offset, process, generation, before=0, red=red, earlier=(UNKNOWN,) if unknown else ())
    known = (*(r for r in last.earlier if r.process != last.process), Reader(last.process, last.offset))
    return Owner(
        offset,
        process,
        generation,
        before=max(last.before, last.red),
        red=red,
        earlier=known if len(known) <= KEEP_EARLIER else (UNKNOWN, *known[1 - KEEP_EARLIER :]),
    )


def reads_red(owners: dict[Input, Owner], report: CutReport, app: str, inputs: set[TopicPartition]) -> None:
    """Mark the inputs of a report's author as read in red from here on, without those just revoked."""
    for (owner_app, tp), owner in owners.items():
        mine = (owner_app, owner.process) == (app, report.process)
        if mine and (tp in inputs or owner.offset > report.assigned):
            red = max(owner.red, report.epoch)
            owners[app, tp] = Owner(
                owner.offset, owner.process, owner.generation, owner.before, red, owner.earlier
            )


def came_and_went(owners: dict[Input, Owner], report: CutReport, app: str) -> dict[TopicPartition, int]:
    """Return the inputs assigned to a report's author after its cut and revoked before the report landed.

    It read that in red, and whoever got it next could not know. With the offset of the `Assigned` that gave it.
    """
    return {
        tp: reader.offset
        for (owner_app, tp), owner in owners.items()
        for reader in owner.earlier
        if (owner_app, reader.process) == (app, report.process) and reader.offset > report.assigned
    }


def moved(
    owners: Mapping[Input, Owner], report: CutReport, app: str, tps: Iterable[TopicPartition]
) -> set[TopicPartition]:
    """Those of a report that were given to somebody since the `Assigned` that it was made under."""
    return {tp for tp in tps if (app, tp) in owners and owners[app, tp].offset > report.assigned}


def gone(owner: Owner, report: CutReport, *, before: int) -> bool:
    """R11: had somebody else been given what the author of a report takes for its own, before the trigger of epoch
    `before`? Then it is not its own to cut, and no snapshot waits for that."""
    return any(
        reader.process not in {report.process, NOBODY} and report.assigned < reader.offset < before
        for reader in (*owner.earlier, Reader(owner.process, owner.offset))
    )


def before(owner: Owner | None, process: int) -> int:
    """The highest epoch that somebody other than `process` was red for while it read the input."""
    if owner is None:
        return 0
    return owner.before if owner.process == process else max(owner.before, owner.red)


def earlier(owner: Owner | None, process: int) -> tuple[int, ...]:
    """Return who read the input before `process` cut it (its owner, or who cuts for an app that does not run)."""
    if owner is None:
        return ()
    known = exact(reader.process for reader in owner.earlier)
    return known if owner.process == process else (*known, owner.process)
