"""`keep`: periodic snapshots, assembled and verified, with old ones pruned; for good, or until a predicate holds.

Each moment of the schedule has a name, `keep-20261125T213000Z`, which is the id of its snapshot. Another keeper of the
same namespace, after a crash or beside it, requests the same snapshot by that name and gets it, once. Nothing old is
made up for: the next round comes.

A predicate is stable if it stays true once it is (Chandy and Lamport 1985, section 5): the computation has ended, some
processes wait for each other in a circle, a token is lost. The state that a snapshot shows can be reached from the one
in which it was triggered, and the one in which it was captured can be reached from it. So a predicate that holds in a
snapshot has held since it was captured, at the latest; and one that does not hold in it did not hold when it was
triggered. Both need a consistent snapshot: without a proof it answers nothing. The predicate is evaluated, and is not a
check: a computation that still runs is not a fault of a snapshot. Each round then has a snapshot of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from msgspec import structs

from snapkafka.assembly.invariant_files import load, parse_parameters
from snapkafka.assembly.spec import PLAIN_SPEC, JobResult, JobSpec, changed
from snapkafka.checks import Status
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
from snapkafka.kafka import Connection, read_ledger
from snapkafka.kafka.preflight import made_id
from snapkafka.manifest import WitnessEntry
from snapkafka.store import lies_in, open_store, read_manifest, written_down
from snapkafka.units import wall_ms
from snapkafka.until import within
from snapkafka.verbs import Keep, Result

from .assembling import BESIDE_US, assemble
from .info import SnapshotInfo
from .listing import summaries
from .pruning import Policy, checkpoint_due, plan_pruning, prune
from .snapshots import trigger
from .watching import Violation, violations_in

#: What befalls one snapshot and need not befall the next ...
OF_ONE: Final = (SnapshotFailedError, TimedOutError, OffsetsGoneError)
#: ... and what befalls an assembly whatever the snapshot; in the first round of a keeper it is rather a slip.
OF_ALL: Final = (BrokerUnavailableError, LedgerUnusableError, DependencyMissingError)
PREFIX: Final = "keep-"
#: After so long a round is ended; the next one takes its own snapshot.
ROUND_MS: Final = 3_600_000


class Outcome(StrEnum):
    """The outcome of a round."""

    VERIFIED = "verified"
    #: INCONSISTENT or UNVERIFIABLE.
    NOT_GOOD = "not good"
    FAILED = "failed"


class Answer(StrEnum):
    """The answer of a snapshot to the predicate."""

    HOLDS = "holds"
    NOT_YET = "not yet"
    #: The snapshot is not proved to be consistent, or the query failed.
    UNPROVEN = "unproven"


class KeptRound(Result, frozen=True, kw_only=True):
    """A moment of the schedule and the outcome of its snapshot.

    `removed`: the pruned ones; `why`, `code`: of a failure, and of a pruning that failed. `violated`: the invariants
    that its snapshot violates. `why_full`: why an incremental one has its whole state (`JobResult.why_full`).
    `checkpoint_due`: the number of records that a `snapkafka checkpoint` would remove; 0: it is not due.

    `answer`: to the predicate; None: none was asked for, or the round failed. `found`: the number of rows that show
    that it does not hold, `witnesses` the first of them. `not_yet_ms`: when the last snapshot with the answer "not yet"
    was triggered: it did not hold then. `holds_ms`: when one in which it holds was captured: it has held since then, at
    the latest. Both by the ledger's clock; None: unknown.
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
    answer: Answer | None = None
    found: int = 0
    witnesses: tuple[WitnessEntry, ...] = ()
    not_yet_ms: int | None = None
    holds_ms: int | None = None


def name_at(at_ms: int, every_ms: int) -> str:
    """Return the id of the snapshot of the moment to which `at_ms` belongs."""
    begin_ms = at_ms - at_ms % every_ms
    return f"{PREFIX}{datetime.fromtimestamp(begin_ms / 1_000, UTC):%Y%m%dT%H%M%SZ}"


