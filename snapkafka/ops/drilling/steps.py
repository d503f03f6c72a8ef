"""The steps of a drill, in their order; the first one that fails ends it, and everything is removed in any case."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from snapkafka.assembly.invariant_files import parameters_of, parse_parameters
from snapkafka.assembly.spec import JobResult, JobSpec, changed
from snapkafka.errors import ForkRefusedError, SnapkafkaError, TimedOutError
from snapkafka.kafka import Connection, opened
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin, administration
from snapkafka.manifest import Manifest
from snapkafka.ops.assembling import assemble, verify
from snapkafka.ops.keeping import keep
from snapkafka.ops.snapshots import trigger
from snapkafka.protocol.forking import LEDGER, prefixed
from snapkafka.protocol.records import TopicPartition
from snapkafka.query.locate import manifest_places
from snapkafka.restore.forks import drop_forks, plan_drop
from snapkafka.restore.plan import Plan, Request, raise_refused
from snapkafka.restore.planning import plan_recovery, recover
from snapkafka.store import read_manifest
from snapkafka.units import wall_ms
from snapkafka.until import Tries, succeed, until
from snapkafka.verbs import Drill as Asked
from snapkafka.verbs import Keep

from .result import Drill, Phase, is_invariant, of_the_fork, records_of, unassigned
from .workers import JOINS_WITHIN_S, AppEndedError, Workers

#: The limit for reaching the predicate, and for processing the messages in flight, each.
TIMEOUT_MS: Final = 600_000
#: The fork of a drill that was killed is removed by `fork drop --expired` some time after its drill would have ended.
EXPIRES_MS: Final = 2 * TIMEOUT_MS + 3_600_000
TTL_MS: Final = 30_000
KEEP: Final[Mapping[str, Any]] = {"every_ms": 10_000, "timeout_ms": TIMEOUT_MS, "ttl_ms": TTL_MS}
POLL_S: Final = 1.0
#: A worker that had to be killed stays a member of its group until its session is over: 60 s with Faust's settings.
DROPPED_WITHIN_S: Final = 90.0

T = TypeVar("T")


@dataclass(kw_only=True)
class DrillRun:
    """One drill, with its progress.

    Args:
        folder: for the tables of the fork's snapshot.
    """

    where: Connection
    namespace: str
    fork: str
    request: Asked
    commands: list[list[str]]
    folder: str
    spec: JobSpec
    workers: Workers
    who: str
    notify: Callable[[str], None]
    phases: list[Phase] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    goals: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    place: str = ""
    found: Manifest | None = None
    planned: Plan | None = None
    source: JobResult | None = None
    of_fork: JobResult | None = None
    rto_s: float | None = None
    rpo_s: float | None = None
    in_flight: int = 0
    forking_since: float = 0.0
    taken: str = ""
    created: bool = False
    removed: bool = True
    logs: dict[str, str] = field(default_factory=dict)

    async def run(self) -> None:
        """Run phase after phase, until one fails."""
        phases: Mapping[str, Callable[[], Coroutine[Any, Any, str]]] = {
            "find the snapshot": self._find,
            "create the fork": self._create,
            "start the apps": self._start,
            "become stable": self._stable,
            "work off what was in flight": self._work_off,
            "snapshot of the fork": self._snapshot,
            "verify the fork": self._verify_fork,
            "verify the snapshot": self._verify_source,
        }
        for name, phase in phases.items():
            started = time.monotonic()
            self.notify(name)
            try:
                self._note(name, "done", started, await phase())
            except (SnapkafkaError, AppEndedError) as error:
                self._fail(name, started, error)
                self.logs = self.workers.last_lines()
                break
        self.phases += [Phase(name=name, status="not-run") for name in [*phases][len(self.phases) :]]

    def _note(self, name: str, status: str, started: float, what: str) -> None:
        took = round(time.monotonic() - started, 3)
        self.phases.append(Phase(name=name, status=status, seconds=took, what=what))

    def _fail(self, name: str, started: float, error: Exception) -> None:
        what = error.message if isinstance(error, SnapkafkaError) else str(error) or repr(error)
        self._note(name, "failed", started, what)
        self.reasons.append(f"{name}: {what}")

    # -- the phases -------------------------------------------------------------------------------------------

    async def _find(self) -> str:
        """Find the snapshot, by its place and manifest."""
        asked = self.request
        (self.place,) = await manifest_places(
            self.where, self.namespace, [asked.snapshot], storage=asked.storage, good=True
        )
        self.found = found = read_manifest(self.place)[1]
        self.namespace = self.namespace or found.namespace
        if triggered_ms := found.ledger.triggered_ms:
            self.rpo_s = round((wall_ms() - triggered_ms) / 1_000, 3)
        return f"{found.id}, epoch {found.epoch}, {found.verdict}"

    async def _create(self) -> str:
        assert self.found is not None
        self.forking_since = time.monotonic()
        request = Request(
            namespace=self.namespace,
            name=self.found.id,
            storage=self.request.storage,
            fork=self.fork,
            expires_ms=EXPIRES_MS,
        )
        self.planned = await plan_recovery(self.where, request)
        raise_refused(self.planned)
        self.created, self.removed = True, False
        forked = await recover(self.where, self.planned, who=self.who, notify=self.notify)
        self.in_flight = forked.messages
        await self.set_goals(self.planned.apps)
        return f"{forked.state:,} records of state, {forked.messages:,} messages"

    async def _start(self) -> str:
        self.workers.start(self.commands, self.fork)
        await until(self.workers.require_running, 2 * JOINS_WITHIN_S, "the commands", every_s=POLL_S)
        return f"{len(self.commands)} processes"

    async def _stable(self) -> str:
        await self._awaiting(self.missing, "every app of the fork has all its inputs")
        return "every app has all its inputs"

    async def _work_off(self) -> str:
        await self._awaiting(self.left, "what was in flight is worked off")
        self.rto_s = round(time.monotonic() - self.forking_since, 3)
        if predicate := self.request.until:
            asked = Keep(until=predicate, storage=self.folder, **KEEP)
            spec = self._spec([predicate], of_fork=True, invariants=())
            where = self.where, self.forked_namespace
            await self._while_running(keep(*where, asked, who=self.who, spec=spec, notify=self.notify))
            return f"worked off, and {predicate} holds"
        return "worked off"

    async def _snapshot(self) -> str:
        options: dict[str, Any] = {"storage": self.folder, "who": self.who, "ttl_ms": TTL_MS, "wait": True}
        taken = await self._while_running(trigger(self.where, self.forked_namespace, **options))
        self.taken = taken.id
        await self.workers.end()  # what follows reads the log
        return taken.id

    async def _verify_fork(self) -> str:
        spec = self._spec(
            self.spec.invariants,
            of_fork=True,
            namespace=self.forked_namespace,
            snapshots=(self.taken,),
            storage=self.folder,
        )
        (self.of_fork,) = await assemble(self.where, spec, notify=self.notify)
        return self._judge(self.of_fork, "the fork's snapshot")

    async def _verify_source(self) -> str:
        """Verify the snapshot that is drilled once more, its tables as well."""
        assert self.found is not None
        spec = self._spec(self.spec.invariants, of_fork=False, manifests=(self.place,), tables=True)
        (self.source,) = await verify(self.where, spec, notify=self.notify)
        return self._judge(self.source, f"snapshot {self.found.id}")

    def _judge(self, found: JobResult, name: str) -> str:
        if not found.good:
            self.reasons.append(f"{name} is {found.verdict}")
        elif not records_of(found):
            self.reasons.append(f"{name}: its checks read no record, so they prove nothing")
        invariants = [check for check in found.checks if is_invariant(check)]
        for check in invariants:
            if not check.run or check.status != "passed":
                status = check.status if check.run else "was not run"
                self.reasons.append(f"{name}: invariant {check.name} {status}")
        if self.spec.invariants and not invariants:
            self.reasons.append(f"{name}: invariants were given, and none was run")
        return found.verdict

    def _spec(self, asked: Iterable[str], *, of_fork: bool, **changes: Any) -> JobSpec:
        """Return the settings of a job, with the parameters that its invariants know."""
        wanted = parameters_of([*asked])
        given = {name: of for name, of in parse_parameters(self.spec.parameters).items() if name in wanted}
        named = (
            of_the_fork(given, wanted, self.fork)
            if of_fork
            else [f"{name}={of}" for name, of in given.items()]
        )
        return changed(self.spec, parameters=named, **changes)

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

    # -- the cluster ------------------------------------------------------------------------------------------

    @property
    def forked_namespace(self) -> str:
        return prefixed(self.fork, self.namespace)

    async def set_goals(self, apps: Iterable[str]) -> None:
        """Note the ends of the fork's inputs: what lies there was in flight, and has to be processed."""
        async with opened(self.where, self.forked_namespace) as work:
            admin = cast(KafkaTopicAdmin, work.admin)
            for app in apps:
                committed = await admin.committed(app)
                ends = await admin.log_ends(committed)
                self.goals[app] = {tp: ends[tp] for tp, (at, _) in committed.items() if at < ends[tp]}

    async def missing(self) -> str:
        """Name an app of the fork that does not have all its inputs yet; empty: there is none."""
        async with opened(self.where, self.forked_namespace) as work:
            return unassigned(work.reading.state, self.goals)

    async def left(self) -> str:
        """Name messages in flight that are not processed yet; empty: all are."""
        async with opened(self.where, self.forked_namespace) as work:
            for app, goals in sorted(self.goals.items()):
                committed = await cast(KafkaTopicAdmin, work.admin).committed(app)
                for tp, goal in sorted(goals.items()):
                    if (at := committed.get(tp, (0, ""))[0]) < goal:
                        return f"app {app} has committed {at} of {goal} in {tp}"
        return ""

    async def drop(self) -> None:
        """Remove the fork, if its creation has come to anything."""
        async with administration(self.where) as admin:
            begun = await admin.describe_topics([LEDGER + self.forked_namespace])
            if not begun and self.planned is not None:  # its groups may have been held
                await admin.delete_groups(*self.planned.apps)
        if begun:
            planned = await plan_drop(self.where, self.namespace, self.fork)
            (dropped,) = await drop_forks(self.where, planned, notify=self.notify)
            if dropped.kept:
                raise ForkRefusedError(f"fork {self.fork} stays: {dropped.kept}")

    async def put_away(self) -> None:
        """End the workers and remove the fork; a remainder is a reason not to trust the backup."""
        await self.workers.end()
        if not self.created or self.request.keep:
            return
        name, started = "remove the fork", time.monotonic()
        self.notify(name)
        try:  # as soon as its groups have no members any more
            await succeed(self.drop, DROPPED_WITHIN_S, SnapkafkaError, every_s=2 * POLL_S)
        except Exception as error:  # the result is worth more than how this ended
            self._fail(name, started, error)
            return
        self.removed = True
        self._note(name, "done", started, "")

    def result(self, namespace: str, began: str) -> Drill:
        """Put the result together."""
        return Drill(
            fork=self.fork,
            trusted=not self.reasons,
            reasons=tuple(self.reasons),
            namespace=namespace,
            snapshot=self.found.id if self.found else "",
            epoch=self.found.epoch if self.found else 0,
            started_at=began,
            rpo_s=self.rpo_s,
            rto_s=self.rto_s,
            apps=tuple(self.request.apps),
            phases=tuple(self.phases),
            in_flight=self.in_flight,
            source=self.source,
            of_fork=self.of_fork,
            removed=self.removed,
            kept=self.request.keep and self.created,
            logs=self.logs,
        )
