"""`restore --check`: a system that stands still, compared with a snapshot.

Its next snapshot proves nothing of this kind: a system that was restored wrongly is consistent in itself.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import cast

from snapkafka.errors import BadInputError
from snapkafka.kafka.bulk import KafkaBulk
from snapkafka.kafka.connection import Connection
from snapkafka.kafka.reading import latest_of_apps, opened
from snapkafka.ops.finding import manifest_places
from snapkafka.ops.querying import Placed
from snapkafka.ports import Cluster
from snapkafka.protocol.restoring import Restores
from snapkafka.recovery.checking import ComparedSystem, SystemCheck
from snapkafka.runtime.extras import require_extra
from snapkafka.store import read_manifest
from snapkafka.wire.headers import ledger_id

from .restore.code import missing_parts, without
from .restore.committing import RestoreBulk
from .restore.editing import Editing, Suppression
from .restore.looking import Groups, load
from .restore.planning import apps_of
from .restore.refusing import raise_refused
from .restore.selecting import ALL, Selection, select, sent_by

__all__ = ["Checked", "check_restored"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A system compared with a snapshot. `compared`: every table and input. `plan`: the restore that its apps run on,
    and `restored`: the snapshot of that one; empty: none."""

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
    drop_missing: bool = False,
    selection: Selection = ALL,
    suppress: Suppression | None = None,
    bulk: RestoreBulk | None = None,
) -> Checked:
    """Compare tables, positions and messages in flight of a system without workers with a snapshot. Changes nothing.

    Args:
        name: id, epoch or `latest`, the last one that is good.
        storage: where its manifest lies; empty: its place in the ledger.
        drop_missing: leave out tables, agents and inputs that the code lacks by now.
        selection: compare this part alone.
        suppress: names erased keys: they are to be absent.
        bulk: for tests; None: by librdkafka.

    Raises:
        RestoreRefusedError: the system does not stand still, or the tables of the snapshot are damaged.
        BadInputError: the snapshot has not what is selected.
        UnknownSnapshotError, StorageError: there is no such snapshot, or it cannot be read.
        DependencyMissingError: the extra `restore` is not installed.
    """
    started = time.monotonic()
    async with _begun(where, namespace, name, storage, bulk, selection) as it:
        state = it.work.reading.state
        if drop_missing:
            hellos = {view.hello.app: view.hello for view in latest_of_apps(state)}
            left = without(it.captured, missing_parts(it.captured, hellos))
            it.placed = it.placed._replace(manifest=replace(it.placed.manifest, captured=left))
        it.editing = Editing(it.captured, suppress) if suppress is not None else None
        raise_refused(await it.refusals())
        compared, manifest = await it.run(), it.placed.manifest
        plan, restored = _latest_plan(state.restores, apps_of(it.captured))
    return Checked(
        snapshot=manifest.id,
        epoch=manifest.epoch,
        namespace=it.work.namespace,
        apps=apps_of(manifest.captured),
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


@asynccontextmanager
async def _begun(
    where: Connection | Cluster,
    namespace: str,
    name: str,
    storage: str,
    bulk: RestoreBulk | None,
    selection: Selection,
) -> AsyncIterator[SystemCheck]:
    if bulk is None:
        require_extra("restore", "a comparison with a snapshot")
        if not isinstance(where, Connection):
            raise BadInputError("a comparison needs a connection to Kafka", hint="give --bootstrap")
        bulk = cast(RestoreBulk, KafkaBulk(where))
    (place,) = await manifest_places(where, namespace, [name], storage=storage, good=True)
    store, manifest = read_manifest(place)
    part = select(manifest.captured, selection)
    tables = await load(Placed(store, manifest), apps_of(part) if selection else ())
    async with opened(where, namespace or manifest.namespace) as work:
        topic_id = getattr(work.ledger, "topic_id", manifest.ledger.topic_id)
        try:
            yield SystemCheck(
                work=work,
                admin=cast(Groups, work.admin),
                bulk=bulk,
                placed=Placed(store, replace(manifest, captured=part)),
                tables=tables,
                ledger_id=ledger_id(bytes.fromhex(topic_id)),
                selection=selection,
                sender=sent_by(selection, manifest.captured, part, work.reading.state),
            )
        finally:
            if (stop := getattr(bulk, "stop", None)) is not None:
                stop.set()
