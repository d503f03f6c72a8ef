"""`keep`: periodic snapshots, assembled and verified, with old ones pruned; one keeper at a time.

Each moment of the schedule has a name, `keep-20261125T213000Z`, which is the id of its snapshot. Another keeper of the
same namespace, after a crash or on another machine, requests the same snapshot by that name and gets it, once; an
interrupted assembly is done in the next round. The lock only avoids double work.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time
from enum import StrEnum
from pathlib import Path
from typing import Final

from snapkafka.assembly.spec import PLAIN_SPEC, JobResult, JobSpec, changed
from snapkafka.checks.verdict import GOOD
from snapkafka.errors import (
    BadInputError,
    BrokerUnavailableError,
    LedgerUnusableError,
    OffsetsGoneError,
    SnapkafkaError,
    SnapshotFailedError,
    StorageError,
    TimedOutError,
    TriggerRefusedError,
)
from snapkafka.kafka.ledger.reading import read_ledger
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.protocol.ledger_state import Status
from snapkafka.store import open_store
from snapkafka.store.locks import locked
from snapkafka.units import wall_ms

from .assembling import BESIDE_US, assemble
from .checkpointing import checkpoint_due
from .listing import Summary, list_snapshots, summaries
from .pruning import Policy, plan_pruning, prune
from .triggering import trigger

#: What befalls one round and need not befall the next; in the first round of a keeper the rest is rather a slip.
OF_ONE: Final = (SnapshotFailedError, TimedOutError, OffsetsGoneError)
OF_A_WHILE: Final = (BrokerUnavailableError, LedgerUnusableError, TriggerRefusedError, StorageError)
PREFIX: Final = "keep-"
#: Every snapshot that was captured and not assembled is made up for, up to so many in a round.
CATCH_UP_MAX: Final = 8
RETRIES: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """A time of day, by this machine's clock, in which no snapshot is taken; it may include midnight."""

    begin: time
    end: time

    @classmethod
    def parse(cls, text: str) -> Quiet:
        """Read `22:00-23:00`.

        Raises:
            BadInputError: it is not a valid time of day.
        """
        try:
            begin, end = (time.fromisoformat(part.strip()) for part in text.split("-"))
        except ValueError:
            begin = end = time()
        if begin == end or begin.tzinfo or end.tzinfo:
            raise BadInputError(f"--quiet {text!r} is not a time of day", hint="write it as 22:00-23:00")
        return cls(begin=begin, end=end)

    def covers(self, at_ms: int) -> bool:
        """Return whether it includes a moment (milliseconds since 1970)."""
        now = datetime.fromtimestamp(at_ms / 1_000).time()
        if self.begin < self.end:
            return self.begin <= now < self.end
        return now >= self.begin or now < self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The schedule: when which snapshots are taken, and which ones stay.

    Args:
        every_ms: the time between two moments, counted from 1970, so that all keepers have the same.
        incremental: each builds on the latest verified one, if there is one.
        full_daily: the first of each day (UTC) is full all the same.
        keep_last, keep_days: the snapshots that `prune` keeps; both None: all.
        quiet: times of day without snapshots.
        ttl_ms: the time after which a snapshot that is not captured fails.
    """

    every_ms: int
    incremental: bool = False
    full_daily: bool = False
    keep_last: int | None = None
    keep_days: float | None = None
    quiet: Sequence[Quiet] = ()
    ttl_ms: int = 5_000


class Outcome(StrEnum):
    """The outcome of a round."""

    VERIFIED = "verified"
    #: INCONSISTENT or UNVERIFIABLE.
    NOT_GOOD = "not good"
    FAILED = "failed"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A moment of the schedule and the outcome of its snapshot.

    `made_up_for`: earlier snapshots that were assembled as well; `removed`: the pruned ones; `why`, `code`: of a
    failure. `checkpoint_due`: the number of records that a `snapkafka checkpoint` would remove; 0: it is not due.
    """

    id: str
    outcome: Outcome
    type: str = ""
    epoch: int = 0
    verdict: str = ""
    manifest: str = ""
    made_up_for: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    why: str = ""
    code: str = ""
    checkpoint_due: int = 0


