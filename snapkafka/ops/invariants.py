"""`invariants`: what the invariants of a namespace found, snapshot by snapshot, by the verdicts of its ledger.

A violation counts where nothing else is wrong with the snapshot: the rows of one that the log contradicts, or cannot
prove, are rows of no instant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from snapkafka.checks import Status
from snapkafka.checks.verdict import GOOD, Verdict
from snapkafka.errors import BadInputError, Verb
from snapkafka.kafka.ledger.reading import LedgerReading, read_ledger
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import WitnessEntry
from snapkafka.ports import Cluster
from snapkafka.protocol import records
from snapkafka.protocol.ledger_state import SnapshotView
from snapkafka.store import read_manifest

#: The names of these checks in a verdict.
PREFIX: Final = "V6 "
#: An invariant that none of so many newest verdicts names is no longer watched.
WATCHED_IN: Final = 100


class Holding(StrEnum):
    """What a snapshot says of an invariant."""

    HOLDS = "holds"
    VIOLATED = "violated"
    #: The snapshot is not proved to be consistent, or the query failed.
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """An invariant in a snapshot. `triggered_ms`: the instant that it shows, milliseconds since 1970. `found`: the
    number of violating rows, of which `rows` holds the first, where they were read."""

    id: str
    epoch: int
    triggered_ms: int
    verdict: str
    manifest: str
    holding: Holding
    found: int
    rows: tuple[WitnessEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantHistory:
    """An invariant in the snapshots that have evaluated it, oldest first."""

    name: str
    evaluations: tuple[Evaluation, ...]

    @property
    def last(self) -> Evaluation | None:
        """The newest answer: it holds or is violated. None: no snapshot proves either."""
        return self._last(Holding.HOLDS, Holding.VIOLATED)

    @property
    def last_ok(self) -> Evaluation | None:
        """The newest snapshot in which it holds."""
        return self._last(Holding.HOLDS)

    @property
    def broke(self) -> Evaluation | None:
        """The snapshot in which it broke first: the beginning of the newest violations. None: it never did."""
        first = None
        for item in reversed(self.evaluations):
            if item.holding is Holding.VIOLATED:
                first = item
            elif item.holding is Holding.HOLDS and first is not None:
                break
        return first

    def _last(self, *wanted: Holding) -> Evaluation | None:
        return next((item for item in reversed(self.evaluations) if item.holding in wanted), None)


async def invariants(where: Connection | Cluster, namespace: str) -> tuple[InvariantHistory, ...]:
    """List the invariants that the newest snapshots have evaluated, by name, each back to where it holds.

    Raises:
        LedgerUnusableError, BrokerUnavailableError: the ledger cannot be read.
    """
    return invariants_in(await read_ledger(where, namespace))


async def invariant_history(where: Connection | Cluster, namespace: str, name: str) -> InvariantHistory:
    """Return the history of an invariant, with the rows of the snapshot in which it broke first, and of the newest one.

    Raises:
        BadInputError: no snapshot has evaluated it.
        SnapkafkaError: the ledger or a manifest cannot be read.
    """
    return await with_rows(history_in(await read_ledger(where, namespace), name))


def invariants_in(reading: LedgerReading) -> tuple[InvariantHistory, ...]:
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
    return tuple(
        InvariantHistory(name=name, evaluations=tuple(reversed(items)))
        for name, items in sorted(found.items())
    )


def history_in(reading: LedgerReading, name: str, *, most: int | None = None) -> InvariantHistory:
    """Return the history of an invariant of a ledger that was read, without rows.

    Args:
        most: so many of the newest snapshots, and further ones back to the newest in which it holds; None: all.

    Raises:
        BadInputError: no snapshot has evaluated it.
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
            f"invariant {name[:40]!r} is unknown", hint=(names, "; see ", Verb("invariants list"))
        )
    return InvariantHistory(name=name, evaluations=tuple(reversed(found)))


async def with_rows(history: InvariantHistory) -> InvariantHistory:
    """Read the violating rows of the snapshot in which it broke first, and of the newest one, from their manifests.

    Raises:
        StorageError, BadInputError: a manifest cannot be read.
    """
    wanted = {
        item.epoch for item in (history.broke, history.last) if item and item.holding is Holding.VIOLATED
    }
    read = {
        item.epoch: replace(item, rows=await asyncio.to_thread(rows_of, item.manifest, history.name))
        for item in history.evaluations
        if item.epoch in wanted and item.manifest
    }
    return replace(history, evaluations=tuple(read.get(item.epoch, item) for item in history.evaluations))


def rows_of(place: str, name: str) -> tuple[WitnessEntry, ...]:
    """Read the first violating rows of an invariant from a manifest. Blocks."""
    _, manifest = read_manifest(place)
    return next((check.witnesses for check in manifest.checks if check.name == PREFIX + name), ())


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
    others = {check.status for check in verdict.checks if not check.name.startswith(PREFIX)}
    # An invariant that fails makes a snapshot INCONSISTENT by itself.
    proved = verdict.verdict in GOOD or (
        verdict.verdict == Verdict.INCONSISTENT and others == {Status.PASSED.value}
    )
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
                triggered_ms=reading.times_ms[view.epoch - 1],
                verdict=verdict.verdict,
                manifest=verdict.manifest,
                holding=holding,
                found=check.found,
            ),
        )