async def keep(
    where: Connection,
    namespace: str,
    request: Keep,
    *,
    who: str = "",
    spec: JobSpec = PLAIN_SPEC,
    report: Callable[[KeptRound], None] = lambda item: None,
    notify: Callable[[str], None] | None = None,
    clock: Callable[[], int] = wall_ms,
) -> KeptRound:
    """Keep snapshots until cancelled, or until the predicate holds; return the last round.

    Args:
        request: with `once`, only the round of the present moment runs. `until`: SQL whose rows show that the predicate
            does not hold: a file, a folder (all of it has to hold), or the name of a ready-made one.
        spec: the settings by which an assembly reads the log, and the invariants that each snapshot evaluates; their
            files are read in each round.
        report: called with each round.
        notify: called with each line of an assembly's progress.

    Raises:
        BadInputError, DependencyMissingError: it cannot begin.
        TimedOutError: the predicate does not hold in time.
        SnapkafkaError: the first round cannot run; whatever befalls later ones is reported, and the next one follows.
    """
    predicates = (request.until,) if request.until else ()
    spec = changed(spec, namespace=namespace, storage=request.storage, asked=predicates)
    load([*predicates, *spec.invariants], parse_parameters(spec.parameters))
    BESIDE_US.require_engine(spec)
    if not request.storage:
        raise BadInputError("keep needs --storage: no place for tables is known", hint="add --storage DIR")
    keeper = Keeper(where, namespace, request, who, spec, notify)
    last: KeptRound | None = None

    def late() -> TimedOutError:
        so_far = f"; the last round ({last.id}): {last.answer or last.outcome}" if last else ""
        return TimedOutError(
            f"{request.until} did not hold in time{so_far}",
            hint="set a longer --timeout, or query the last snapshot to see what it waits for",
        )

    async with within(None if request.timeout_ms is None else request.timeout_ms / 1_000, late):
        while True:
            last = await keeper.next(last, clock())
            report(last)
            if request.once or last.answer is Answer.HOLDS:
                return last
            left_ms = request.every_ms - clock() % request.every_ms
            await asyncio.sleep(left_ms / 1_000)


