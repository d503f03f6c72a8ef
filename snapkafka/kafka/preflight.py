"""The composition of a `Trigger`, with the pre-flight checks of its author (R1).

Everything here may be outdated by the time the trigger is read, without harm: it only spares work (`ends`), keeps
markers away from readers that do not know them (`marker_topics`), and refuses snapshots that cannot succeed.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from snapkafka import verbs
from snapkafka.checks.stopped_app import stopped_app
from snapkafka.config import TTL_MS_RANGE
from snapkafka.errors import BadInputError, SnapkafkaError, TriggerRefusedError
from snapkafka.logs import about
from snapkafka.ports import Group, TopicAdmin
from snapkafka.protocol.alignment import Graph, known_graph
from snapkafka.protocol.ledger_fold import being_restored
from snapkafka.protocol.ledger_state import LedgerState, ProcessView
from snapkafka.protocol.records import (
    INPUT_UNASSIGNED,
    LEDGER_CUT_SHORT,
    RESTORING,
    LogEnd,
    RunsWithout,
    StoppedApp,
    TopicPartition,
    Trigger,
)
from snapkafka.protocol.snapshots import Input, unlike_counts
from snapkafka.store import lies_in, written_down
from snapkafka.units import utc_time

from .ledger.reading import LATEST, captured, find_snapshot, good

logger = logging.getLogger("snapkafka")

T = TypeVar("T")

#: Snapshots that run at once. Each process holds one open cut for each; more than this is somebody's loop gone wrong.
RUNNING_MAX: Final = 16
#: For so long an app that seems to run without snapkafka may turn out to be starting, and an input has no reader.
READERS_S: Final = 3.0
READERS_POLL_S: Final = 0.1
#: A big cluster may have thousands of groups. Those that cannot be described in this time count as unauthorized.
LOOK_S: Final = 3.0
#: Groups that hold the positions of a snapshot for other tools to show; nobody reads with them.
OWN_GROUPS: Final = "snapkafka."
ID_CHARS_MAX: Final = 200
TYPES: Final = ("full", "incremental")
#: Words that mean something else where a snapshot is named, in any case of letters: the last one, and the schemas of a
#: query that are its own or DuckDB's.
RESERVED_IDS: Final = frozenset({LATEST, "main", "temp", "system", "information_schema", "pg_catalog"})


async def compose_trigger(
    admin: TopicAdmin,
    state: LedgerState,
    *,
    attempt: int = 1,
    markers: bool = True,
    catch_up: Callable[[], Awaitable[None]] | None = None,
    times_ms: Mapping[int, int] = {},
    **options: Any,
) -> Trigger:
    """Compose a trigger that is ready to be appended.

    Args:
        admin: the cluster; the trigger lacks facts whose access is unauthorized.
        times_ms: of the ledger's records, for messages.
        options: the fields of `verbs.Trigger`.

    It waits a little where an app seems to run without snapkafka (it may be starting) or an input has no reader.

    Raises:
        BadInputError, UnknownSnapshotError, StorageError: an argument is invalid, the parent or the storage.
        TriggerRefusedError: the snapshot could not succeed.
    """
    asked = verbs.Trigger(**options)
    check_trigger(state, asked)
    storage, apps = written_down(asked.storage), asked.apps
    parent = _parent(state, asked.type, asked.parent, storage)
    snapshot_id = asked.snapshot_id or made_id()
    fields = about(snapshot=snapshot_id)
    until = time.monotonic() + READERS_S
    while True:
        try:
            _require_readers(state, apps, times_ms)
            asked_at = state.end  # before the broker is asked: who leaves since may still have sent
            wanted = sorted({tp for _, tp in state.inputs_of(state.standing(apps))})
            unknown = "the ends of the inputs are unknown: more will be read"
            unseen = "consumer groups cannot be seen: no markers will be sent"
            running = {view.hello.app for view in state.participants()}
            all_run = running == {view.hello.app for view in state.processes.values()}
            # Without markers, and where all apps run, no group makes a difference.
            of_groups = asyncio.sleep(0) if all_run and not markers and not apps else admin.groups()
            found, groups = await asyncio.gather(
                _seen(admin.log_ends(wanted), unknown, fields), _seen(of_groups, unseen, fields)
            )
            known = sorted((found or {}).items())
            ends = tuple(LogEnd(topic=tp.topic, partition=tp.partition, end=at) for tp, at in known)
            stopped = await _stopped(admin, state, apps, found or {}, groups or (), times_ms)
            break
        except TriggerRefusedError:
            if catch_up is None or time.monotonic() > until:
                raise
        await asyncio.sleep(READERS_POLL_S)
        await catch_up()
    marked = _marker_topics(groups, state, asked.knowing, fields) if markers and groups is not None else ()
    return Trigger(
        n=random.getrandbits(63),
        id=snapshot_id,
        attempt=attempt,
        type=asked.type,
        parent=parent,
        storage=storage,
        who=asked.who,
        ttl_ms=asked.ttl_ms,
        apps=tuple(sorted(apps)),
        ends=ends,
        marker_topics=marked,
        run_without=tuple(_run_without(groups or (), state, apps)),
        stopped=stopped,
        asked_at=asked_at,
        align=asked.align,
        sends=graph_of_apps(state, apps).stated() if asked.align else (),
    )


def made_id() -> str:
    """Generate an id for a snapshot: its time, for people, and eight digits against two in one second."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{random.getrandbits(32):08x}"


