"""`drill`: run a backup, and report whether it can be trusted.

The newest good snapshot becomes a throwaway fork; the apps start in it and work off what was in flight at the cut; a
snapshot of the fork is assembled and verified, the snapshot itself is verified once more, and the invariants are asked
of both. Production is only read. All that the drill has made is removed, also when it fails or is interrupted.

| module | |
|---|---|
| `parts` | what a drill needs of the rest: forks, ledgers, snapshots, the Spark job |
| `workers` | the apps' processes |
| `report` | what was found, as data and as Markdown |

A phase that fails is a reason not to trust the backup, and no error of the drill: those behind it are listed as not
run.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from snapkafka.errors import BadInputError, DependencyMissingError, SnapkafkaError, TimedOutError
from snapkafka.kafka.connection import Connection
from snapkafka.kafka.lasting import wall_ms
from snapkafka.ops.assembling import AS_IT_IS, Assembled, HowToRead
from snapkafka.runtime.extras import require_extra
from snapkafka.runtime.interrupts import to_its_end
from snapkafka.runtime.locked import lock_problem

from .parts import KafkaParts, Parts, Source, judged, versions
from .report import Compared, Drill, Judged, Phase, markdown
from .workers import JOINS_WITHIN_S, AppEndedError, Workers, parsed

__all__ = ["Compared", "Drill", "Judged", "Phase", "drill", "markdown"]

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

T = TypeVar("T")


async def drill(
    where: Connection,
    namespace: str,
    apps: Sequence[str],
    *,
    snapshot: str = "latest",
    storage: str = "",
    invariants: Sequence[str] = (),
    parameters: Sequence[str] = (),
    until: str = "",
    keep: bool = False,
    timeout_s: float = 600.0,
    joins_within_s: float = JOINS_WITHIN_S,
    allow: Sequence[int] = (),
    lock: bool = True,
    who: str = "",
    reading: HowToRead = AS_IT_IS,
    say: Callable[[str], None] = lambda text: None,
    parts: Parts | None = None,
) -> Drill:
    """Run a snapshot as a throwaway fork, and find out whether it can be trusted.

    Args:
        apps: the commands that start the workers, one for each app at least; each runs as it is, with `SNAPKAFKA_FORK`.
        snapshot: id, epoch or `latest`, the newest good one.
        storage: where its manifest lies; empty: its place in the ledger.
        invariants: SQL to check on both snapshots (V6). `${prefix:}` in it is what names of the fork begin with.
        parameters: `name=value`, for the invariants; of `topics` and `apps` the fork gets its own names.
        until: SQL that has to hold of the fork before it is judged, as for `watch`.
        keep: leave the fork; its workers are ended all the same.
        timeout_s: for becoming stable and working off, each.
        joins_within_s: each command has called `snapkafka.install` after this time; one that has not is ended.
        allow: ports to which the commands may open TCP connections of their own.
        lock: keep them from all others; False: `snapkafka.install` alone isolates them.
        reading: how the log is read by assembly.
        say: hears each phase.
        parts: for tests; None: the real ones.

    Raises:
        BadInputError: invalid command; nothing was done.
        DependencyMissingError: no Spark, nothing that writes a fork, or nothing that locks a command; nothing was
            done.
        TimedOutError, SnapkafkaError: only of what is found before anything was made.
    """
    commands = parsed(apps)
    _require_lock(allow, lock)
    for extra in ("restore", "spark") if parts is None else ():
        require_extra(extra, "a drill")
    fork = f"drill-{random.getrandbits(32):08x}"
    folder = Path(tempfile.mkdtemp(prefix="snapkafka-drill-"))
    run = _Run(
        parts=parts
        or KafkaParts(
            where=where,
            namespace=namespace,
            fork=fork,
            storage=storage,
            folder=str(folder / "snapshots"),
            invariants=invariants,
            parameters=parameters,
            reading=reading,
            who=who,
            say=say,
        ),
        workers=Workers(folder, lock=lock, allow=allow, joins_within_s=joins_within_s),
        commands=commands,
        fork=fork,
        snapshot=snapshot,
        until=until,
        invariants_given=bool(invariants),
        keep=keep,
        timeout_s=timeout_s,
        say=say,
    )
    began = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        await run.all()
    finally:
        await to_its_end(run.put_away())
        shutil.rmtree(folder, ignore_errors=True)
    return run.result(namespace, began, tuple(apps))


def _require_lock(allow: Sequence[int], lock: bool) -> None:
    if wrong := [port for port in allow if not 0 < port < 65_536]:
        raise BadInputError(f"--allow {wrong[0]} is not a port", hint="a number from 1 to 65535")
    if lock and (problem := lock_problem(allow)):
        raise DependencyMissingError(
            f"commands cannot be kept from the broker here: {problem}",
            hint="run the drill on Linux 6.7 or later; --unlocked trusts the commands (docs/guide/drill.md)",
        )


@dataclass(slots=True, kw_only=True)
class _Run:
    """One drill, as far as it has come."""

    parts: Parts
    workers: Workers
    commands: list[list[str]]
    fork: str
    snapshot: str
    until: str
    invariants_given: bool
    keep: bool
    timeout_s: float
    say: Callable[[str], None]
    phases: list[Phase] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    compared: list[Compared] = field(default_factory=list)
    found: Source | None = None
    source: Judged | None = None
    of_fork: Judged | None = None
    rto_s: float | None = None
    rpo_s: float | None = None
    logs: dict[str, str] = field(default_factory=dict)
    forking_since: float = 0.0
    created: bool = False
    removed: bool = True

    async def all(self) -> None:
        """Do phase after phase, until one fails."""
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
            self.say(name)
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
        self.found = found = await self.parts.find(self.snapshot)
        if found.triggered_ms:
            self.rpo_s = round((wall_ms() - found.triggered_ms) / 1_000, 3)
        return f"{found.id}, epoch {found.epoch}, {found.verdict}"

    async def _create(self) -> str:
        assert self.found is not None
        self.created, self.removed, self.forking_since = True, False, time.monotonic()
        forked = await self.parts.create(self.found, expires_s=2 * self.timeout_s + EXPIRES_AFTER_S)
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
                what="apps", snapshot=len(self.found.apps), fork=len(forked.apps),
                equal=len(self.found.apps) == len(forked.apps),
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
        self.rto_s = round(time.monotonic() - self.forking_since, 3)
        if self.until:
            await self._while_running(self.parts.watch(self.until, self.timeout_s))
            return f"worked off, and {self.until} holds"
        return "worked off"

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

    def _judge(self, found: Assembled, name: str) -> Judged:
        judgement = judged(found)
        if not judgement.good:
            self.reasons.append(f"{name} is {judgement.verdict}")
        elif not judgement.records:
            self.reasons.append(
                f"{name}: its checks have not looked at a single record, which proves nothing"
            )
        for check in judgement.invariants:
            if not check.run or check.status != "passed":
                self.reasons.append(
                    f"{name}: invariant {check.name} {check.status if check.run else 'was not run'}"
                )
        if self.invariants_given and not judgement.invariants:
            self.reasons.append(f"{name}: invariants were given, and none was run")
        return judgement

    # -- waiting ----------------------------------------------------------------------------------------------

    async def _awaiting(self, missing: Callable[[], Coroutine[Any, Any, str]], what: str) -> None:
        """Wait until nothing is missing.

        Raises:
            TimedOutError: it still is, with what.
            AppEndedError: an app has ended.
        """
        deadline = time.monotonic() + self.timeout_s
        while lacking := await missing():
            self.workers.require_running()
            if time.monotonic() > deadline:
                raise TimedOutError(
                    f"waited {self.timeout_s:.0f} s until {what}: {lacking}", hint="a longer --timeout"
                )
            await asyncio.sleep(POLL_S)
        self.workers.require_running()

    async def _while_running(self, work: Coroutine[Any, Any, T]) -> T:
        """Await it, as long as no app ends."""
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
        """End the workers and remove the fork; what stays is a reason not to trust."""
        await self.workers.end()
        if not self.created or self.keep:
            return
        self.say("remove the fork")
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
        """Remove it, as soon as its groups have no members any more."""
        deadline = time.monotonic() + DROPPED_WITHIN_S
        while True:
            try:
                return await self.parts.drop()
            except SnapkafkaError:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(2 * POLL_S)

    def result(self, namespace: str, began: str, apps: tuple[str, ...]) -> Drill:
        return Drill(
            trusted=not self.reasons,
            reasons=tuple(self.reasons),
            namespace=namespace,
            fork=self.fork,
            snapshot=self.found.id if self.found else "",
            epoch=self.found.epoch if self.found else 0,
            started_at=began,
            rpo_s=self.rpo_s,
            rto_s=self.rto_s,
            apps=apps,
            phases=tuple(self.phases),
            compared=tuple(self.compared),
            source=self.source,
            of_fork=self.of_fork,
            removed=self.removed,
            kept=self.keep and self.created,
            versions=versions(self.found),
            logs=self.logs,
        )
