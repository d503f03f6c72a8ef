"""The connection of a drill with the rest of snapkafka: forks, their ledgers, snapshots and the Spark job."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from snapkafka.assembly.spec import JobResult, JobSpec, changed
from snapkafka.checks.invariants import parameters_of, parse_parameters
from snapkafka.errors import ForkRefusedError, LedgerUnusableError
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.kafka.ledger.reading import opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.records.bulk import KafkaBulk
from snapkafka.manifest import Manifest
from snapkafka.ops.assembling import assemble, verify
from snapkafka.ops.keep import keep
from snapkafka.ops.querying import query
from snapkafka.ops.triggering import trigger
from snapkafka.protocol.forking import of_fork, prefix_of, prefixed
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.records import TopicPartition
from snapkafka.query.locate import manifest_places
from snapkafka.recovery.forks import drop_forks, plan_drop
from snapkafka.recovery.plan import Plan, Recovered, Request
from snapkafka.recovery.positions import apps_of
from snapkafka.recovery.recovery import plan_recovery, recover
from snapkafka.recovery.stored_rows import GroupAdmin
from snapkafka.store import read_manifest
from snapkafka.verbs import Drill, Keep

#: Parameters of ready-made invariants that hold names of topics or apps.
NAMES: Final = ("topics", "apps")
#: Stands in invariants for what names of the fork begin with; empty for the snapshot itself.
PREFIX: Final = "prefix"
TTL_MS: Final = 30_000
#: The limit for reaching the predicate, and for processing the messages in flight, each.
TIMEOUT_MS: Final = 600_000
EVERY_MS: Final = 10_000
IN_FLIGHT: Final = 'SELECT count(*) AS n FROM (SELECT DISTINCT topic, "partition", "offset" FROM messages)'


@dataclass(frozen=True, slots=True, kw_only=True)
class DrilledSnapshot:
    """The snapshot that is drilled. `place`: of its manifest. `in_flight`: messages; `tables`: rows by table."""

    id: str
    epoch: int
    verdict: str
    place: str
    apps: tuple[str, ...]
    triggered_ms: int = 0
    in_flight: int = 0
    tables: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Parts:
    """The steps of a drill on a cluster, apart from their order.

    Args:
        folder: for the tables of the fork's snapshot.
    """

    where: Connection
    namespace: str
    fork: str
    request: Drill
    folder: str
    spec: JobSpec
    who: str
    notify: Callable[[str], None]
    goals: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    taken: str = ""
    planned: Plan | None = None

    @property
    def forked_namespace(self) -> str:
        return prefixed(self.fork, self.namespace)

    async def used(self) -> str:
        """Return a topic or consumer group with the id of this drill in its name; empty: there is none."""
        async with KafkaTopicAdmin(self.where) as admin:
            names = [*await admin.describe_topics()]
            with contextlib.suppress(LedgerUnusableError):  # not allowed to see groups: topics have to do
                names += [group.name for group in await admin.groups()]
        return next((name for name in names if of_fork(self.fork, name)), "")

    async def find(self, name: str) -> DrilledSnapshot:
        """Find the snapshot."""
        (place,) = await manifest_places(
            self.where, self.namespace, [name], storage=self.request.storage, good=True
        )
        manifest = read_manifest(place)[1]
        self.namespace = self.namespace or manifest.namespace
        found = await query(None, "", IN_FLIGHT, manifest=place)
        return source_of(manifest, place, int(found.rows[0]["n"]))

    async def plan(self, source: DrilledSnapshot, *, expires_s: float) -> None:
        """Plan a fork of it."""
        request = Request(
            namespace=self.namespace,
            name=source.id,
            storage=self.request.storage,
            fork=self.fork,
            expires_s=expires_s,
        )
        self.planned = await plan_recovery(self.where, request)

    async def create(self) -> Recovered:
        """Create the planned fork."""
        assert self.planned is not None, "plan() comes first"
        forked = await recover(self.where, self.planned, who=self.who, notify=self.notify)
        await self._set_goals(forked.plan.apps)
        return forked

    async def _set_goals(self, apps: Iterable[str]) -> None:
        """Note the ends of the inputs: their present records were in flight, and have to be processed."""
        async with opened(self.where, self.forked_namespace) as work:
            admin = cast(GroupAdmin, work.admin)
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
                committed = await cast(GroupAdmin, work.admin).committed(app)
                for tp, goal in sorted(goals.items()):
                    if (at := committed.get(tp, (0, ""))[0]) < goal:
                        return f"app {app} has committed {at} of {goal} in {tp}"
        return ""

    async def watch(self, until: str) -> None:
        """Wait until a predicate holds of the fork."""
        await keep(
            self.where,
            self.forked_namespace,
            Keep(until=until, storage=self.folder, every_ms=EVERY_MS, timeout_ms=TIMEOUT_MS, ttl_ms=TTL_MS),
            who=self.who,
            spec=changed(self.spec, invariants=(), parameters=self._parameters([until], of_fork=True)),
            notify=self.notify,
        )

    async def trigger(self) -> str:
        """Take a snapshot of the fork, and wait until it is captured; return its id."""
        found = await trigger(
            self.where,
            self.forked_namespace,
            storage=self.folder,
            who=self.who,
            ttl_ms=TTL_MS,
            retries=2,
            wait=True,
        )
        self.taken = found.id
        return found.id

    async def assemble(self) -> JobResult:
        """Assemble that snapshot, and verify it."""
        spec = changed(
            self.spec,
            namespace=self.forked_namespace,
            snapshots=(self.taken,),
            storage=self.folder,
            parameters=self._parameters(self.spec.invariants, of_fork=True),
        )
        (found,) = await assemble(self.where, spec, notify=self.notify)
        return found

    async def verify(self, source: DrilledSnapshot) -> JobResult:
        """Verify the snapshot that was drilled once more, its tables as well."""
        spec = changed(
            self.spec,
            manifests=(source.place,),
            parameters=self._parameters(self.spec.invariants, of_fork=False),
            tables=True,
        )
        (found,) = await verify(self.where, spec, notify=self.notify)
        return found

    async def drop(self) -> None:
        """Remove the fork."""
        async with KafkaTopicAdmin(self.where) as admin:
            there = any(of_fork(self.fork, name) for name in await admin.describe_topics())
        if there:
            (dropped,) = await drop_forks(
                self.where, await plan_drop(self.where, self.namespace, self.fork), notify=self.notify
            )
            if dropped.kept:
                raise ForkRefusedError(f"fork {self.fork} stays: {dropped.kept}")
        await self._drop_held()

    async def _drop_held(self) -> None:
        """Remove the groups that the creation held, in case it was interrupted before its first topic."""
        if self.planned is None:
            return
        groups = [app for app in self.planned.apps if app.startswith(prefix_of(self.fork))]
        await asyncio.to_thread(KafkaBulk(self.where).delete_groups, groups)

    def _parameters(self, invariants: Sequence[str], *, of_fork: bool) -> list[str]:
        given = parse_parameters(self.spec.parameters)
        wanted = parameters_of(invariants)
        own = {name: value for name, value in given.items() if name in wanted}
        return (
            of_the_fork(own, wanted, self.fork) if of_fork else [f"{name}={of}" for name, of in own.items()]
        )


def source_of(manifest: Manifest, place: str, in_flight: int) -> DrilledSnapshot:
    """Collect the facts about a snapshot that a drill needs."""
    return DrilledSnapshot(
        id=manifest.id,
        epoch=manifest.epoch,
        verdict=manifest.verdict,
        place=place,
        apps=apps_of(manifest.captured),
        triggered_ms=manifest.ledger.triggered_ms,
        in_flight=in_flight,
        tables={table.name: table.rows for table in manifest.tables},
    )


def of_the_fork(given: Mapping[str, str], wanted: Iterable[str], fork: str) -> list[str]:
    """Return the parameters of invariants for the fork: names of topics and apps are its own, and `prefix` is the
    prefix of its names."""
    found = dict(given)
    for name in NAMES:
        if found.get(name):
            found[name] = ",".join(prefixed(fork, item.strip()) for item in found[name].split(","))
    if PREFIX in {*wanted}:
        found.setdefault(PREFIX, prefix_of(fork))
    return [f"{name}={value}" for name, value in found.items()]


def unassigned(state: LedgerState, apps: Iterable[str]) -> str:
    """Name the apps that do not have all their inputs; empty: there are none.

    A living process reports its assigned inputs; the inputs of an app are those that its processes announced.
    """
    for app in sorted(apps):
        living = [view for view in state.living() if view.hello.app == app]
        if not living:
            return f"no worker of app {app} has joined"
        wanted = {
            TopicPartition(source.topic, number)
            for view in living
            for source in view.hello.inputs
            for number in range(source.partitions)
        }
        given = {tp for view in living for tp in view.inputs}
        if short := sorted(wanted - given):
            return f"no worker of app {app} is assigned {short[0]}"
    return ""