#: What no id is: every command takes an id, an epoch or `latest` in the same place.
_NO_ID: Final[tuple[tuple[Callable[[Any], object], str], ...]] = (
    (lambda it: not isinstance(it, str), "is not text"),
    (lambda it: len(it) > ID_CHARS_MAX, f"has more than {ID_CHARS_MAX} characters"),
    (lambda it: not it.isprintable(), "has characters that cannot be printed"),
    (lambda it: it != it.strip(), "begins or ends with a space"),
    (lambda it: it.startswith("-"), "begins with a dash: commands take it for an option"),
    (str.isnumeric, "is a number: commands take it for an epoch"),
    (lambda it: it.casefold() in RESERVED_IDS, "is reserved: commands take it for something else"),
)


def require_id(snapshot_id: str) -> None:
    """Refuse an id that no snapshot can have; empty: one is generated."""
    for holds, what in _NO_ID:
        if holds(snapshot_id):
            raise BadInputError(
                f"snapshot id {snapshot_id!r:.42} {what}",
                hint="choose another id, such as nightly-2026-05-01, or omit it",
            )


# -- pre-flight ----------------------------------------------------------------------------------------------


def check_trigger(state: LedgerState, asked: verbs.Trigger) -> None:
    """Refuse a trigger that cannot succeed."""
    require_id(asked.snapshot_id)
    if asked.type not in TYPES:
        raise BadInputError(f"type {asked.type!r} is unknown", hint=f"it can be {' or '.join(TYPES)}")
    low, high = TTL_MS_RANGE
    if not low <= asked.ttl_ms <= high:
        raise BadInputError(f"must be {low} to {high:,} ms, got {asked.ttl_ms:,} ms", field="ttl")
    for reason, problem, hint, concerned in _refusals(state, asked):
        facts: dict[str, Any] = {"apps": concerned} if concerned else {}
        raise TriggerRefusedError(problem, hint=hint, reason=reason, **facts)


