"""The plan of a recovery, from the facts of its target cluster, and its run: hold, check that the plan is still the
confirmed one, and run exactly that."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from snapkafka.config import namespace_problem
from snapkafka.errors import BadInputError, ForkRefusedError, RestoreRefusedError
from snapkafka.kafka.ledger.reading import opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.manifest import Manifest
from snapkafka.ports import Cluster
from snapkafka.protocol.forking import fork_problem, of_fork, prefixed
from snapkafka.protocol.records import TopicPartition
from snapkafka.protocol.restores import RestoreView

from .channels import Bulk, Channel, absent_inputs
from .editing import RuleCount
from .plan import (
    Irrevocable,
    PartitionMove,
    Plan,
    Recovered,
    Request,
    open_readers,
    raise_changed,
    raise_refused,
)
from .refusals import Facts, refusals, replaced
from .session import RecoverySession, held, opened_session
from .state import apps_of, inputs_of, lowest_positions, parts_of
from .steps import RecoveryRun
from .target import Begins, Target
from .topics import Contents, carried_by, new_topics, topics_of, workers_of


async def planned(target: Target) -> Plan:
    """Plan the work, with every reason to refuse it, and examine all records to be written or left out, unless it is
    refused.

    Raises:
        BadInputError: something cannot be examined or masked, or a rule matches nothing.
    """
    plan, begins = await _plan(target)
    if plan.refused or target.editing.idle:
        return plan
    return replace(plan, rules=await asyncio.to_thread(_examined, target, begins))


def _examined(target: Target, begins: Begins) -> tuple[RuleCount, ...]:
    """Examine rows, messages in flight, and external records that are written or stay unread by their position."""
    editing = target.editing
    editing.examine(target.stored_rows())
    editing.examine(record for it in target.collected(begins, begins.inputs) for record in it.records)
    editing.raise_unmatched()
    return editing.counts


async def _plan(target: Target) -> tuple[Plan, Begins]:
    session, manifest, captured = target.session, target.session.manifest, target.session.captured
    unfinished = session.state.restores.open
    resumes = unfinished if unfinished is not None and _is_of(target, unfinished) else None
    plan, begins = _base_plan(target, resumes), await target.begins()
    appending: list[Channel] = []
    if target.in_place:
        plan, appending = await _with_moves(target, plan, begins)
        if unfinished is not None and resumes is None and replaced(captured, unfinished):
            note = f"replaces {unfinished}, which was not finished"
            plan = replace(plan, replaces=unfinished.plan, notes=(note,))
    first = [it.records for it in appending] if target.in_place else [*begins.stored.values()]
    target.contents = contents = Contents(
        captured=captured,
        carried=carried_by(record for records in first for record in records),
        largest={topic: size for topic, (_, size) in session.tables.state.items()},
    )
    described = await session.admin.describe_topics(list(topics_of(manifest)))
    if not target.in_place:
        target.new = new_topics(manifest, contents, await session.defaults(), target.named)
    made = {it.of: it.settings for it in target.new}
    there = [] if target.fork else [*described]
    missing = tuple(it for it in target.new if it.of not in there)
    names = await session.admin.describe_topics() if target.fork else ()
    under_prefix = [name for name in names if of_fork(target.fork, name)]
    wanted = [TopicPartition(name, at) for name, count in topics_of(manifest).items() for at in range(count)]
    logs = await target.existing(wanted)
    known = session.tables.unread(lowest_positions(captured))
    facts = Facts(
        kind=plan.kind,
        manifest=manifest,
        restores=session.state.restores,
        ledger_topic_id=session.topic_id,
        files=session.tables.damage,
        fork=target.fork,
        with_inputs=session.request.with_inputs,
        topics=described,
        ends=await session.admin.log_ends(logs) if logs else {},
        under_prefix=under_prefix,
        changes={
            name: contents.changes(name, await session.settings(name), recorded=made.get(name))
            for name in there
        },
        lost=begins.lost,
        appending=appending,
        known={tp: {record.offset for record in records} for tp, records in known.items()},
        takes_external=target.takes_external,
        hellos=session.hellos,
        members=await workers_of(session.admin, plan.apps),
        resumes=resumes,
        replaces=plan.replaces,
    )
    if not target.in_place:
        stored = sum(map(len, begins.stored.values())) - sum(map(len, session.tables.in_flight.values()))
        plan = replace(plan, topics=missing, stored=stored)
    if target.elsewhere:
        absent = absent_inputs(manifest, session.tables, target.takes_external)
        unseen = [app for app in plan.apps if app not in facts.hellos]
        plan = replace(
            plan, existing=tuple(sorted(there)), absent=tuple(absent), notes=_notes(session, unseen)
        )
    return replace(plan, refusals=refusals(facts, force=session.request.force)), begins


def _notes(session: RecoverySession, unseen: Sequence[str]) -> tuple[str, ...]:
    """List what is not compared or restored in another cluster, a sentence each.

    Args:
        unseen: apps of which no process has joined there.
    """
    found = [f"{it.app}: {it.what}, and no snapshot holds that" for it in session.captured.uncaptured]
    if unseen:
        apps = ", ".join(unseen)
        found.append(f"the code of {apps} has not run here: it is not compared with that of the snapshot")
    return tuple(found)


def _is_of(target: Target, view: RestoreView) -> bool:
    """Return whether an open restore is that of this snapshot, from its own cluster."""
    manifest, begun = target.session.manifest, view.begun
    return (begun.snapshot, begun.epoch, begun.origin) == (manifest.id, manifest.epoch, target.origin)


def _base_plan(target: Target, resumes: RestoreView | None) -> Plan:
    session, manifest, tables = target.session, target.session.manifest, target.session.tables
    changelogs = {cut.topic for cut in session.captured.changelogs}
    return Plan(
        kind=session.request.kind,
        plan=f"{random.getrandbits(64):016x}" if resumes is None else resumes.plan,
        request=session.request,
        snapshot=manifest.id,
        attempt=manifest.attempt,
        epoch=manifest.epoch,
        verdict=manifest.verdict,
        digest=manifest.content,
        place=session.place,
        namespace=session.namespace,
        apps=apps_of(target.captured),
        taken_ms=manifest.ledger.triggered_ms,
        messages=sum(map(len, tables.in_flight.values())),
        state=sum(rows for topic, (rows, _) in tables.state.items() if topic in changelogs),
        open=open_readers(manifest),
        resumes="" if resumes is None else resumes.plan,
        stage="" if resumes is None else resumes.stage,
    )


# --- In place --------------------------------------------------------------------------------------------------------


async def _with_moves(target: Target, plan: Plan, begins: Begins) -> tuple[Plan, list[Channel]]:
    """Add how far readers go back, and what cannot be undone; return the records to append, too."""
    captured, admin = target.session.captured, target.session.admin
    groups = {app: await admin.committed(app) for app in plan.apps}
    again: Counter[tuple[str, TopicPartition]] = Counter()

    def count(record: KafkaRecord) -> None:
        """Count an event of a partition that goes back: it runs once more in each app that has committed it."""
        for app, committed in groups.items():
            again[app, record.tp] += record.offset < committed.get(record.tp, (-1, ""))[0]

    def moves() -> Iterator[PartitionMove]:
        for tp, cuts in inputs_of(captured).items():
            for cut in cuts:
                before, records = groups[cut.app].get(tp, (-1, ""))[0], appends.get(tp)
                lowest = min([p.offset for p in cut.agents] or [cut.position])
                behind = sum(lowest <= record.offset < before for record in records or ())
                yield PartitionMove(
                    app=cut.app,
                    topic=tp.topic,
                    partition=tp.partition,
                    before=before,
                    after=lowest if records is None else None,
                    appends=len(records or ()),
                    again=again[cut.app, tp] if records is None else behind,
                )

    found = await asyncio.to_thread(lambda: list(target.channels_of(begins, count)))
    appends = {it.tp: it.records for it in found}
    return replace(plan, moves=tuple(moves()), irrevocable=await _irrevocable(target)), found


async def _irrevocable(target: Target) -> tuple[Irrevocable, ...]:
    """List the outputs after the cut, by partition; each range begins where the first sender's white records end."""
    captured, starts = target.session.captured, dict[TopicPartition, int]()
    restored = {part.topic for part in parts_of(captured)}
    for sender in captured.senders:
        if sender.topic not in restored:
            tp = TopicPartition(sender.topic, sender.partition)
            starts[tp] = min(sender.white_end, starts.get(tp, sender.white_end))
    there = await target.existing(starts)
    ends = await target.session.admin.log_ends(there) if there else {}
    return tuple(
        Irrevocable(topic=tp.topic, partition=tp.partition, start=start, end=ends[tp])
        for tp, start in sorted(starts.items())
        if ends.get(tp, start) > start
    )