@dataclass(slots=True)
class Keeper:
    where: Connection
    namespace: str
    request: Keep
    who: str
    spec: JobSpec
    notify: Callable[[str], None] | None
    taken: set[str] = field(default_factory=set)
    removed: tuple[str, ...] = ()

    async def next(self, last: KeptRound | None, now_ms: int) -> KeptRound:
        """Run the round of a moment, and note whatever befalls it; what befalls the first one is raised."""
        name = made_id() if self.request.until else name_at(now_ms, self.request.every_ms)
        too_long = TimedOutError(f"the round was ended after {ROUND_MS / 60_000:g} min", hint="see its log")
        self.removed = ()
        try:
            async with within(ROUND_MS / 1_000, lambda: too_long):
                found = await self.round_of(name, now_ms)
        except (SnapkafkaError, OSError) as error:  # also a full disk, or a connection that is too slow
            if last is None and error is not too_long:
                raise
            what = f"{type(error).__name__}: {error}"
            found = _failed(name, error if isinstance(error, SnapkafkaError) else InternalError(what))
        not_yet_ms = last.not_yet_ms if last and found.not_yet_ms is None else found.not_yet_ms
        return structs.replace(found, not_yet_ms=not_yet_ms, removed=self.removed)

    async def round_of(self, name: str, now_ms: int) -> KeptRound:
        """Run the round of the snapshot of this name, or the rest of it: prune, trigger, assemble and verify, prune.

        It prunes before it takes new space, whatever has befallen earlier rounds: nothing else heals a full disk.
        """
        request = self.request
        ledger = await read_ledger(self.where, self.namespace)
        kind, due = _type(request, summaries(ledger), name), checkpoint_due(ledger, now_ms)
        await self._prune()
        await asyncio.to_thread(lambda: open_store(request.storage).check_writable())
        try:
            options: dict[str, Any] = {"storage": request.storage, "who": self.who, "ttl_ms": request.ttl_ms}
            options |= {"type": kind, "wait": True}
            taken = await trigger(self.where, self.namespace, snapshot_id=name, **options)
            self.taken.add(taken.id)
            found = await self._assembled(taken)
        except OF_ONE as error:
            found = _failed(name, error)
        found = structs.replace(found, checkpoint_due=due)
        if (refused := await self._prune()) and found.outcome is not Outcome.FAILED:
            return structs.replace(found, why=f"nothing was pruned: {refused.message}", code=refused.code)
        return found

    async def _assembled(self, taken: SnapshotInfo) -> KeptRound:
        """Assemble a captured snapshot; return its round. What befalls every assembly (`OF_ALL`) is raised."""
        found = KeptRound(id=taken.id, outcome=Outcome.VERIFIED, type=taken.type, epoch=taken.epoch)
        if taken.verdict:  # by a keeper that was cut short after it
            good = taken.verdict in GOOD
            return structs.replace(
                found,
                outcome=Outcome.VERIFIED if good else Outcome.NOT_GOOD,
                verdict=taken.verdict,
                manifest=taken.manifest,
                violated=() if good else await asyncio.to_thread(_stored_violations, taken.manifest),
            )
        try:
            spec = changed(self.spec, snapshots=(taken.id,))
            (result,) = await assemble(self.where, spec, notify=self.notify)
        except OF_ALL:
            raise
        except SnapkafkaError as error:
            return structs.replace(found, outcome=Outcome.FAILED, why=error.message, code=error.code)
        return structs.replace(
            found,
            outcome=Outcome.VERIFIED if result.good else Outcome.NOT_GOOD,
            verdict=result.verdict,
            manifest=result.manifest,
            why_full=result.why_full,
            violated=violations_in(result.id, result.verdict, result.checks, result.contaminated),
            **_answered(taken, result),
        )

    async def _prune(self) -> SnapkafkaError | None:
        """Prune what may go: of the namespace, or with a predicate of what was taken for it. Return why that failed."""
        if self.request.keep_last is None:
            return None
        storage, among = self.request.storage, self.taken if self.request.until else None
        policy = Policy(last=self.request.keep_last, namespace=self.namespace, among=among)
        try:
            planned = await plan_pruning(storage, policy, where=self.where)
            pruned = await prune(storage, policy, planned, where=self.where)
        except SnapkafkaError as error:
            return error
        self.removed += tuple(item.id for item in pruned.removed)
        return None


def _answered(taken: SnapshotInfo, result: JobResult) -> dict[str, Any]:
    """Return what the snapshot answers to the predicate, if there is one."""
    statuses = {answer.status for answer in result.answers}
    witnesses = tuple(witness for answer in result.answers for witness in answer.witnesses)
    if not (statuses and result.good):
        return {"answer": Answer.UNPROVEN} if statuses else {}
    if statuses == {Status.PASSED}:
        assert taken.capture_ms is not None, "what is assembled was captured"
        return {"answer": Answer.HOLDS, "holds_ms": taken.triggered_ms + taken.capture_ms}
    if Status.FAILED in statuses:
        shown = {"found": sum(answer.found for answer in result.answers), "witnesses": witnesses}
        return {"answer": Answer.NOT_YET, "not_yet_ms": taken.triggered_ms, **shown}
    return {"answer": Answer.UNPROVEN, "why": witnesses[0].what}


def _stored_violations(place: str) -> tuple[Violation, ...]:
    try:
        _, found = read_manifest(place)
    except SnapkafkaError:  # its verdict is reported all the same
        return ()
    return violations_in(found.id, found.verdict, found.checks, found.captured.contaminated)


def _type(request: Keep, listed: Sequence[SnapshotInfo], name: str) -> str:
    """Return whether the snapshot is full or incremental; for an existing one, its type."""
    place = written_down(request.storage)
    for item in listed:
        if item.id == name:
            return item.type
    good = [item for item in listed if item.verdict in GOOD and lies_in(place, item.manifest)]
    return "incremental" if request.incremental and good else "full"


def _failed(name: str, error: SnapkafkaError) -> KeptRound:
    return KeptRound(id=name, outcome=Outcome.FAILED, why=error.message, code=error.code)
