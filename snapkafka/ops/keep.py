"""`keep`: periodic snapshots, assembled and verified, with old ones pruned; one keeper at a time.

Each moment of the schedule has a name, `keep-20261125T213000Z`, which is the id of its snapshot. Another keeper of the
same namespace, after a crash or on another machine, requests the same snapshot by that name and gets it, once. Nothing
old is made up for: the next round comes. The lock only avoids double work.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from snapkafka.assembly.spec import PLAIN_SPEC, JobResult, JobSpec, changed
from snapkafka.checks.invariants import load, parse_parameters
from snapkafka.checks.verdict import GOOD
from snapkafka.errors import (
    BadInputError,
    BrokerUnavailableError,
    DependencyMissingError,
    InternalError,
    LedgerUnusableError,
    OffsetsGoneError,
    SnapkafkaError,
    SnapshotFailedError,
    TimedOutError,
)
from snapkafka.kafka.ledger.reading import read_ledger
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.store import lies_in, open_store, read_manifest, written_down
from snapkafka.store.locks import locked
from snapkafka.units import wall_ms
from snapkafka.until import within

from .assembling import BESIDE_US, assemble
from .checkpointing import checkpoint_due
from .invariants import Violation, violations_in
from .listing import Summary, summaries
from .pruning import Policy, plan_pruning, prune
from .triggering import trigger

#: What befalls one snapshot and need not befall the next ...
OF_ONE: Final = (SnapshotFailedError, TimedOutError, OffsetsGoneError)
#: ... and what befalls an assembly whatever the snapshot; in the first round of a keeper it is rather a slip.
OF_ALL: Final = (BrokerUnavailableError, LedgerUnusableError, DependencyMissingError)
PREFIX: Final = "keep-"
#: After so long a round is ended; the next one takes its own snapshot.
ROUND_MS: Final = 3_600_000
RETRIES: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The schedule: when which snapshots are taken, and which ones stay.

    Args:
        every_ms: the time between two moments, counted from 1970, so that all keepers have the same.
        incremental: each builds on the latest verified one in the storage, if there is one that fits.
        keep_last: the number of snapshots that `prune` keeps; None: all.
        ttl_ms: the time after which a snapshot that is not captured fails.
        round_ms: the time after which a round is ended.
    """

    every_ms: int
    incremental: bool = False
    keep_last: int | None = None
    ttl_ms: int = 5_000
    round_ms: int = ROUND_MS


class Outcome(StrEnum):
    """The outcome of a round."""

    VERIFIED = "verified"
    #: INCONSISTENT or UNVERIFIABLE.
    NOT_GOOD = "not good"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRound:
    """A moment of the schedule and the outcome of its snapshot.

    `removed`: the pruned ones; `why`, `code`: of a failure, and of a pruning that failed. `violated`: the invariants
    that its snapshot violates. `why_full`: why an incremental one has its whole state (`JobResult.why_full`).
    `checkpoint_due`: the number of records that a `snapkafka checkpoint` would remove; 0: it is not due.
    """

    id: str
    outcome: Outcome
    type: str = ""
    epoch: int = 0
    verdict: str = ""
    manifest: str = ""
    violated: tuple[Violation, ...] = ()
    why_full: str = ""
    removed: tuple[str, ...] = ()
    why: str = ""
    code: str = ""
    checkpoint_due: int = 0


Assemble = Callable[[str], Awaitable[JobResult]]


def name_at(at_ms: int, every_ms: int) -> str:
    """Return the id of the snapshot of the moment to which `at_ms` belongs."""
    begin_ms = at_ms - at_ms % every_ms
    return f"{PREFIX}{datetime.fromtimestamp(begin_ms / 1_000, UTC):%Y%m%dT%H%M%SZ}"


async def keep(
    where: Connection,
    namespace: str,
    schedule: Schedule,
    *,
    storage: str,
    once: bool = False,
    who: str = "",
    spec: JobSpec = PLAIN_SPEC,
    report: Callable[[KeptRound], None] = lambda item: None,
    notify: Callable[[str], None] | None = None,
    clock: Callable[[], int] = wall_ms,
) -> KeptRound:
    """Keep snapshots until cancelled; with `once`, run and return only the round of the present moment.

    Args:
        spec: the settings by which an assembly reads the log, and the invariants that each snapshot evaluates; their
            files are read in each round.
        report: called with each round.
        notify: called with each line of an assembly's progress.

    Raises:
        BadInputError, DependencyMissingError: it cannot begin.
        TimedOutError: another keeper of this namespace and storage holds the lock.
        SnapkafkaError: the first round cannot run; whatever befalls later ones is reported, and the next one follows.
    """
    load(spec.invariants, parse_parameters(spec.parameters))
    BESIDE_US.require_engine(spec)
    if not storage:
        raise BadInputError("keep needs --storage: no place for tables is known", hint="add --storage DIR")
    await asyncio.to_thread(lambda: open_store(storage).check_writable())

    async def made(name: str) -> JobResult:
        wanted = changed(spec, namespace=namespace, snapshots=(name,), storage=storage)
        return (await assemble(where, wanted, notify=notify))[0]

    first, too_long = True, _too_long(schedule)
    with keeping_lock(storage, namespace):
        while True:
            now_ms = clock()
            try:
                async with within(schedule.round_ms / 1_000, lambda: too_long.with_traceback(None)):
                    found = await round_at(
                        now_ms, where, namespace, schedule, storage=storage, who=who, made=made
                    )
            except (SnapkafkaError, OSError) as error:  # also a full disk, or a connection that is too slow
                if first and error is not too_long:
                    raise
                found = _failed(name_at(now_ms, schedule.every_ms), _ours(error))
            report(found)
            if once:
                return found
            first = False
            left_ms = schedule.every_ms - clock() % schedule.every_ms
            await asyncio.sleep(left_ms / 1_000)


