"""`watch`: take snapshots until a stable predicate holds in one (Chandy and Lamport 1985, section 5).

A predicate is stable if it stays true once it is: the computation has ended, some processes wait for each other in a
circle, a token is lost. The state that a snapshot shows can be reached from the one in which it was triggered, and the
one in which it was captured can be reached from it. So a predicate that holds in a snapshot has held since it was
captured, at the latest; and one that does not hold in it did not hold when it was triggered. Both need a consistent
snapshot: without a proof it answers nothing.

The predicate is evaluated, and is not a check: a computation that still runs is not a fault of a snapshot, and its
verdict in the ledger does not mention it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Final

from snapkafka.assembly.spec import PLAIN_SPEC, JobResult, JobSpec, changed
from snapkafka.checks import Status
from snapkafka.checks.invariants import load, parse_parameters
from snapkafka.errors import (
    BadInputError,
    BrokerUnavailableError,
    OffsetsGoneError,
    SnapshotFailedError,
    TimedOutError,
    TriggerRefusedError,
)
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.preflight import made_id
from snapkafka.manifest import WitnessEntry
from snapkafka.ports import Cluster
from snapkafka.store import open_store
from snapkafka.until import within

from .assembling import BESIDE_US, assemble
from .listing import Summary
from .pruning import Policy, plan_pruning, prune
from .triggering import trigger

#: What befalls a snapshot, and need not befall the next one.
OF_ONE: Final = (SnapshotFailedError, TimedOutError, OffsetsGoneError)
#: What befalls a system that is being restarted. Before the first snapshot it is rather a slip of who asks.
OF_A_RESTART: Final = (BrokerUnavailableError, TriggerRefusedError)


class Answer(StrEnum):
    """The answer of a snapshot to the predicate."""

    HOLDS = "holds"
    NOT_YET = "not yet"
    #: The snapshot is not proved to be consistent, or the query failed.
    UNPROVEN = "unproven"
    #: There is no snapshot, or no tables of it.
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A snapshot, and its answer to the predicate.

    `found`: the number of rows that show that it does not hold, `witnesses` the first of them. `why`: why there is no
    answer. `not_yet_ms`: when the last snapshot with the answer "not yet" was triggered: it did not hold then.
    `holds_ms`: when one in which it holds was captured: it has held since then, at the latest. Both by the ledger's
    clock; None: unknown.
    """

    number: int
    id: str
    answer: Answer
    epoch: int = 0
    verdict: str = ""
    manifest: str = ""
    found: int = 0
    witnesses: tuple[WitnessEntry, ...] = ()
    why: str = ""
    not_yet_ms: int | None = None
    holds_ms: int | None = None


