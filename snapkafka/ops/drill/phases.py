"""The phases of a drill, in their order; the first one that fails ends it, and everything is removed in any case."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from snapkafka import verbs
from snapkafka.assembly.spec import JobResult, JobSpec
from snapkafka.errors import ForkRefusedError, SnapkafkaError, TimedOutError
from snapkafka.units import wall_ms
from snapkafka.until import Tries, succeed

from .parts import TIMEOUT_MS, DrilledSnapshot, Parts
from .result import Compared, Drill, Phase, is_invariant, records_of
from .workers import AppEndedError, Workers

#: The fork of a drill that was killed is removed by `fork drop --expired` some time after its drill would have ended.
EXPIRES_AFTER_S: Final = 3_600.0
POLL_S: Final = 1.0
#: A worker that had to be killed stays a member of its group until its session is over: 60 s with Faust's settings.
DROPPED_WITHIN_S: Final = 90.0
PHASES: Final = (
    "find the snapshot",
    "create the fork",
    "start the apps",
    "become stable",
    "work off what was in flight",
    "snapshot of the fork",
    "verify the fork",
    "verify the snapshot",
)

#: Those of them that the RTO consists of.
RECOVERING: Final = slice(1, 5)

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class DrillRun:
    """One drill, with its progress."""

    parts: Parts
    workers: Workers
    commands: list[list[str]]
    fork: str
    request: verbs.Drill
    spec: JobSpec
    notify: Callable[[str], None]
    phases: list[Phase] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    compared: list[Compared] = field(default_factory=list)
    found: DrilledSnapshot | None = None
    source: JobResult | None = None
    of_fork: JobResult | None = None
    rto_s: float | None = None
    rpo_s: float | None = None
    rto_phases: dict[str, float] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    forking_since: float = 0.0
    created: bool = False
    removed: bool = True

    async def all(self) -> None:
        """Run phase after phase, until one fails."""
        steps: list[Callable[[], Coroutine[Any, Any, str]]] = [
            self._find,
            self._create,
            self._start,
            self._stable,
            self._work_off,
            self._snapshot,
            self._verify_fork,
            self._verify_source,
        ]
        for name, step in zip(PHASES, steps, strict=True):
            started = time.monotonic()
            self.notify(name)
            try:
                what = await step()
            except (SnapkafkaError, AppEndedError) as error:
                what = error.message if isinstance(error, SnapkafkaError) else str(error)
                self._phase(name, "failed", started, what)
                self.reasons.append(f"{name}: {what}")
                self.logs = self.workers.last_lines()
                break
            self._phase(name, "done", started, what)
        self.phases += [Phase(name=name, status="not-run") for name in PHASES[len(self.phases) :]]

    def _phase(self, name: str, status: str, started: float, what: str) -> None:
        took = round(time.monotonic() - started, 3)
        self.phases.append(Phase(name=name, status=status, seconds=took, what=what))

    # -- the phases -------------------------------------------------------------------------------------------

    async def _find(self) -> str:
        if used := await self.parts.used():
            raise ForkRefusedError(f"id {self.fork} was used before: {used}", hint="start the drill again")
        self.found = found = await self.parts.find(self.request.snapshot)
        if found.triggered_ms:
            self.rpo_s = round((wall_ms() - found.triggered_ms) / 1_000, 3)
        return f"{found.id}, epoch {found.epoch}, {found.verdict}"

    async def _create(self) -> str:
        assert self.found is not None
        self.forking_since = time.monotonic()
        await self.parts.plan(self.found, expires_s=2 * TIMEOUT_MS / 1_000 + EXPIRES_AFTER_S)
        self.created, self.removed = True, False
        forked = await self.parts.create()
        self.compared.append(
            Compared(
                what="messages in flight",
                snapshot=self.found.in_flight,
                fork=forked.messages,
                equal=self.found.in_flight == forked.messages,
            )
        )
        self.compared.append(
            Compared(
                what="apps", snapshot=len(self.found.apps), fork=len(forked.plan.apps),
                equal=len(self.found.apps) == len(forked.plan.apps),
            )
        )  # fmt: skip
        self.reasons += [
            f"{it.what}: the fork has {it.fork}, not {it.snapshot}" for it in self.compared if not it.equal
        ]
        return f"{forked.state:,} records of state, {forked.messages:,} messages"

    async def _start(self) -> str:
        self.workers.start(self.commands, self.fork)
        while self.workers.unjoined():
            self.workers.require_running()
            await asyncio.sleep(POLL_S)
        return f"{len(self.commands)} processes"

    async def _stable(self) -> str:
        await self._awaiting(self.parts.missing, "every app of the fork has all its inputs")
        return "every app has all its inputs"

    async def _work_off(self) -> str:
        await self._awaiting(self.parts.left, "what was in flight is worked off")
        self._recovered()
        if self.request.until:
            await self._while_running(self.parts.watch(self.request.until))
            return f"worked off, and {self.request.until} holds"
        return "worked off"

    def _recovered(self) -> None:
        """Note the RTO, in total and by phase; the present phase is not over yet."""
        self.rto_s = round(time.monotonic() - self.forking_since, 3)
        names = PHASES[RECOVERING]
        took = {phase.name: phase.seconds for phase in self.phases if phase.name in names}
        took[names[-1]] = round(max(0.0, self.rto_s - sum(took.values())), 3)
        self.rto_phases = took

    async def _snapshot(self) -> str:
        name = await self._while_running(self.parts.trigger())
        await self.workers.end()  # what follows reads the log
        return name

    async def _verify_fork(self) -> str:
        found = await self.parts.assemble()
        self.of_fork = self._judge(found, "the fork's snapshot")
        assert self.found is not None
        for table in sorted(self.found.tables.keys() | found.tables.keys()):
            rows = self.found.tables.get(table, 0), found.tables.get(table, 0)
            self.compared.append(Compared(what=f"rows of table {table}", snapshot=rows[0], fork=rows[1]))
        return found.verdict

    async def _verify_source(self) -> str:
        assert self.found is not None
        found = await self.parts.verify(self.found)
        self.source = self._judge(found, f"snapshot {self.found.id}")
        return found.verdict

    def _judge(self, found: JobResult, name: str) -> JobResult:
        if not found.good:
            self.reasons.append(f"{name} is {found.verdict}")
        elif not records_of(found):
            self.reasons.append(f"{name}: its checks read no record, so they prove nothing")
        invariants = [check for check in found.checks if is_invariant(check)]
        for check in invariants:
            if not check.run or check.status != "passed":
                self.reasons.append(
                    f"{name}: invariant {check.name} {check.status if check.run else 'was not run'}"
                )
        if self.spec.invariants and not invariants:
            self.reasons.append(f"{name}: invariants were given, and none was run")
        return found

    # -- waiting ----------------------------------------------------------------------------------------------

    async def _awaiting(self, missing: Callable[[], Coroutine[Any, Any, str]], what: str) -> None:
        """Wait until nothing is missing.

        Raises:
            TimedOutError: something is still missing; it is named.
            AppEndedError: an app has ended.
        """
        async for _ in Tries(TIMEOUT_MS / 1_000, POLL_S):
            lacking = await missing()
            self.workers.require_running()
            if not lacking:
                return
        raise TimedOutError(
            f"waited {TIMEOUT_MS / 1_000:.0f} s until {what}: {lacking}", hint="see the logs of the commands"
        )

    async def _while_running(self, work: Coroutine[Any, Any, T]) -> T:
        """Await the work, as long as no app ends."""
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait([task], timeout=POLL_S))[0]:
                self.workers.require_running()
            return task.result()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, SnapkafkaError):
                await task

    # -- the end ----------------------------------------------------------------------------------------------

    async def put_away(self) -> None:
        """End the workers and remove the fork; a remainder is a reason not to trust the backup."""
        await self.workers.end()
        if not self.created or self.request.keep:
            return
        self.notify("remove the fork")
        started = time.monotonic()
        try:
            await self._drop()
        except Exception as error:  # the result is worth more than how this ended
            why = error.message if isinstance(error, SnapkafkaError) else repr(error)
            self.reasons.append(f"remove the fork: {why}")
            self._phase("remove the fork", "failed", started, why)
            return
        self.removed = True
        self._phase("remove the fork", "done", started, "")

    async def _drop(self) -> None:
        """Remove the fork, as soon as its groups have no members any more."""
        await succeed(self.parts.drop, DROPPED_WITHIN_S, SnapkafkaError, every_s=2 * POLL_S)

    def result(self, namespace: str, began: str) -> Drill:
        """Put the result together."""
        return Drill(
            id=self.fork,
            trusted=not self.reasons,
            reasons=tuple(self.reasons),
            namespace=namespace,
            fork=self.fork,
            snapshot=self.found.id if self.found else "",
            epoch=self.found.epoch if self.found else 0,
            started_at=began,
            rpo_s=self.rpo_s,
            rto_s=self.rto_s,
            rto_phases=self.rto_phases,
            apps=tuple(self.request.apps),
            phases=tuple(self.phases),
            compared=tuple(self.compared),
            source=self.source,
            of_fork=self.of_fork,
            removed=self.removed,
            kept=self.request.keep and self.created,
            logs=self.logs,
        )