async def round_at(
    now_ms: int,
    where: Connection | Cluster,
    namespace: str,
    schedule: Schedule,
    *,
    storage: str,
    who: str,
    made: Assemble,
) -> KeptRound:
    """Run the round of a moment, or the rest of it: trigger, assemble and verify, prune.

    Old snapshots are pruned whatever befell this one: else they would fill the storage.

    Args:
        made: assembles a snapshot.
    """
    name = name_at(now_ms, schedule.every_ms)
    ledger = await read_ledger(where, namespace)
    kind, due = _type(schedule, summaries(ledger), name, storage), checkpoint_due(ledger, now_ms)
    try:
        taken = await trigger(
            where,
            namespace,
            snapshot_id=name,
            type=kind,
            storage=storage,
            who=who,
            ttl_ms=schedule.ttl_ms,
            retries=RETRIES,
            wait=True,
        )
        found = await _assembled(taken, made)
    except OF_ONE as error:
        found = _failed(name, error)
    found = replace(found, checkpoint_due=due)
    try:
        return replace(found, removed=await _pruned(where, schedule, namespace, storage))
    except SnapkafkaError as error:  # the snapshot stands all the same
        if found.outcome is Outcome.FAILED:
            return found
        return replace(found, why=f"nothing was pruned: {error.message}", code=error.code)


async def _assembled(taken: Summary, made: Assemble) -> KeptRound:
    """Assemble a captured snapshot; return its round.

    Raises:
        SnapkafkaError: what befalls every assembly (`OF_ALL`).
    """
    found = KeptRound(id=taken.id, outcome=Outcome.VERIFIED, type=taken.type, epoch=taken.epoch)
    if taken.verdict:  # by a keeper that was cut short after it
        good = taken.verdict in GOOD
        outcome = Outcome.VERIFIED if good else Outcome.NOT_GOOD
        return replace(
            found,
            outcome=outcome,
            verdict=taken.verdict,
            manifest=taken.manifest,
            violated=() if good else await asyncio.to_thread(_stored_violations, taken.manifest),
        )
    try:
        result = await made(taken.id)
    except OF_ALL:
        raise
    except SnapkafkaError as error:
        return replace(found, outcome=Outcome.FAILED, why=error.message, code=error.code)
    return replace(
        found,
        outcome=Outcome.VERIFIED if result.good else Outcome.NOT_GOOD,
        verdict=result.verdict,
        manifest=result.manifest,
        why_full=result.why_full,
        violated=violations_in(result.id, result.verdict, result.checks, result.contaminated),
    )


def _stored_violations(place: str) -> tuple[Violation, ...]:
    try:
        _, found = read_manifest(place)
    except SnapkafkaError:  # its verdict is reported all the same
        return ()
    return violations_in(found.id, found.verdict, found.checks, found.captured.contaminated)


def _type(schedule: Schedule, listed: Sequence[Summary], name: str, storage: str) -> str:
    """Return whether the snapshot is full or incremental; for an existing one, its type."""
    place = written_down(storage)
    for item in listed:
        if item.id == name:
            return item.type
    good = [item for item in listed if item.verdict in GOOD and lies_in(place, item.manifest)]
    return "incremental" if schedule.incremental and good else "full"


async def _pruned(
    where: Connection | Cluster, schedule: Schedule, namespace: str, storage: str
) -> tuple[str, ...]:
    if schedule.keep_last is None:
        return ()
    policy = Policy(last=schedule.keep_last, namespace=namespace)
    planned = await plan_pruning(storage, policy, where=where)
    return tuple(item.id for item in (await prune(storage, policy, planned, where=where)).removed)


def _too_long(schedule: Schedule) -> TimedOutError:
    return TimedOutError(
        f"the round was ended after {schedule.round_ms / 60_000:g} min",
        hint="see in its log where it hung",
    )


def _ours(error: SnapkafkaError | OSError) -> SnapkafkaError:
    if isinstance(error, SnapkafkaError):
        return error
    return InternalError(f"{type(error).__name__}: {error}")


def _failed(name: str, error: SnapkafkaError) -> KeptRound:
    return KeptRound(id=name, outcome=Outcome.FAILED, why=error.message, code=error.code)


@contextlib.contextmanager
def keeping_lock(storage: str, namespace: str) -> Iterator[None]:
    """Hold the lock of a namespace and a storage on this machine; it ends with the process.

    Raises:
        TimedOutError: another process holds it.
    """
    place = open_store(storage).uri
    digest = hashlib.sha256(f"{namespace}\0{place}".encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"snapkafka-keep-{os.getuid()}-{digest}.lock"
    path.touch(mode=0o600)
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(path, wait=False))
        except BlockingIOError:
            raise TimedOutError(
                f"another `snapkafka keep` of namespace {namespace} is running for {place}",
                hint="let it run, or stop it first",
            ) from None
        yield
