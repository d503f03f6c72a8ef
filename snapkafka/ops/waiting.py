"""`await_captured`: wait for a snapshot that was triggered before."""

from __future__ import annotations

from collections.abc import Callable

from snapkafka.errors import SnapshotFailedError
from snapkafka.kafka.ledger.reading import find_snapshot, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster

from .following import Progress, follow
from .listing import Summary, summary


async def await_captured(
    where: Connection | Cluster,
    namespace: str,
    name: str,
    *,
    progress: Callable[[Progress], None] | None = None,
) -> Summary:
    """Wait until a snapshot is captured; abort it when its time to live is over (R12).

    Args:
        name: its id, its epoch, or `latest`, the last one triggered.
        progress: called from time to time.

    Raises:
        UnknownSnapshotError: the ledger has no such snapshot.
        SnapshotFailedError: the snapshot failed, now or earlier.
    """
    async with opened(where, namespace) as work:
        view = find_snapshot(work.reading.state, name)
        await follow(work, view, progress)
        if view.failure is not None:
            raise SnapshotFailedError(f"snapshot {view.trigger.id} failed: {view.failure.reason}")
        return summary(work.reading, view)