def _refusals(state: LedgerState, asked: verbs.Trigger) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield why no such snapshot can succeed, what counts most first: code, problem, hint, and the apps that are to
    blame."""
    apps = asked.apps

    def in_scope(views: Iterable[ProcessView]) -> list[ProcessView]:
        return [view for view in views if not apps or view.hello.app in apps]

    if state.loss:
        yield LEDGER_CUT_SHORT, state.loss, "docs/reference/ledger.md has what becomes of its snapshots", []
    if state.paused:
        yield "paused", "snapshots are paused in this namespace", "`snapkafka resume` ends the pause", []
    if (restore := state.restores.open) is not None and restore.concerns(apps):
        hint = "wait until it is done; if it has died, run it again"
        yield RESTORING, being_restored(restore).reason, hint, [*restore.apps]
    known = {view.hello.app for view in state.processes.values()}
    if unknown := sorted(set(apps) - known):
        hint = f"known apps: {', '.join(sorted(known))}" if known else "start it with snapkafka.install first"
        yield "unknown-app", f"no app {', '.join(unknown)} has joined this namespace", hint, unknown
    living = in_scope(state.participants())
    if not living:
        if without := [view for view in in_scope(state.processes.values()) if state.goes_on_without(view)]:
            why = "; ".join(view.withdrawal for view in without)
            hint = "restart the worker, and report the error in its log"
            yield "withdrawn", f"no process takes part: {why}", hint, []
        whose = " or ".join(sorted(apps)) if apps else "any app"
        hint = "start the services; each joins when it calls snapkafka.install"
        yield "nobody-runs", f"no process of {whose} is running", hint, []
    if not any(view.hello.inputs or view.inputs for view in living):
        if unread := state.unread(apps):
            hint = "create topics before the workers start: Faust notices a new one only after minutes"
            yield "missing-topic", f"no snapshot is possible: {'; '.join(map(str, unread))}", hint, []
        names = ", ".join(sorted({view.hello.app for view in living}))
        problem = f"{names} reads no topic: there is nothing to snapshot"
        yield "no-inputs", problem, "give the app an agent", []
    if stamping := sorted({view.hello.app for view in living if view.hello.mode == "stamp"}):
        problem = f"{', '.join(stamping)} puts headers on what it sends and refuses snapshots (mode stamp)"
        hint = 'start all its workers with mode="on" once all are upgraded, or leave the app out of --apps'
        yield "stamping", problem, hint, stamping
    if len(state.open) >= RUNNING_MAX:
        hint = "wait for them, or see `snapkafka list`"
        yield "too-many", f"{len(state.open)} snapshots are running already", hint, []
    latest = {view.hello.app: view.hello for view in living}
    if unlike := [said for it in latest.values() for said, *_ in unlike_counts(it)]:
        hint = "make the counts equal and restart the app (Faust fails at a write), or leave it out of --apps"
        yield "partition-counts", "; ".join(unlike), hint, []
    if asked.align and (cycle := graph_of_apps(state, apps).cycle()):
        problem = f"these apps cannot be aligned, they send to each other in a cycle: {cycle}"
        yield "cycle", problem, "leave out --align: any other snapshot works on a cycle", []


def graph_of_apps(state: LedgerState, apps: Collection[str]) -> Graph:
    """Return which of these apps send to which, as far as earlier snapshots show it."""
    return known_graph(state, state.topics_of(state.standing(apps)))


def _require_readers(state: LedgerState, apps: Collection[str], times_ms: Mapping[int, int]) -> None:
    """Refuse a snapshot while an input of a running app has no reader (R9)."""
    for app, tp in state.unassigned(apps):
        raise TriggerRefusedError(
            f"no process of app {app} has its input {tp}: {why_unread(state, (app, tp), times_ms)}",
            hint="try again once it is over; the inputs of a static member that has left wait for its session to end",
            reason=INPUT_UNASSIGNED,
            app=app,
        )


def why_unread(state: LedgerState, item: Input, times_ms: Mapping[int, int]) -> str:
    """Describe why an input of an app has no reader: processes wait for theirs, since the time of a record; or its last
    one has died."""
    waiting = [it for it in state.participants() if it.hello.app == item[0] and not state.inputs_read_by(it)]
    since = {it.name: times_ms.get(max(it.process, it.assigned)) for it in waiting}
    who = [f"{name}, since {utc_time(at)}Z," if at else name for name, at in since.items()]
    waits = "waits" if len(who) == 1 else "wait"
    last = state.processes.get(state.owner(item))
    if not who and last is not None and last.dead and not last.goes_on:
        return why_counted(last, times_ms)
    return f"{' and '.join(who)} {waits} for inputs" if who else "its consumer group is in a rebalance"


def _parent(state: LedgerState, type_: str, parent: str, storage: str) -> str:
    """Return the parent of the snapshot. It may still be assembled later, but it has to be captured."""
    if type_ == "full":
        if parent:
            raise BadInputError("a full snapshot has no parent", hint="add --type incremental")
        return ""
    if not parent:
        verified = [view for _, view in sorted(state.snapshots.items()) if good(view)]
        if not verified:
            raise TriggerRefusedError(
                "there is no verified snapshot to build on",
                hint="take a full one and assemble it first",
                reason="no-parent",
            )
        here = [view for view in verified if view.verdict and lies_in(storage, view.verdict.manifest)]
        return (here or verified)[-1].trigger.id
    found = find_snapshot(state, parent, usable=captured)
    if found.captured_at is None:
        raise TriggerRefusedError(
            f"snapshot {parent} is not captured and cannot be a parent",
            hint=f"`snapkafka show {parent}` shows the reason",
            reason="no-parent",
        )
    return found.trigger.id


# -- what is authorized --------------------------------------------------------------------------------------


async def _seen(work: Awaitable[T], without: str, fields: dict[str, Any]) -> T | None:
    """Return what the cluster answers in time; None: nothing, or it is unauthorized."""
    try:
        async with asyncio.timeout(LOOK_S):
            return await work
    except (SnapkafkaError, TimeoutError) as error:
        logger.info("%s (%s)", without, error, extra=fields)
        return None


async def _stopped(
    admin: TopicAdmin,
    state: LedgerState,
    apps: Collection[str],
    ends: Mapping[TopicPartition, int],
    groups: Iterable[Group],
    times_ms: Mapping[int, int],
) -> tuple[StoppedApp, ...]:
    """Return where the apps in scope stand that do not run. One whose worker has withdrawn, and runs on, is left to the
    ledger, which fails the snapshot by the reason of that."""
    still = [view for view in state.stopped(apps) if not state.goes_on_without(view)]
    names = {view.hello.app for view in still}
    for group in (it for it in groups if it.name in names and it.members):
        if len(dead := still_counted(state, group)) == len(group.members):
            hint = "snapshots of its app fail until then: start it again, or try again in a minute"
            raise TriggerRefusedError(why_counted(dead[0], times_ms), hint=hint, reason="process-lost")
    return tuple(await asyncio.gather(*(stopped_app(admin, state, view, ends) for view in still)))


def _run_without(groups: Iterable[Group], state: LedgerState, apps: Collection[str]) -> Iterator[RunsWithout]:
    """List the apps out of scope that joined once, and have members that take no part; R10 covers those in scope."""
    in_scope = {view.hello.app for view in state.standing(apps)}
    joined = {view.hello.app for view in state.processes.values()} - in_scope
    for group in sorted((group for group in groups if group.name in joined), key=lambda group: group.name):
        taking_part = sum(view.hello.app == group.name for view in state.participants())
        if len(group.members) > taking_part:
            yield RunsWithout(app=group.name, topics=tuple(sorted(group.topics or ())))


def _marker_topics(
    groups: Iterable[Group], state: LedgerState, knowing: Collection[str], fields: dict[str, Any]
) -> tuple[str, ...]:
    """Return the inputs whose every reader knows markers, without changelogs."""
    readers = [group for group in groups if not group.name.startswith(OWN_GROUPS)]
    external = [it for it in readers if it.name not in knowing and not knows_markers(state, it)]
    if blind := [group.name for group in external if group.topics is None]:
        logger.info("what %s reads is unknown: no markers will be sent", ", ".join(blind), extra=fields)
        return ()
    read_there = {topic for group in external for topic in group.topics or ()}
    return tuple(sorted(state.input_topics() - state.changelogs() - read_there))


def still_counted(state: LedgerState, group: Group) -> list[ProcessView]:
    """List the dead processes that their group still counts; one that has said that it runs on is not dead."""
    members = {it.member for it in group.members}
    return [it for it in state.processes.values() if it.member in members and it.dead and not it.goes_on]


def why_counted(dead: ProcessView, times_ms: Mapping[int, int]) -> str:
    """Describe a dead process that its group still counts: since when it is dead, and until when it may count."""
    at, session_ms = times_ms.get(dead.left or 0), dead.hello.session_ms
    drops = f"by {utc_time(at + session_ms)}Z" if at and session_ms else "once its session is over"
    return f"{dead.name} was declared dead{f' at {utc_time(at)}Z' if at else ''}; Kafka drops it {drops}"


def knows_markers(state: LedgerState, group: Group) -> bool:
    """Return whether the app of this group has joined with every one of its members. In a roll-out some have and some
    have not."""
    joined = [view for view in state.processes.values() if view.hello.app == group.name]
    return bool(joined) and len(group.members) <= sum(view.left is None for view in joined)
