"""`abort`: end a running snapshot, whatever it waits for."""

from __future__ import annotations

import random

from snapkafka.errors import TriggerRefusedError, Verb
from snapkafka.kafka.ledger.reading import find_snapshot, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.protocol.records import Abort

from .listing import Summary, summary


async def abort(where: Connection | Cluster, namespace: str, name: str, *, who: str = "") -> Summary:
    """End a running snapshot. One that was aborted already stays so; the first record in the ledger counts.

    Args:
        name: its id, its epoch, or `latest`, the last one triggered.
        who: the caller, for people.

    Raises:
        UnknownSnapshotError: there is no such snapshot.
        TriggerRefusedError: it is captured, or has failed for another reason: there is nothing left to abort.
    """
    async with opened(where, namespace) as work:
        view = find_snapshot(work.reading.state, name)
        if view.open:
            reason = f"aborted by {who}" if who else "aborted on request"
            offset = await work.ledger.append(
                Abort(n=random.getrandbits(63), epoch=view.epoch, code="aborted", reason=reason, culprit=who)
            )
            await work.catch_up(to=offset + 1)
        found = summary(work.reading, view)
        if found.failure_code != "aborted":
            raise TriggerRefusedError(
                f"snapshot {found.id} cannot be aborted: it is {found.status}",
                hint=("only a running one can; ", Verb("show", (found.id,)), " shows its result"),
            )
        return found
