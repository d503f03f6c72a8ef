"""`invariants`: what the invariants of a namespace found, snapshot by snapshot, by the verdicts of its ledger.

A violation counts where nothing else is wrong with the snapshot: the rows of one that the log contradicts, or cannot
prove, are rows of no instant.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator
from enum import StrEnum
from typing import Final

import msgspec

from snapkafka.checks import Status
from snapkafka.checks.verdict import GOOD, Verdict
from snapkafka.errors import BadInputError, SnapkafkaError
from snapkafka.kafka import Connection, LedgerReading, read_ledger
from snapkafka.manifest import CheckEntry, WitnessEntry
from snapkafka.ports import Cluster
from snapkafka.protocol import SnapshotView, records
from snapkafka.protocol.gather import contaminated
from snapkafka.query.locate import StoredFiles, stored
from snapkafka.verbs import Result

from .info import instant

#: The names of these checks in a verdict.
PREFIX: Final = "V6 "
#: An invariant that none of so many newest verdicts names is no longer watched.
WATCHED_IN: Final = 100


class Holding(StrEnum):
    """The answer of a snapshot about an invariant."""

    HOLDS = "holds"
    VIOLATED = "violated"
    #: The snapshot is not proved to be consistent, or the query failed.
    UNPROVEN = "unproven"


class Evaluation(Result, frozen=True, kw_only=True):
    """An invariant in a snapshot. `triggered_ms`: the instant that it shows, milliseconds since 1970. `found`: the
    number of violating rows. Where its manifest was read: `rows` has the first of them;
    `unreadable`: why it could not be read."""

    id: str
    epoch: int
    initiated_at: str
    triggered_ms: int
    verdict: str
    manifest: str
    holding: Holding
    found: int
    rows: tuple[WitnessEntry, ...] = ()
    unreadable: str = ""


class Invariant(Result, frozen=True, kw_only=True):
    """An invariant. `last`: the newest snapshot that proves an answer; `last_ok`: the newest in which it holds;
    `not_evaluated_since`: the first of the newest that prove none; `broke`: the one in which it broke first, None while
    it holds. Its history: `violations`, the snapshot in which it broke first and the newest one that violates it, with
    rows; `evaluations`, newest first."""

    name: str
    holding: Holding
    last: Evaluation | None
    last_ok: Evaluation | None
    not_evaluated_since: Evaluation | None
    broke: Evaluation | None
    violations: tuple[Evaluation, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()

    @classmethod
    def of(cls, name: str, evaluations: Iterable[Evaluation]) -> Invariant:
        """Conclude from what the snapshots have found, newest first. It never holds by an earlier answer."""
        found = tuple(evaluations)
        first = since = None
        for item in found:
            if item.holding is Holding.VIOLATED:
                first = item
            elif item.holding is Holding.HOLDS and first is not None:
                break
        for item in itertools.takewhile(lambda it: it.holding is Holding.UNPROVEN, found):
            since = item
        last = next((item for item in found if item.holding is not Holding.UNPROVEN), None)
        ends = (item for item in (first, last) if item and item.holding is Holding.VIOLATED)
        holding = Holding.UNPROVEN if last is None or since is not None else last.holding
        violated = last is not None and last.holding is Holding.VIOLATED
        return cls(
            name=name,
            holding=Holding.VIOLATED if violated else holding,
            last=last,
            last_ok=next((item for item in found if item.holding is Holding.HOLDS), None),
            not_evaluated_since=since,
            broke=first if violated else None,
            violations=tuple(dict.fromkeys(ends)),
            evaluations=found,
        )

    def listed(self, most: int = 0) -> Invariant:
        """Return it with so many of the newest evaluations; 0: without its history."""
        violations = self.violations if most else ()
        return msgspec.structs.replace(self, violations=violations, evaluations=self.evaluations[:most])


#: Reads the manifest of a snapshot; a text: why it cannot be read.
Read = Callable[[Evaluation], Awaitable[StoredFiles | str]]


async def invariants(where: Connection | Cluster, namespace: str, name: str = "") -> tuple[Invariant, ...]:
    """List the invariants that the newest snapshots have evaluated, by name, each back to where it holds.

    Args:
        name: this one alone: its whole history, with the rows of the snapshot in which it broke first, and of the
            newest one.
    """
    reading = await read_ledger(where, namespace)
    return (await with_rows(history_in(reading, name)),) if name else invariants_in(reading)


def invariants_in(reading: LedgerReading) -> tuple[Invariant, ...]:
    """List the watched invariants of a ledger that was read, each back to the newest snapshot in which it holds."""
    found: dict[str, list[Evaluation]] = {}
    held: set[str] = set()
    for number, (name, item) in _newest_first(reading):
        if number < WATCHED_IN:
            found.setdefault(name, [])
        elif found.keys() <= held:
            break
        if name in found and name not in held:
            found[name].append(item)
            if item.holding is Holding.HOLDS:
                held.add(name)
    return tuple(Invariant.of(name, items) for name, items in sorted(found.items()))


def history_in(reading: LedgerReading, name: str, *, most: int | None = None) -> Invariant:
    """Return the history of an invariant of a ledger that was read, without rows.

    Args:
        most: so many of the newest snapshots, and further ones back to the newest in which it holds; None: all.
    """
    found: list[Evaluation] = []
    held, known = False, set[str]()
    for _, (other, item) in _newest_first(reading):
        known.add(other)
        if other == name:
            found.append(item)
            held = held or item.holding is Holding.HOLDS
            if most is not None and len(found) >= most and held:
                break
    if not found:
        names = f"it can be {', '.join(sorted(known))}" if known else "no snapshot has evaluated any"
        raise BadInputError(
            f"invariant {name[:40]!r} is unknown", hint=f"{names}; see `snapkafka invariants`"
        )
    return Invariant.of(name, found)


async def _from_storage(item: Evaluation) -> StoredFiles | str:
    try:
        return await asyncio.to_thread(stored, item.manifest)
    except SnapkafkaError as error:
        return error.message


async def with_rows(history: Invariant, read: Read = _from_storage) -> Invariant:
    """Read the violating rows of the snapshot in which it broke first, and of the newest one."""
    wanted = {item.epoch for item in (*history.violations, history.last, history.last_ok) if item}
    found = [
        _with_rows(item, history.name, await read(item)) if item.epoch in wanted else item
        for item in history.evaluations
    ]
    return Invariant.of(history.name, found)


def _with_rows(item: Evaluation, name: str, found: StoredFiles | str) -> Evaluation:
    if isinstance(found, str):
        return msgspec.structs.replace(item, unreadable=found)
    rows = (check.witnesses for check in found.checks if check.name == PREFIX + name)
    return msgspec.structs.replace(item, rows=next(rows, ()))


def prove_violations(
    verdict: str, checks: Iterable[CheckEntry | records.CheckResult], contaminated: str
) -> bool:
    """Return whether the rows that invariants found are rows of one instant: nothing else is wrong with the snapshot.

    An invariant that fails, or that cannot be evaluated, makes a snapshot INCONSISTENT or UNVERIFIABLE by itself.
    """
    others = {check.status for check in checks if not check.name.startswith(PREFIX)}
    alone = verdict in (Verdict.INCONSISTENT, Verdict.UNVERIFIABLE) and others == {Status.PASSED.value}
    return verdict in GOOD or (alone and not contaminated)


class Violation(Result, frozen=True, kw_only=True):
    """An invariant that a snapshot violates. `found`: the number of rows, of which `rows` holds the first."""

    id: str
    name: str
    found: int
    rows: tuple[WitnessEntry, ...]


def violations_in(
    snapshot_id: str, verdict: str, checks: Iterable[CheckEntry], contaminated: str
) -> tuple[Violation, ...]:
    """List the invariants that the checks of an assembled snapshot prove to be violated."""
    run = [check for check in checks if check.run]
    if not prove_violations(verdict, run, contaminated):
        return ()
    return tuple(
        Violation(
            id=snapshot_id, name=check.name.removeprefix(PREFIX), found=check.found, rows=check.witnesses
        )
        for check in run
        if check.name.startswith(PREFIX) and check.status == Status.FAILED
    )


def _newest_first(reading: LedgerReading) -> Iterator[tuple[int, tuple[str, Evaluation]]]:
    """Yield each invariant of each verdict with what it found, and the number of newer verdicts."""
    newer = 0
    for view in reversed(reading.state.snapshots.values()):  # the fold has them in order
        if view.verdict is not None:
            yield from ((newer, item) for item in _evaluated(reading, view, view.verdict))
            newer += 1


def _evaluated(
    reading: LedgerReading, view: SnapshotView, verdict: records.Verdict
) -> Iterator[tuple[str, Evaluation]]:
    proved = prove_violations(verdict.verdict, verdict.checks, contaminated(reading.state, view))
    for check in verdict.checks:
        if not check.name.startswith(PREFIX):
            continue
        holding = Holding.UNPROVEN
        if proved and check.status in (Status.PASSED, Status.FAILED):
            holding = Holding.HOLDS if check.status == Status.PASSED else Holding.VIOLATED
        yield (
            check.name.removeprefix(PREFIX),
            Evaluation(
                id=view.trigger.id,
                epoch=view.epoch,
                initiated_at=instant(reading.times_ms[view.epoch - 1]),
                triggered_ms=reading.times_ms[view.epoch - 1],
                verdict=verdict.verdict,
                manifest=verdict.manifest,
                holding=holding,
                found=check.found,
            ),
        )
