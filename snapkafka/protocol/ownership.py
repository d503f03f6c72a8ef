"""The owners of inputs, and until when each may cut its inputs (R9).

The latest `Assigned` names the owner. An input that was read by a process already red for E can be cut for E only by
that process, where it started (R10), or never: for later owners it is too late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Final, NamedTuple

from .records import NOBODY, CutReport, TopicPartition

#: An input, or a table partition: the app that has it, and where.
Input = tuple[str, TopicPartition]

#: Earlier readers of an input that are remembered: those whose work may still be found in front of a position. Where
#: there were more (a worker that crashes at one record again and again), the others are `UNKNOWN`, and any process may
#: have been one of them.
KEEP_EARLIER: Final = 64


class Reader(NamedTuple):
    """An earlier owner of an input, and the ledger offset of the latest `Assigned` by which it had it."""

    process: int
    offset: int


#: Stands for readers that nobody remembers.
UNKNOWN: Final = Reader(NOBODY, NOBODY)


class Owner(NamedTuple):
    """The owner of an input: the process, the ledger offset of its `Assigned`, and the generation of its group.

    `red` is the highest epoch for which it was red while it read the input, `before` the same of all earlier owners:
    for no snapshot up to there can the present owner cut this input (R9). `earlier` names the latest of them,
    `UNKNOWN` standing for forgotten ones.
    """

    offset: int
    process: int
    generation: int
    before: int
    red: int
    earlier: tuple[Reader, ...]


class Owners(Mapping[Input, Owner]):
    """The owner of each input, and the inputs that a process has or once had, without a walk over all of them."""

    def __init__(self) -> None:
        self._owners: dict[Input, Owner] = {}
        self._of: dict[tuple[str, int], set[TopicPartition]] = {}
        self._once_of: dict[tuple[str, int], set[TopicPartition]] = {}

    def __getitem__(self, item: Input) -> Owner:
        return self._owners[item]

    def __iter__(self) -> Iterator[Input]:
        return iter(self._owners)

    def __len__(self) -> int:
        return len(self._owners)

    def __setitem__(self, item: Input, owner: Owner) -> None:
        last = self._owners.get(item)
        self._owners[item] = owner
        if last is None or last.process != owner.process:
            _move(self._of, item, {last.process} if last else set(), {owner.process})
        if last is None or last.earlier is not owner.earlier:
            was = {reader.process for reader in last.earlier} if last else set()
            _move(self._once_of, item, was, {reader.process for reader in owner.earlier})

    def of(self, app: str, process: int) -> Set[TopicPartition]:
        """Return the inputs that a process has."""
        return self._of.get((app, process), frozenset())

    def once_of(self, app: str, process: int) -> Set[TopicPartition]:
        """Return the inputs of which a process is remembered as an earlier owner."""
        return self._once_of.get((app, process), frozenset())


def _move(
    index: dict[tuple[str, int], set[TopicPartition]], item: Input, was: set[int], now: set[int]
) -> None:
    """Take an input from the processes that had it, and enter it for those that have it now."""
    app, tp = item
    for process in was - now:
        index[app, process].discard(tp)
        if not index[app, process]:
            del index[app, process]
    for process in now - was:
        index.setdefault((app, process), set()).add(tp)


def next_owner(
    last: Owner | None, *, offset: int, process: int, generation: int, red: int, unknown: bool
) -> Owner:
    """Return the owner after `last`. `unknown`: without a last one, there may have been one all the same."""
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


def reads_red(owners: Owners, report: CutReport, app: str, inputs: set[TopicPartition]) -> None:
    """Mark the inputs of a report's author as read in red from here on, without those just revoked."""
    for tp in [*owners.of(app, report.process)]:
        owner = owners[app, tp]
        if tp in inputs or owner.offset > report.assigned:
            red = max(owner.red, report.epoch)
            owners[app, tp] = Owner(  # `_replace` makes tuples that Python does not use again, see `exact`
                owner.offset, owner.process, owner.generation, owner.before, red, owner.earlier
            )


def came_and_went(owners: Owners, report: CutReport, app: str) -> dict[TopicPartition, int]:
    """Return the inputs assigned to a report's author after its cut and revoked before the report landed.

    It read them in red, and the next owner could not know. Each comes with the offset of the `Assigned` that gave it.
    """
    return {
        tp: reader.offset
        for tp in owners.once_of(app, report.process)
        for reader in owners[app, tp].earlier
        if reader.process == report.process and reader.offset > report.assigned
    }


def moved(
    owners: Mapping[Input, Owner], report: CutReport, app: str, tps: Iterable[TopicPartition]
) -> set[TopicPartition]:
    """Return the inputs of a report that were assigned to another process since the `Assigned` under which it was
    made."""
    return {tp for tp in tps if (app, tp) in owners and owners[app, tp].offset > report.assigned}


def gone(owner: Owner, report: CutReport, *, before: int) -> bool:
    """Return whether an input of a report had been assigned to another process before the trigger of epoch `before`
    (R11). Then it is not its author's to cut, and no snapshot waits for that."""
    return any(
        reader.process not in {report.process, NOBODY} and report.assigned < reader.offset < before
        for reader in (*owner.earlier, Reader(owner.process, owner.offset))
    )


def before(owner: Owner | None, process: int) -> int:
    """Return the highest epoch for which a process other than `process` was red while it read the input."""
    if owner is None:
        return 0
    return owner.before if owner.process == process else max(owner.before, owner.red)


def earlier(owner: Owner | None, process: int) -> tuple[Reader, ...]:
    """Return the readers of the input before `process` cut it (as its owner, or for an app that does not run)."""
    if owner is None:
        return ()
    if owner.process == process:
        return owner.earlier
    return (*owner.earlier, Reader(owner.process, owner.offset))