async def plan_recovery(where: Connection | Cluster, request: Request, *, bulk: Bulk | None = None) -> Plan:
    """Plan a recovery, with every reason to refuse it. Change nothing.

    Raises:
        BadInputError: an invalid name or storage; something cannot be examined or masked, or a rule about erased keys
            or a mask matches nothing.
        UnknownSnapshotError, StorageError: there is no such snapshot, or it cannot be read.
        DependencyMissingError: the extra `restore` is not installed.
    """
    _check(request)
    async with _opened_target(where, request, None, bulk) as target:
        return await planned(target)


async def recover(
    where: Connection | Cluster,
    plan: Plan,
    *,
    who: str = "",
    notify: Callable[[str], None] = lambda text: None,
    crash: Callable[[str], None] = lambda step: None,
    bulk: Bulk | None = None,
) -> Recovered:
    """Run a confirmed plan as it is, or change nothing.

    The consumer groups are held before the plan is computed once more, so nothing in it changes afterwards. Workers of
    production may run while a fork is created, and are not affected.

    Args:
        who: the caller, for people.
        notify: called with each phase.
        crash: for tests: called with the name of each phase before it begins.
        bulk: for tests; None: by librdkafka.

    Raises:
        RestoreRefusedError, ForkRefusedError: for a reason that it names; nothing was changed.
        PlanChangedError: it would be another plan by now; nothing was changed.
        BadInputError: a record that production has received since the plan cannot be masked: nothing was changed, or
            the fork is unfinished, and never runs.
        OvertakenError: another run or a worker has taken over; this one changed nothing more.
        RestoreFailedError, ForkFailedError: it ended half-way; another run continues, but a fork is removed first.
    """
    refused = ForkRefusedError if plan.kind == "fork" else RestoreRefusedError
    raise_refused(plan, refused)
    started = time.monotonic()
    async with _opened_target(where, plan.request, plan, bulk) as target:
        session = target.session
        async with held(session.admin, plan.apps, notify, refused) as holds:
            raise_changed(plan, await planned(target))
            async with opened(where, session.namespace, create=True) as work:
                run = RecoveryRun(
                    target=target, work=work, holds=holds, plan=plan, who=who, notify=notify, crash=crash
                )
                view = await run.run()
    return Recovered(
        plan=plan,
        author=view.author,
        messages=run.appended["messages"],
        inputs=run.appended["inputs"],
        state=run.appended["state"],
        topics=tuple(target.created),
        expires_ms=target.expires_ms,
        seconds=round(time.monotonic() - started, 3),
    )


def _check(request: Request) -> None:
    if request.kind == "cluster" and not request.storage:
        raise BadInputError(
            "a restore into another cluster needs to know where the tables of the snapshot lie",
            hint="add --storage DIR: nothing is asked of the old cluster",
        )
    if request.kind == "fork" and (problem := fork_problem(request.fork)):
        raise BadInputError(problem, hint="as in: snapkafka fork create staging --from latest")
    if request.expires_s is not None and request.expires_s <= 0:
        raise BadInputError(
            f"a fork cannot expire after {request.expires_s:g} s", hint="leave it out: it never does"
        )


@asynccontextmanager
async def _opened_target(
    where: Connection | Cluster, request: Request, pinned: Plan | None, bulk: Bulk | None
) -> AsyncIterator[Target]:
    def namespace(manifest: Manifest) -> str:
        found = request.namespace or manifest.namespace
        if problem := namespace_problem(found):
            raise BadInputError(problem, hint="give --namespace")
        return prefixed(request.fork, found) if request.fork else found

    async with opened_session(where, request, namespace, pinned=pinned, bulk=bulk) as session:
        yield Target(session=session)
