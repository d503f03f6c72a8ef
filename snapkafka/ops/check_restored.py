"""`restore --check`: the question whether a stopped system has the state of a snapshot, and its positions.

Its next snapshot would not show a wrong restore: such a system is consistent in itself.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from snapkafka.checks import ReadRange
from snapkafka.errors import RestoreRefusedError
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.ports import Cluster
from snapkafka.protocol.records import TopicPartition
from snapkafka.protocol.restores import RestoreView
from snapkafka.recovery.appending import Bulk
from snapkafka.recovery.editing import Editing
from snapkafka.recovery.plan import Request
from snapkafka.recovery.positions import apps_of, changelogs_of, group_offsets, inputs_of
from snapkafka.recovery.refusals import with_members
from snapkafka.recovery.session import RecoverySession, opened_session
from snapkafka.recovery.state import differences
from snapkafka.recovery.stored_rows import rows_of_state, workers_of
from snapkafka.recovery.suppression import Suppression
from snapkafka.wire import headers as wire

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRestore:
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


async def check_restored(
    where: Connection | Cluster,
    namespace: str,
    name: str,
    *,
    storage: str = "",
    suppress: Suppression | None = None,
    bulk: Bulk | None = None,
) -> CheckedRestore:
    """Compare the tables and the groups of a system without running workers with a snapshot. Change nothing.

    Args:
        name: id, epoch or `latest`, the last good one.
        storage: of its manifest; empty: its place in the ledger.
        suppress: names erased keys, which must be absent.
        bulk: for tests; None: by librdkafka.

    Raises:
        RestoreRefusedError: the system runs, or the tables of the snapshot are damaged.
        UnknownSnapshotError, StorageError: there is no such snapshot, or it cannot be read.
        DependencyMissingError: the extra `restore` is not installed.
    """
    started = time.monotonic()
    request = Request(namespace=namespace, name=name, storage=storage, suppress=suppress)
    async with opened_session(
        where, request, lambda manifest: namespace or manifest.namespace, bulk=bulk
    ) as session:
        workers = with_members(await workers_of(session.admin, apps_of(session.captured)))
        reasons = [f"{group} (group-has-members)" for group in workers]
        if damage := session.tables.damage:
            reasons.append(f"{damage} (files)")
        starts, ends, open_transaction = await _bounds(session)
        if open_transaction:
            reasons.append(f"{open_transaction} (transaction-open)")
        if reasons:
            raise RestoreRefusedError(
                f"nothing was compared: {'; '.join(reasons)}",
                hint="stop all workers; a broker aborts a transaction after 60 s",
            )
        editing = Editing(session.captured, suppress)
        tables = await asyncio.to_thread(_tables, session, editing, starts, ends)
        last = _latest_plan(session)
        misplaced = await _misplaced(session, last)
    return CheckedRestore(
        snapshot=session.manifest.id,
        epoch=session.manifest.epoch,
        namespace=session.namespace,
        apps=apps_of(session.captured),
        equal=not misplaced and not any(table.differing for table in tables),
        plan="" if last is None else last.plan,
        restored="" if last is None else last.begun.snapshot,
        tables=tables,
        misplaced=misplaced,
        seconds=round(time.monotonic() - started, 3),
    )


Offsets = Mapping[TopicPartition, int]


async def _bounds(session: RecoverySession) -> tuple[Offsets, Offsets, str]:
    """Read the starts and ends of the changelogs that exist, and name an open transaction; empty: there is none."""
    admin, cuts = session.admin, changelogs_of(session.captured)
    described = await admin.describe_topics({tp.topic for tp in cuts})
    there = [tp for tp in cuts if tp.topic in described and tp.partition < described[tp.topic].partitions]
    if not there:
        return {}, {}, ""
    ends = await admin.log_ends(there)
    stable = await asyncio.to_thread(session.bulk.stable_ends, there)
    late = [tp for tp in there if stable[tp] < ends[tp]]
    return await admin.log_starts(there), stable, f"a transaction on {late[0]} is open" if late else ""


def _tables(
    session: RecoverySession, editing: Editing, starts: Offsets, ends: Offsets
) -> tuple[CheckedTable, ...]:
    cuts = changelogs_of(session.captured)
    ledger_id = wire.ledger_id(bytes.fromhex(session.topic_id)) if session.topic_id else -1

    def read(tp: TopicPartition) -> Iterable[KafkaRecord]:
        start, end = starts.get(tp, 0), ends.get(tp, 0)
        return session.bulk.read([ReadRange(*tp, start, end)]) if start < end else ()

    def is_void(record: KafkaRecord) -> bool:
        header = wire.find(record.headers)
        stamp = None if header is None else wire.read(header, ledger_id, wire.tp_check(*record.tp))
        return stamp is not None and session.state.is_void(stamp.process, record.tp, record.offset)

    counts: Counter[tuple[str, str]] = Counter()
    named: dict[tuple[str, str], list[str]] = {(cut.app, cut.table): [] for cut in cuts.values()}
    for it in differences(editing.edit(rows_of_state(session.placed)), read, cuts, is_void):
        cut = cuts[it.record.tp]
        counts[cut.app, cut.table] += 1
        if counts[cut.app, cut.table] <= NAMED_MAX:
            named[cut.app, cut.table].append(f"{it.unit} of partition {cut.partition} is {it.kind}")
    return tuple(
        CheckedTable(app=app, table=table, differing=counts[app, table], keys=tuple(keys))
        for (app, table), keys in sorted(named.items())
    )


async def _misplaced(session: RecoverySession, last: RestoreView | None) -> tuple[str, ...]:
    """Compare the groups with the last restore, if it was to this snapshot; else with the snapshot itself."""
    if last is not None and last.begun.epoch == session.manifest.epoch:
        expected: Mapping[str, Mapping[TopicPartition, int]] = group_offsets(last.positions())
    else:
        cuts = [cut for of in inputs_of(session.captured).values() for cut in of]
        expected = {
            app: {
                TopicPartition(cut.topic, cut.partition): min(
                    [at.offset for at in cut.agents] or [cut.position]
                )
                for cut in cuts
                if cut.app == app
            }
            for app in apps_of(session.captured)
        }
    found = []
    for app, offsets in sorted(expected.items()):
        committed = await session.admin.committed(app)
        for tp, offset in sorted(offsets.items()):
            if (at := committed.get(tp, (-1, ""))[0]) != offset:
                there = "nothing" if at < 0 else str(at)
                found.append(f"position of app {app} in {tp} is {there}, expected {offset}")
    return tuple(found)


def _latest_plan(session: RecoverySession) -> RestoreView | None:
    """Find the last restore of one of these apps."""
    apps, views = apps_of(session.captured), session.state.restores.views.values()
    return next((view for view in reversed([*views]) if view.done_at and view.concerns(apps)), None)