Take = Callable[[str], Awaitable[Summary]]
Judge = Callable[[str], Awaitable[JobResult]]
Clear = Callable[[Collection[str]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """The request to watch.

    `until`: SQL whose rows show that the predicate does not hold: a file, a folder (all of it has to hold), or the name
    of a ready-made one; `parameters`: `name=value` for it. `storage`: for the tables. `every_ms`: from one trigger to
    the next; if a round takes longer, the next one begins when it ends. `timeout_ms`: for all rounds; None: for ever.
    `keep_last`: remove the snapshots that were taken here, except those that `prune` would keep with this number.
    `ttl_ms`: of each snapshot.
    """

    until: str
    storage: str
    parameters: Sequence[str] = ()
    every_ms: int = 10_000
    timeout_ms: int | None = None
    keep_last: int | None = None
    ttl_ms: int = 5_000


async def watch(
    where: Connection,
    namespace: str,
    request: WatchRequest,
    *,
    who: str = "",
    spec: JobSpec = PLAIN_SPEC,
    report: Callable[[Round], None] = lambda item: None,
    notify: Callable[[str], None] | None = None,
) -> Round:
    """Take snapshots until the predicate holds in one; return that one.

    Args:
        who: the caller, for people.
        spec: the settings by which an assembly reads the log.
        report: called with each round.
        notify: called with each line of an assembly's progress.

    Raises:
        BadInputError: the predicate is invalid; no snapshot was taken.
        TimedOutError: it does not hold within the time.
        TriggerRefusedError, BrokerUnavailableError, StorageError, DependencyMissingError: it cannot begin.
    """
    await _require_possible(request, spec)

    async def take(name: str) -> Summary:
        return await trigger(
            where,
            namespace,
            snapshot_id=name,
            wait=True,
            storage=request.storage,
            who=who,
            ttl_ms=request.ttl_ms,
        )

    async def judge(name: str) -> JobResult:
        asked = changed(
            spec,
            namespace=namespace,
            snapshots=(name,),
            storage=request.storage,
            asked=(request.until,),
            parameters=tuple(request.parameters),
        )
        (found,) = await assemble(where, asked, notify=notify)
        return found

    last: Round | None = None

    def note(item: Round) -> None:
        nonlocal last
        last = item
        report(item)

    policy = Policy(last=request.keep_last, namespace=namespace)
    clear = None if request.keep_last is None else partial(_clear, where, request.storage, policy)
    timeout_s = None if request.timeout_ms is None else request.timeout_ms / 1_000

    def late() -> TimedOutError:
        return TimedOutError(
            f"{request.until} did not hold within {timeout_s:g} s: {_so_far(last)}",
            hint="a longer --timeout, or `snapkafka query` on the last snapshot to see what it waits for",
        )

    async with within(timeout_s, late):
        return await rounds(take, judge, every_s=request.every_ms / 1_000, report=note, clear=clear)


async def _require_possible(request: WatchRequest, spec: JobSpec) -> None:
    """Refuse a request that cannot succeed, before anything is taken."""
    load([request.until], parse_parameters(request.parameters))
    BESIDE_US.require_engine(spec)
    if not request.storage:
        raise BadInputError("watch needs --storage: no place for tables is known", hint="add --storage DIR")
    await asyncio.to_thread(lambda: open_store(request.storage).check_writable())


def _so_far(last: Round | None) -> str:
    if last is None:
        return "no round was finished"
    return f"{last.number} rounds, the last one ({last.id}): {last.answer}"


async def rounds(
    take: Take,
    judge: Judge,
    *,
    every_s: float,
    report: Callable[[Round], None],
    clear: Clear | None = None,
) -> Round:
    """Take a snapshot, judge it and wait, until the predicate holds.

    Args:
        take: requests the snapshot of this id, and waits until it is captured.
        judge: assembles it, and evaluates the predicate.
        report: called with each round, also the last one.
        clear: removes those of these snapshots that are not kept.
    """
    loop = asyncio.get_running_loop()
    taken: list[str] = []
    found: Round | None = None
    while True:
        started = loop.time()
        found = await _round(found, take, judge)
        report(found)
        if found.answer is Answer.HOLDS:
            return found
        taken.append(found.id)
        if clear is not None:
            await clear(taken)
        await asyncio.sleep(max(0.0, started + every_s - loop.time()))


async def _round(before: Round | None, take: Take, judge: Judge) -> Round:
    base = Round(
        number=1 if before is None else before.number + 1,
        id=made_id(),
        answer=Answer.FAILED,
        not_yet_ms=None if before is None else before.not_yet_ms,
    )
    try:
        summary = await take(base.id)
        found = await judge(base.id)
    except OF_ONE as error:
        return replace(base, why=error.message)
    except OF_A_RESTART as error:
        if before is None:
            raise
        return replace(base, why=error.message)
    base = replace(base, epoch=found.epoch, verdict=found.verdict, manifest=found.manifest)
    if not found.good:
        return replace(base, answer=Answer.UNPROVEN, why=f"the snapshot is {found.verdict}")
    witnesses = tuple(witness for answer in found.answers for witness in answer.witnesses)
    statuses = {answer.status for answer in found.answers}
    if statuses == {Status.PASSED}:
        assert summary.capture_ms is not None, "what is assembled was captured"
        return replace(base, answer=Answer.HOLDS, holds_ms=summary.triggered_ms + summary.capture_ms)
    if Status.FAILED in statuses:
        return replace(
            base,
            answer=Answer.NOT_YET,
            found=sum(answer.found for answer in found.answers),
            witnesses=witnesses,
            not_yet_ms=summary.triggered_ms,
        )
    return replace(base, answer=Answer.UNPROVEN, why=witnesses[0].what)


async def _clear(where: Connection | Cluster, storage: str, policy: Policy, own: Collection[str]) -> None:
    """Remove those of our own snapshots that are not kept."""
    planned = await plan_pruning(storage, policy, where=where)
    removed = tuple(item for item in planned.removed if item.id in own)
    await prune(storage, policy, replace(planned, removed=removed, leftovers=()), where=where)
