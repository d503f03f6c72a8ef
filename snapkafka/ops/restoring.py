"""Around a restore: the wait for the workers to leave, and the abort."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from snapkafka.errors import BadInputError, RestoreRefusedError
from snapkafka.kafka.ledger.reading import LATEST, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.protocol.records import Restore
from snapkafka.query.locate import manifest_places
from snapkafka.recovery.positions import apps_of
from snapkafka.recovery.session import admin_of
from snapkafka.recovery.stored_rows import workers_of
from snapkafka.store import read_manifest
from snapkafka.until import Tries

#: How often the members of groups are counted.
WAIT_POLL_S: Final = 0.5


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
    async with admin_of(where) as admin:
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
        finish = f"finish it: snapkafka restore {view.begun.snapshot}" + " --into ..." * bool(
            view.begun.origin
        )
        if view.leaves or view.unsure:
            raise RestoreRefusedError(
                f"{view} may have appended records, which workers would read",
                hint=f"{finish}; or restore another snapshot of all its apps, which takes its place",
            )
        record = Restore(n=random.getrandbits(62), plan=view.plan, stage="aborted", reason=reason)
        await work.catch_up(to=await work.ledger.append(record) + 1)
        if work.reading.state.restores.open is not None:
            raise RestoreRefusedError(f"{view} continued meanwhile: it was not aborted", hint=finish)
        return view.plan
