"""`restore --check`: a stopped system, compared with a snapshot.

Its next snapshot would not show a wrong restore: such a system is consistent in itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from snapkafka.errors import RestoreRefusedError
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.protocol.restores import Restores
from snapkafka.recovery.checking import ComparedSystem, SystemCheck
from snapkafka.recovery.editing import Editing
from snapkafka.recovery.plan import Request
from snapkafka.recovery.positions import apps_of
from snapkafka.recovery.session import RestoreBulk, opened_session
from snapkafka.recovery.suppression import Suppression
from snapkafka.wire.headers import ledger_id


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRestore:
    """A system compared with a snapshot. `compared`: every table and input. `plan`: the restore on which its apps run,
    and `restored`: its snapshot; empty: none."""

    snapshot: str
    epoch: int
    namespace: str
    apps: tuple[str, ...]
    equal: bool
    plan: str
    restored: str
    compared: ComparedSystem
    seconds: float


async def check_restored(
    where: Connection | Cluster,
    namespace: str,
    name: str,
    *,
    storage: str = "",
    suppress: Suppression | None = None,
    bulk: RestoreBulk | None = None,
) -> CheckedRestore:
    """Compare tables, positions and messages in flight of a system without running workers with a snapshot. Change
    nothing.

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
        check = SystemCheck(
            state=session.state,
            admin=session.admin,
            bulk=session.bulk,
            placed=session.placed,
            tables=session.tables,
            ledger_id=ledger_id(bytes.fromhex(session.topic_id)),
            editing=Editing(session.captured, suppress) if suppress is not None else None,
        )
        if refusals := await check.refusals():
            reasons = "; ".join(f"{item.what} ({item.code})" for item in refusals)
            raise RestoreRefusedError(f"nothing was compared: {reasons}", hint=refusals[0].hint)
        compared = await check.run()
    plan, restored = _latest_plan(session.state.restores, apps_of(session.captured))
    return CheckedRestore(
        snapshot=session.manifest.id,
        epoch=session.manifest.epoch,
        namespace=session.namespace,
        apps=apps_of(session.captured),
        equal=compared.equal,
        plan=plan,
        restored=restored,
        compared=compared,
        seconds=round(time.monotonic() - started, 3),
    )


def _latest_plan(restores: Restores, apps: tuple[str, ...]) -> tuple[str, str]:
    """Find the last committed restore of one of these apps, and its snapshot; both empty: none."""
    plans = [view for view in restores.views.values() if view.committed and view.concerns(apps)]
    return (plans[-1].plan, plans[-1].begun.snapshot) if plans else ("", "")