Assemble = Callable[[Sequence[str]], Awaitable[tuple[JobResult, ...]]]


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
    report: Callable[[Round], None] = lambda item: None,
    notify: Callable[[str], None] | None = None,
    clock: Callable[[], int] = wall_ms,
) -> Round:
    """Keep snapshots until cancelled; with `once`, run and return only the round of the present moment.

    Args:
        spec: the settings by which an assembly reads the log.
        report: called with each round.
        notify: called with each line of an assembly's progress.

    Raises:
        BadInputError, DependencyMissingError: it cannot begin.
        TimedOutError: another keeper of this namespace and storage holds the lock.
        SnapkafkaError: the first round cannot run; failures of later ones are reported, and the next one follows.
    """
    BESIDE_US.require_engine(spec)
    if not storage:
        raise BadInputError("keep needs --storage: no place for tables is known", hint="add --storage DIR")
    await asyncio.to_thread(lambda: open_store(storage).check_writable())

    async def made(names: Sequence[str]) -> tuple[JobResult, ...]:
        wanted = changed(spec, namespace=namespace, snapshots=tuple(names), storage=storage)
        return await assemble(where, wanted, notify=notify)

    first = True
    async with keeping_lock(storage, namespace):
        while True:
            now_ms = clock()
            try:
                found = await round_at(
                    now_ms, where, namespace, schedule, storage=storage, who=who, made=made
                )
            except OF_A_WHILE as error:
                if first:
                    raise
                found = _failed(name_at(now_ms, schedule.every_ms), error)
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
) -> Round:
    """Run the round of a moment, or the rest of it: trigger, assemble and verify, prune.

    Args:
        made: assembles snapshots, in the order of their epochs.
    """
    name = name_at(now_ms, schedule.every_ms)
    if any(quiet.covers(now_ms) for quiet in schedule.quiet):
        return Round(id=name, outcome=Outcome.QUIET)
    ledger = await read_ledger(where, namespace)
    kind, due = _type(schedule, summaries(ledger), name), checkpoint_due(ledger, now_ms)
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
        found = await _assembled(await list_snapshots(where, namespace), taken, made)
    except OF_ONE as error:
        return replace(_failed(name, error), checkpoint_due=due)
    return replace(found, removed=await _pruned(where, schedule, namespace, storage), checkpoint_due=due)


async def _assembled(listed: Iterable[Summary], taken: Summary, made: Assemble) -> Round:
    """Assemble a captured snapshot; return its round. Earlier unassembled ones come first; they may be beyond help."""
    found = Round(id=taken.id, outcome=Outcome.VERIFIED, type=taken.type, epoch=taken.epoch)
    if taken.verdict:  # by a keeper that was cut short after it
        good = taken.verdict in GOOD
        outcome = Outcome.VERIFIED if good else Outcome.NOT_GOOD
        return replace(found, outcome=outcome, verdict=taken.verdict, manifest=taken.manifest)
    waiting = [
        item
        for item in listed
        if item.id.startswith(PREFIX)
        and item.status is Status.CAPTURED
        and not item.verdict
        and item.epoch < taken.epoch
    ]
    earlier = tuple(item.id for item in waiting[-CATCH_UP_MAX:])
    try:
        results = await made([*earlier, taken.id])
    except (*OF_ONE, StorageError):
        if not earlier:
            raise
        earlier, results = (), await made([taken.id])
    (own,) = [result for result in results if result.id == taken.id]
    return replace(
        found,
        outcome=Outcome.VERIFIED if own.good else Outcome.NOT_GOOD,
        verdict=own.verdict,
        manifest=own.manifest,
        made_up_for=earlier,
    )


def _type(schedule: Schedule, listed: Sequence[Summary], name: str) -> str:
    """Return whether the snapshot is full or incremental; for an existing one, its type."""
    for item in listed:
        if item.id == name:
            return item.type
    good = [item for item in listed if item.verdict in GOOD]
    if not (schedule.incremental and good):
        return "full"
    today = name[: len(PREFIX) + len("20261125")]
    full_today = any(item.type == "full" and item.id.startswith(today) for item in good)
    return "full" if schedule.full_daily and not full_today else "incremental"


async def _pruned(
    where: Connection | Cluster, schedule: Schedule, namespace: str, storage: str
) -> tuple[str, ...]:
    if schedule.keep_last is None and schedule.keep_days is None:
        return ()
    policy = Policy(last=schedule.keep_last, days=schedule.keep_days, namespace=namespace)
    planned = await plan_pruning(storage, policy, where=where)
    return tuple(item.id for item in (await prune(storage, policy, planned, where=where)).removed)


def _failed(name: str, error: SnapkafkaError) -> Round:
    return Round(id=name, outcome=Outcome.FAILED, why=error.message, code=error.code)


@contextlib.asynccontextmanager
async def keeping_lock(storage: str, namespace: str) -> AsyncIterator[Path]:
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
        yield path
