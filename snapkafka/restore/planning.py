"""The plan of a recovery, from the facts of its target cluster, and its run: hold, check that the plan is still the
confirmed one, and run exactly that."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, cast

from snapkafka.errors import (
    BadInputError,
    BrokerUnavailableError,
    ForkFailedError,
    LedgerUnusableError,
    RestoreFailedError,
    SnapkafkaError,
)
from snapkafka.kafka import Connection, KafkaBulk, KafkaLedger, KafkaRecord, KafkaTopicAdmin, opened
from snapkafka.kafka.cluster.group_hold import HOLDER, GroupHold, GroupTakenError
from snapkafka.kafka.preflight import OWN_GROUPS
from snapkafka.kafka.records.bulk import batch_bytes
from snapkafka.ports import Cluster
from snapkafka.protocol.forking import fork_problem, of_fork
from snapkafka.protocol.records import TopicPartition
from snapkafka.until import Tries

from .channels import Begins, Channel, absent_inputs, channels
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
from .refusals import HINTS, Facts, refusals, replaced
from .state import apps_of, inputs_of, parts_of
from .steps import RecoveryRun
from .target import Target, opened_target
from .topics import Contents, carried_by, new_topics, topics_of, workers_of

#: A run that was killed keeps its groups until its sessions are over, and a little longer.
LEFT_BEHIND_S: Final = 40.0
POLL_S: Final = 0.5


async def planned(target: Target) -> Plan:
    """Plan the work, with every reason to refuse it, and examine all records to be written or left out, unless it is
    refused."""
    plan, begins = await _plan(target)
    if plan.refusals or target.editing.idle:
        return plan
    return replace(plan, rules=await asyncio.to_thread(_examined, target, begins))


def _examined(target: Target, begins: Begins) -> tuple[RuleCount, ...]:
    """Examine rows, messages in flight, and external records that are written or stay unread by their position."""
    editing = target.editing
    editing.examine(target.stored_rows())
    editing.examine(record for it in channels(target.bulk, begins, begins.inputs) for record in it.records)
    editing.raise_unmatched()
    return editing.counts


async def _plan(target: Target) -> tuple[Plan, Begins]:
    manifest, tables, admin, asked = target.manifest, target.tables, target.admin, target.request
    unfinished, begins = target.state.restores.open, await target.begins()
    resumes, replaces, notes = None, "", list[str]()
    if unfinished is not None:
        begun = unfinished.begun
        same = (begun.snapshot, begun.epoch, begun.origin) == (manifest.id, manifest.epoch, target.origin)
        resumes = unfinished if same else None
        if target.in_place and not same and replaced(target.cut, unfinished):
            replaces = unfinished.plan
            notes.append(f"replaces {unfinished}, which was not finished")
    moves, appending = await _moves(target, begins) if target.in_place else ((), [])
    first = [it.records for it in appending] if target.in_place else [*begins.stored.values()]
    target.contents = contents = Contents(
        captured=target.cut,
        carried=carried_by(record for records in first for record in records),
        largest={topic: size for topic, (_, size) in tables.state.items()},
    )
    described = await admin.describe_topics(list(topics_of(manifest)))
    holding = {name: await target.settings(name) for name in ([] if target.fork else sorted(described))}
    defaults = {} if target.in_place else await target.settings()
    if not target.in_place:
        target.new = new_topics(manifest, contents, defaults, target.named)
    made = {it.of: it.settings for it in target.new}
    target.bulk.batch_bytes = batch_bytes([defaults, *holding.values(), *made.values()])
    wanted = [TopicPartition(name, at) for name, count in topics_of(manifest).items() for at in range(count)]
    facts = Facts(
        target=target,
        begins=begins,
        members=await workers_of(admin, apps_of(target.captured)),
        topics=described,
        ends=await admin.log_ends(wanted),
        under_prefix=await _under_prefix(target) if target.fork else [],
        changes={name: contents.changes(name, of, recorded=made.get(name)) for name, of in holding.items()},
        appending=appending,
        resumes=resumes,
        replaces=replaces,
    )
    messages = sum(map(len, tables.in_flight.values()))
    changelogs = {cut.topic for cut in target.cut.changelogs}
    plan = Plan(
        kind=asked.kind,
        plan=f"{random.getrandbits(64):016x}" if resumes is None else resumes.plan,
        request=asked,
        snapshot=manifest.id,
        attempt=manifest.attempt,
        epoch=manifest.epoch,
        verdict=manifest.verdict,
        digest=manifest.content,
        place=target.place,
        namespace=target.namespace,
        apps=apps_of(target.captured),
        taken_ms=manifest.ledger.triggered_ms,
        moves=moves,
        messages=messages,
        state=sum(rows for topic, (rows, _) in tables.state.items() if topic in changelogs),
        topics=tuple(it for it in target.new if it.of not in holding),
        existing=tuple(holding) if target.elsewhere else (),
        stored=0 if target.in_place else sum(map(len, begins.stored.values())) - messages,
        irrevocable=await _irrevocable(target) if target.in_place else (),
        absent=tuple(absent_inputs(manifest, tables, target.takes_external)) if target.elsewhere else (),
        read_again_by=await _other_readers(target, moves),
        open=open_readers(manifest),
        notes=(*notes, *(_not_restored(target) if target.elsewhere else ())),
        refusals=refusals(facts, force=asked.force),
        resumes="" if resumes is None else resumes.plan,
        replaces=replaces,
    )
    return plan, begins


async def _under_prefix(target: Target) -> list[str]:
    """List the topics of a fork that exist, and the groups that have offsets."""
    names = [*await target.admin.describe_topics()]
    groups = [it.name for it in await target.admin.groups() if of_fork(target.fork, it.name)]
    names += [name for name in groups if await target.admin.committed(name)]
    return [name for name in names if of_fork(target.fork, name)]


def _not_restored(target: Target) -> Iterator[str]:
    """Yield what is not compared or restored in another cluster, a sentence each."""
    yield from (f"{it.app}: {it.what}, and no snapshot holds that" for it in target.cut.uncaptured)
    if unseen := ", ".join(app for app in apps_of(target.cut) if app not in target.hellos):
        yield f"the code of {unseen} has not run here: it is not compared with that of the snapshot"


async def _moves(target: Target, begins: Begins) -> tuple[tuple[PartitionMove, ...], list[Channel]]:
    groups = {app: await target.admin.committed(app) for app in apps_of(target.cut)}
    again: Counter[tuple[str, TopicPartition]] = Counter()

    def count(record: KafkaRecord) -> None:
        """Count an event of a partition that goes back: it runs once more in each app that has committed it."""
        for app, committed in groups.items():
            again[app, record.tp] += record.offset < committed.get(record.tp, (-1, ""))[0]

    found = await asyncio.to_thread(lambda: list(target.channels_of(begins, count)))
    appends, moves = {it.tp: it.records for it in found}, list[PartitionMove]()
    for tp, cuts in inputs_of(target.cut).items():
        for cut in cuts:
            before, records = groups[cut.app].get(tp, (-1, ""))[0], appends.get(tp)
            lowest = min([p.offset for p in cut.agents] or [cut.position])
            behind = sum(lowest <= record.offset < before for record in records or ())
            after, runs_again = (lowest, again[cut.app, tp]) if records is None else (None, behind)
            moves.append(PartitionMove(cut.app, *tp, before, after, len(records or ()), runs_again))
    return tuple(moves), found


async def _irrevocable(target: Target) -> tuple[Irrevocable, ...]:
    """List the outputs after the cut, by partition; each range begins where the first sender's white records end."""
    starts: dict[TopicPartition, int] = {}
    restored = {part.topic for part in parts_of(target.cut)}
    for sender in target.cut.senders:
        if sender.topic not in restored:
            tp = TopicPartition(sender.topic, sender.partition)
            starts[tp] = min(sender.white_end, starts.get(tp, sender.white_end))
    ends = await target.admin.log_ends(starts)
    return tuple(
        Irrevocable(topic=tp.topic, partition=tp.partition, start=start, end=ends[tp])
        for tp, start in sorted(starts.items())
        if ends.get(tp, start) > start
    )


