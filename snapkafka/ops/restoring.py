"""Around a restore: the wait for the workers to leave, the abort, and the question whether a stopped system has the
state of a snapshot, and its positions. (Its next snapshot would not show a wrong restore: such a system is consistent
in itself.)"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from snapkafka.errors import BadInputError, RestoreRefusedError
from snapkafka.kafka import Connection, KafkaBulk, KafkaRecord
from snapkafka.kafka.cluster.admin import administration
from snapkafka.kafka.ledger.reading import LATEST, opened
from snapkafka.ports import Cluster
from snapkafka.protocol import Restore, RestoreView
from snapkafka.query.locate import manifest_places
from snapkafka.restore.channels import sender_of
from snapkafka.restore.plan import Request
from snapkafka.restore.refusals import with_members
from snapkafka.restore.rules import Suppression
from snapkafka.restore.state import apps_of, changelogs_of, group_offsets, new_positions
from snapkafka.restore.target import Target, opened_target
from snapkafka.restore.topics import workers_of
from snapkafka.store import read_manifest
from snapkafka.until import Tries
from snapkafka.verbs import Result

#: How often the members of groups are counted.
WAIT_POLL_S: Final = 0.5
#: Differences of a table that are named; all are counted.
NAMED_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTable:
    """A table compared with a snapshot: the number of keys (of a table of sets, members) that differ, and the first of
    them."""

    app: str
    table: str
    differing: int = 0
    keys: tuple[str, ...] = ()


class CheckedRestore(Result, frozen=True, kw_only=True):
    """A system compared with a snapshot. `misplaced`: the groups that do not stand where they have to, a sentence each.
    `plan`: the restore on which its apps run, and `restored`: its snapshot; empty: none."""

    snapshot: str
    epoch: int
    namespace: str
    apps: tuple[str, ...]
    equal: bool
    plan: str
    restored: str
    tables: tuple[CheckedTable, ...]
    misplaced: tuple[str, ...]
    seconds: float


async def await_workers(
    where: Connection | Cluster,
    namespace: str,
    name: str = LATEST,
    *,
    wait_s: float,
    storage: str = "",
    notify: Callable[[str], None] = lambda text: None,
) -> None:
    """Wait until the workers that a restore concerns have left their consumer groups, or for `wait_s`."""
    (place,) = await manifest_places(where, namespace, [name], storage=storage, good=True)
    apps = apps_of(read_manifest(place)[1].captured)
    async with administration(where) as admin:
        if not any((await workers_of(admin, apps)).values()):
            return
        notify("waiting for the consumer groups to have no member")
        async for _ in Tries(wait_s, WAIT_POLL_S):  # what is left then is a reason to refuse the plan
            if not any((await workers_of(admin, apps)).values()):
                return


async def abort_restore(where: Connection | Cluster, namespace: str, *, reason: str) -> str:
    """Abort the open restore, as long as it has appended nothing; return its plan.

    Appended records lie above the present positions: a worker that started would take them in, also one without
    snapkafka. So after the first append a restore is finished, or replaced by the restore of another snapshot.

    Raises:
        BadInputError: none is open.
        RestoreRefusedError: it may have appended records.
    """
    async with opened(where, namespace) as work:
        view = work.reading.state.restores.open
        if view is None:
            raise BadInputError("no restore is open", hint="`snapkafka list` lists snapshots")
        record = Restore(n=random.getrandbits(62), plan=view.plan, stage="aborted", reason=reason)
        await work.catch_up(to=await work.ledger.append(record) + 1)
        if work.reading.state.restores.open is not None:  # the ledger decides: it may have continued
            replacing = "has replaced one that " * (not view.appended)
            hint = f"finish it: snapkafka restore {view.begun.snapshot}"
            if (fork := work.reading.state.fork) is not None:
                hint = f"snapkafka fork drop {fork.fork}, and create it again"
            elif view.begun.origin:
                hint += " --into ..."
            else:
                hint += "; or restore another snapshot of all its apps, which takes its place"
            raise RestoreRefusedError(
                f"{view} {replacing}may have appended records, which workers would read", hint=hint
            )
        return view.plan


async def check_restored(
    where: Connection | Cluster,
    namespace: str,
    name: str,
    *,
    storage: str = "",
    suppress: Suppression | None = None,
    bulk: KafkaBulk | None = None,
) -> CheckedRestore:
    """Compare the tables and the groups of a system without running workers with a snapshot. Change nothing.

    Args:
        storage: of its manifest; empty: its place in the ledger.
        suppress: names erased keys, which must be absent.

    Raises:
        RestoreRefusedError: the system runs, or the tables of the snapshot are damaged.
    """
    started = time.monotonic()
    request = Request(namespace=namespace, name=name, storage=storage, suppress=suppress)
    async with opened_target(where, request, bulk=bulk) as target:
        apps, views = apps_of(target.cut), [*target.state.restores.views.values()]
        last = next((view for view in reversed(views) if view.done_at and view.concerns(apps)), None)
        tables, misplaced = await _compared(target), await _misplaced(target, last)
    return CheckedRestore(
        snapshot=target.manifest.id,
        epoch=target.manifest.epoch,
        namespace=target.namespace,
        apps=apps,
        equal=not misplaced and not any(table.differing for table in tables),
        plan="" if last is None else last.plan,
        restored="" if last is None else last.begun.snapshot,
        tables=tables,
        misplaced=misplaced,
        seconds=round(time.monotonic() - started, 3),
    )


async def _compared(target: Target) -> tuple[CheckedTable, ...]:
    """Compare the tables; refuse it where nothing would be compared, or where it would change meanwhile."""
    cuts = changelogs_of(target.cut)
    ends = await target.admin.log_ends(cuts)
    stable = await target.admin.log_ends(ends, stable=True)
    workers = with_members(await workers_of(target.admin, apps_of(target.cut)))
    reasons = [("group-has-members", group) for group in workers]
    reasons += [("files", target.tables.damage)] * bool(target.tables.damage)
    late = [tp for tp in ends if stable[tp] < ends[tp]]
    reasons += [("transaction-open", f"a transaction on {tp} is open") for tp in late[:1]]
    if reasons:
        what = "nothing was compared: " + "; ".join(f"{of} ({code})" for code, of in reasons)
        hint = "stop all workers; a broker aborts a transaction after 60 s"
        raise RestoreRefusedError(what, hint=hint, codes=[code for code, _ in reasons])

    def is_void(record: KafkaRecord) -> bool:
        sender = sender_of(record, target.ledger_id)
        return sender is not None and target.state.is_void(sender, record.tp, record.offset)

    starts, counts = await target.admin.log_starts(cuts), Counter[tuple[str, str]]()
    named = defaultdict[tuple[str, str], list[str]](list)

    def compare() -> None:
        for it in target.lacking(starts, ends, is_void):
            cut = cuts[it.record.tp]
            counts[cut.app, cut.table] += 1
            if counts[cut.app, cut.table] <= NAMED_MAX:
                named[cut.app, cut.table].append(f"{it.unit} of partition {cut.partition} is {it.kind}")

    await asyncio.to_thread(compare)
    return tuple(
        CheckedTable(app=app, table=table, differing=counts[app, table], keys=tuple(named[app, table]))
        for app, table in sorted({(cut.app, cut.table) for cut in cuts.values()})
    )


async def _misplaced(target: Target, last: RestoreView | None) -> tuple[str, ...]:
    """Compare the groups with the last restore, if it was to this snapshot; else with the snapshot itself."""
    restored = last is not None and last.begun.epoch == target.manifest.epoch
    wanted = last.positions() if last is not None and restored else new_positions(target.cut, {}, {})
    found = []
    for app, offsets in sorted(group_offsets(wanted).items()):
        committed = await target.admin.committed(app)
        for tp, offset in sorted(offsets.items()):
            if (at := committed.get(tp, (-1, ""))[0]) != offset:
                there = "nothing" if at < 0 else str(at)
                found.append(f"position of app {app} in {tp} is {there}, expected {offset}")
    return tuple(found)
