"""The records by which processes join, get their inputs and leave. See `records` for what holds of every record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ._dataclass import value
from .offsets import NOBODY, Agent, InputTopic, Retention, Table, TopicPartition

#: The `mode` of the `Hello` of a restore: it sends, and is neither a participant nor an app that can be stopped.
RESTORE: Final = "restore"
#: The `mode` of the `Hello` of a process that does not speak Kafka: it takes part through the service, which writes
#: down its state when it cuts and at no other time. So where it has left nothing is known of it, and its app is never
#: one that is stopped and stands still (R10).
FOREIGN: Final = "foreign"


@value
class Hello:
    """A process joins. Its id is the ledger offset of this record (R11).

    `was`: the id that it had until it was declared dead (-1: none): it may have sent since, so no snapshot that counts
    it among the processes that left can be proven. -2: it
    had work in flight when its ledger was recreated, and may have read any input of its app before.
    `uncaptured`: the state of the app that no snapshot holds, a sentence each. `mode`: "on", or "stamp" if it takes no
    part in snapshots yet, "restore" for the process that re-appends records in a restore, or "foreign" (`FOREIGN`).
    `retention`: of the changelogs of its tables, as far as it may read their settings. `reset`: where it starts an
    input without a committed offset, "earliest" or "latest" (empty: unknown). `missing`: input topics to which it
    subscribed and that did not exist: it consumes none of them until it is assigned their partitions. `sources`:
    topics whose external records are declared to be no effects of the apps of the namespace. `agents`: with `tables`
    the fingerprint of the code; none: an earlier release wrote this, or it runs none.
    """

    process: int = NOBODY
    n: int
    app: str
    host: str = ""
    pid: int = 0
    member: str = ""
    release: str = ""
    inputs: tuple[InputTopic, ...] = ()
    tables: tuple[Table, ...] = ()
    was: int = NOBODY
    uncaptured: tuple[str, ...] = ()
    mode: str = "on"
    retention: tuple[Retention, ...] = ()
    reset: str = ""
    missing: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    agents: tuple[Agent, ...] = ()

    def topic_ids(self) -> Iterator[tuple[str, str]]:
        """Return the inputs and changelogs whose ids it found, with these."""
        named = [(source.topic, source.topic_id) for source in self.inputs]
        named += [(table.changelog, table.topic_id) for table in self.tables]
        return (item for item in named if item[1])


@value
class Assigned:
    """These inputs, all it has now, were assigned to a process; it reads the ledger up to here before it runs them
    (R9).

    `changelogs`: the table partitions that came with them. `generation`: of the consumer group; a record about an
    older one, of a process that wakes up late, has no effect. `member`: its id there (empty: an earlier release, or it
    is in none), by which its Kafka session is found.
    """

    process: int
    n: int
    generation: int
    inputs: tuple[TopicPartition, ...]
    changelogs: tuple[TopicPartition, ...] = ()
    member: str = ""


@value
class Dead:
    """No snapshot waits for process `dead` any more (R12)."""

    process: int = NOBODY
    n: int
    dead: int


@value
class Bye:
    """A process leaves in order; all its sends are acknowledged.

    `goes_on`: its app runs on in it without taking part, because of a fault of ours (R15): its work from then on is in
    no snapshot. `since`: ledger offset below which it had read everything then; it may have mixed the colours of
    snapshots captured later. `reason`: why it runs on like that, a sentence without its subject (empty: an earlier
    release). A second `Bye` without `goes_on` ends that.
    """

    process: int
    n: int
    goes_on: bool = False
    since: int = 0
    reason: str = ""
