"""The statement of a foreign process about itself when it joins (R11), and of its inputs (R9)."""

from __future__ import annotations

import random
import socket

from snapkafka.errors import TriggerRefusedError
from snapkafka.protocol.events import AssignedInput, InputsAssigned
from snapkafka.protocol.ledger_view import LedgerView
from snapkafka.protocol.records import (
    FOREIGN,
    RESTORE,
    ChangelogEnd,
    Hello,
    Retention,
    Table,
)

from .assignment import READER, Starts
from .settings import TABLE


def hello_of(
    node: str,
    starts: Starts,
    *,
    hostname: str,
    codec: str,
    changelog: str,
    topic_id: str,
    retention: Retention,
) -> Hello:
    """Compose the `Hello` of a process.

    Args:
        codec: of its state.
        changelog, topic_id, retention: of the topic with its state.
    """
    table = Table(
        name=TABLE,
        changelog=changelog,
        partitions=1,
        key_codec="json",
        value_codec=codec,
        topic_id=topic_id,
    )
    return Hello(
        n=random.getrandbits(63),
        app=node,
        host=hostname or socket.gethostname(),
        mode=FOREIGN,
        inputs=starts.topics,
        tables=(table,),
        retention=(retention,),
        reset="earliest" if starts.topics else "",
    )


def assigned_at(process: int, starts: Starts, changelog: str, end: int) -> InputsAssigned:
    """Return the assignment of its inputs. Of two processes of one name the later has the higher id, so that is the
    generation: what the earlier one announces before it reads of the later moves nothing.

    Args:
        end: of its changelog.
    """
    return InputsAssigned(
        generation=process,
        inputs=tuple(
            AssignedInput(tp=tp, agents=(READER,), position=at) for tp, at in starts.positions.items()
        ),
        changelogs=(ChangelogEnd(table=TABLE, topic=changelog, partition=0, end=end),),
    )


def require_alone(node: str, ledger: LedgerView) -> None:
    """Refuse a name under which an app speaks Kafka.

    Raises:
        TriggerRefusedError: it runs, or snapshots still hold it.
    """
    for view in ledger.processes.values():
        if view.hello.app != node or view.hello.mode in (FOREIGN, RESTORE):
            continue
        if view.left is None:
            raise TriggerRefusedError(f"an app {node} runs that speaks Kafka", hint="join by another node_id")
        if ledger.unretired(view):
            raise TriggerRefusedError(
                f"an app {node} that speaks Kafka is stopped, and snapshots still hold it",
                hint=f"join by another node_id, or retire it: snapkafka retire {node}",
            )