async def _other_readers(target: Target, moves: Iterable[PartitionMove]) -> tuple[str, ...]:
    """List the consumer groups that are not restored and read inputs to which messages are appended once more."""
    appended = {it.topic for it in moves if it.appends}
    try:
        groups = await target.admin.groups() if appended else []
    except LedgerUnusableError:
        return ("groups that cannot be seen",)
    names = (it.name for it in groups if it.topics is None or it.topics & appended)
    return tuple(it for it in names if it not in apps_of(target.cut) and not it.startswith(OWN_GROUPS))


async def plan_recovery(
    where: Connection | Cluster, request: Request, *, bulk: KafkaBulk | None = None
) -> Plan:
    _check(request)
    async with opened_target(where, request, bulk=bulk) as target:
        return await planned(target)


async def recover(
    where: Connection | Cluster,
    plan: Plan,
    *,
    who: str = "",
    notify: Callable[[str], None] = lambda text: None,
    crash: Callable[[str], None] = lambda step: None,
    bulk: KafkaBulk | None = None,
) -> Recovered:
    """Run a confirmed plan as it is, or change nothing.

    The consumer groups are held before the plan is computed once more, so nothing in it changes afterwards. Workers of
    production may run while a fork is created, and are not affected. `crash`: for tests, called before each phase.

    Raises:
        RestoreRefusedError, ForkRefusedError, PlanChangedError: nothing was changed.
        BadInputError: a record that production has received since the plan cannot be masked: a fork stays unfinished.
        OvertakenError: another run or a worker has taken over; this one changed nothing more.
        RestoreFailedError, ForkFailedError: it ended half-way; another run continues, but a fork is removed first.
    """
    raise_refused(plan)
    started = time.monotonic()
    async with (
        opened_target(where, plan.request, pinned=plan, bulk=bulk) as target,
        held(target.admin, plan.apps, notify, plan.error) as holds,
    ):
        raise_changed(plan, await planned(target))
        async with opened(where, target.namespace, create=True) as work:
            target.topic_id = cast(KafkaLedger, work.ledger).topic_id
            run = RecoveryRun(
                target=target, work=work, holds=holds, plan=plan, who=who, notify=notify, crash=crash
            )
            try:
                view = await run.run()
            except RestoreFailedError as error:
                if not target.fork:
                    raise
                raise ForkFailedError(error.message) from error  # no run continues it
    return Recovered(
        plan=plan,
        author=view.author,
        **run.appended,
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


@asynccontextmanager
async def held(
    admin: KafkaTopicAdmin,
    groups: Iterable[str],
    notify: Callable[[str], None],
    refused: type[SnapkafkaError],
) -> AsyncIterator[dict[str, GroupHold]]:
    """Hold consumer groups: no worker joins them, no other run sets their offsets, until this ends. A killed run keeps
    them until its sessions end; this waits for that. A group that has members is refused."""
    holds: dict[str, GroupHold] = {}
    try:
        for group in sorted(groups):
            hold = admin.hold(group)
            await _acquire(admin, hold, notify, refused)
            holds[group] = hold
        yield holds
    except BrokerUnavailableError:  # a process that was suspended meets the time-outs of its requests first
        for hold in holds.values():
            hold.require()
        raise
    finally:
        for hold in holds.values():
            await asyncio.shield(hold.release())


async def _acquire(
    admin: KafkaTopicAdmin, hold: GroupHold, notify: Callable[[str], None], refused: type[SnapkafkaError]
) -> None:
    said, code = False, "run-at-work"
    async for _ in Tries(LEFT_BEHIND_S, POLL_S):
        try:
            return await hold.acquire()
        except GroupTakenError:
            members = await admin.group_members(hold.group)
        if any(member.client != HOLDER for member in members):
            code = "group-has-members"
            break
        if not said:
            notify(f"waiting for another run to end: it holds consumer group {hold.group}")
            said = True
    hosts = ", ".join(sorted({it.host.lstrip("/") for it in members}))
    what = f"nothing was changed: consumer group {hold.group} is in use on {hosts} ({code})"
    raise refused(what, hint=HINTS[code], codes=[code])
