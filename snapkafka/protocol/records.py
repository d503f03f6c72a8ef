"""The records of the ledger, which is the only means of agreement between processes.

The ledger is a topic with one partition, so its order is *the* order (R11). An epoch is the ledger offset of a
`Trigger` + 1; a process id is the ledger offset of a `Hello`. Every record carries `(process, n)`: `process` is its
author (`NOBODY` for a `Hello`, whose author has no id yet, and for tools, which are not processes), `n` counts per
author (63 random bits if that is `NOBODY`). A record that comes twice changes nothing the second time: a `Hello` and an
`Assigned` are known by their `n`, a snapshot by its id and attempt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ._dataclass import InParts, value
from .offsets import (
    NOBODY,
    Agent,
    AgentPosition,
    AppSends,
    ChangelogEnd,
    ChannelRange,
    CheckResult,
    Heard,
    InputTopic,
    LogEnd,
    Position,
    RestoreStage,
    Retention,
    Running,
    RunsWithout,
    SentEnd,
    SeqRange,
    Skipped,
    StoppedApp,
    Table,
    TopicId,
    TopicPartition,
    TornEvent,
    WhyUnread,
)

#: The `mode` of the `Hello` of a restore: it sends, and is neither a participant nor an app that can be stopped.
RESTORE: Final = "restore"
#: The `mode` of the `Hello` of a process that does not speak Kafka: it takes part through the service, which writes
#: down its state when it cuts and at no other time. So where it has left nothing is known of it, and its app is never
#: one that is stopped and stands still (R10).
REMOTE: Final = "remote"
#: The topics with their state have names that begin so: no other one may.
REMOTE_STATE: Final = "_snapkafka-state."
# The codes of failures: docs/guide/runbook.md explains each.
INPUT_MOVED: Final = "input-moved"
INPUT_UNASSIGNED: Final = "input-unassigned"
UNKNOWN_PARTITION: Final = "unknown-partition"
OUT_OF_ORDER: Final = "out-of-order"
SENT_BARE: Final = "sent-bare"
APP_RUNS_WITHOUT: Final = "app-runs-without"
APP_STOPPED: Final = "app-stopped"
RESTORING: Final = "restoring"
NOT_GIVEN: Final = "state-not-given"
LEDGER_CUT_SHORT: Final = "ledger-cut-short"
TOPIC_RECREATED: Final = "topic-recreated"
NOT_ALIGNED: Final = "not-aligned"
#: Failures by something that passes: who waits for a snapshot, a keeper and a timer try it again.
RETRYABLE: Final = frozenset(
    {
        *(INPUT_MOVED, INPUT_UNASSIGNED, UNKNOWN_PARTITION, APP_STOPPED, NOT_ALIGNED, NOT_GIVEN, SENT_BARE),
        TOPIC_RECREATED,
        *("process-lost", "ttl", "send-failed", "send-unsettled", "marker-failed", "contaminated"),
    }
)
#: So often, after pauses of so many seconds.
RETRIES: Final = 3
PAUSE_S: Final = 1.0
PAUSE_MOST_S: Final = 60.0
#: What these report may have happened before the capture, though it stands behind it in the ledger.
CONTAMINATING: Final = frozenset({OUT_OF_ORDER, SENT_BARE, APP_RUNS_WITHOUT})


@value
class Hello:
    """A process joins. Its id is the ledger offset of this record (R11).

    `was`: the id that it had until it was declared dead (-1: none): it may have sent since, so no snapshot that counts
    it among the processes that left can be proven. -2: it had work in flight when its ledger was recreated, and may
    have read any input of its app before. `uncaptured`: the state of the app that no snapshot holds, a sentence each.
    `mode`: "on", or "stamp" if it takes no part in snapshots yet, "restore" for the process that re-appends records in
    a restore, or "remote" (`REMOTE`). `retention`: of the changelogs of its tables, as far as it may read their
    settings. `reset`: where it starts an input without a committed offset, "earliest" or "latest" (empty: unknown).
    `missing`: input topics to which it subscribed and that did not exist: it consumes none of them until it is assigned
    their partitions. `sources`: topics whose external records are declared to be no effects of the apps of the
    namespace. `agents`: with `tables` the fingerprint of the code; none: it runs none.
    `session_ms`: its group drops it after so long without a heartbeat (0: unknown).
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
    session_ms: int = 0

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
    older one, of a process that wakes up late, has no effect. `member`: its id there (empty: it is in none), by which
    its Kafka session is found.
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
    snapshots captured later. `reason`: why it runs on like that, or has left by itself, a sentence without its subject.
    A second `Bye` without `goes_on` ends that.
    """

    process: int
    n: int
    goes_on: bool = False
    since: int = 0
    reason: str = ""


@value
class Trigger:
    """A request for a snapshot. Its ledger offset + 1 is the epoch (R1).

    `apps`: those in scope, empty = all. `ends`: log ends of the inputs just before, no red record lies below them; an
    input whose end the author may not read is not among them. `marker_topics`: topics whose every consumer group knows
    markers. `ttl_ms`: if it is not captured within that time, any process that notices aborts it. `run_without`: apps
    out of scope, and retired ones, that ran without taking part as far as the author saw their groups. `stopped`: the
    apps in scope that do not run. `asked_at`: how far the author had read the ledger when it asked the broker for all
    this: if a process has left since, the snapshot fails; -1: it did not ask. `align`: each process cuts when nothing
    is in flight to it (R16); `sends`: to which topics each app sends, as earlier reports show.
    """

    process: int = NOBODY
    n: int
    id: str
    attempt: int = 1
    type: str = "full"
    parent: str = ""
    storage: str = ""
    who: str = ""
    ttl_ms: int = 5000
    apps: tuple[str, ...] = ()
    ends: tuple[LogEnd, ...] = ()
    marker_topics: tuple[str, ...] = ()
    run_without: tuple[RunsWithout, ...] = ()
    stopped: tuple[StoppedApp, ...] = ()
    asked_at: int = -1
    align: bool = False
    sends: tuple[AppSends, ...] = ()


@value
class Report(InParts):
    """A process turned red for `epoch` (from `previous`) at these positions, and all its white records are in the log
    (R3, R7). A process that no open snapshot requires reports what it noted at its cut, and no ends.

    `assigned` is the ledger offset of the `Assigned` it was made under (-1: no inputs yet); if that is no longer its
    latest, or it has other inputs, the snapshot fails (R9). `unstamped`: one past the last record that it sent
    somewhere without a header, because a size limit had no room for it (R15). `skipped`: what it passed without reading
    it (R3). `taken`: of which processes it has ever taken in replies, or changes of global tables. The fields from
    `sent` on are read by whoever gathers a captured snapshot, and where it is to be aligned.
    """

    REST = "sent"
    process: int
    n: int
    epoch: int
    previous: int
    heard: Heard
    assigned: int
    positions: tuple[Position, ...]
    running: tuple[Running, ...] = ()
    unstamped: tuple[LogEnd, ...] = ()
    sent: tuple[SentEnd, ...] = ()
    changelogs: tuple[ChangelogEnd, ...] = ()
    recorded: tuple[ChannelRange, ...] = ()
    cut_us: int = 0
    torn: tuple[TornEvent, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    taken: tuple[int, ...] = ()


@value
class Abort:
    """The snapshot of `epoch` failed: a stable code, a sentence, and the culprit (process, agent, partition).

    A captured snapshot stays captured; if the code is one of `CONTAMINATING`, it can no longer be proved.
    """

    process: int = NOBODY
    n: int
    epoch: int
    code: str
    reason: str
    culprit: str = ""


@value
class TailLost:
    """The ledger has lost the records from offset `since` on: the author had read or written them (R11).

    It assigns their offsets once more, so no snapshot in it can be relied on: a later one fails, and none that was
    captured from `since` on is proven.
    """

    process: int = NOBODY
    n: int
    since: int


@value
class Retire:
    """App `app` is retired for good: its inputs are expected no more (R10)."""

    process: int = NOBODY
    n: int
    app: str


@value
class Verdict:
    """The result of verification, with the checks that were really run (R13).

    `manifest`: its location. `digest`: of the rows of its tables, in any order. `manifest_sha256`: of the bytes of the
    manifest, in hex; readers of the tables compare it.
    """

    process: int = NOBODY
    n: int
    epoch: int
    verdict: str
    checks: tuple[CheckResult, ...] = ()
    manifest: str = ""
    digest: str = ""
    manifest_sha256: str = ""


@value
class Pause:
    """No snapshots until further notice (`paused`), or again from here on: an off switch without a restart (R15)."""

    process: int = NOBODY
    n: int
    paused: bool


@value
class Restore:
    """A restore of `apps` to snapshot (`snapshot`, `attempt`) of `epoch` reached `stage`.

    `plan` names the restore; only one is open at a time. `author`: the process that re-appends (its `Hello` has the
    mode "restore"), -1 before it joined. A rerun appends `begun` again with a new author, and only the author of the
    latest `begun` can make the plan `done`: that is the commit point. `appending` comes before the first record is
    appended: from then on the plan cannot be aborted. `done` carries the rest, in `parts` chunks numbered from 0.
    `ends`: of every input and changelog partition of these apps, taken before anything was appended: all records below
    are older than the restore. `positions`: per agent and input. `reason`: why it was aborted. `origin`: the topic id
    of the snapshot's ledger where that is another cluster's (empty: it is this one). `replaces`: the open plan that
    this one takes the place of. `topics`: of the ends of a `done` record, with the ids that they had then.
    """

    process: int = NOBODY
    n: int
    plan: str
    stage: RestoreStage
    snapshot: str = ""
    attempt: int = 1
    epoch: int = 0
    apps: tuple[str, ...] = ()
    author: int = NOBODY
    ends: tuple[LogEnd, ...] = ()
    positions: tuple[AgentPosition, ...] = ()
    part: int = 0
    parts: int = 1
    who: str = ""
    reason: str = ""
    origin: str = ""
    replaces: str = ""
    topics: tuple[TopicId, ...] = ()


@value
class Fork:
    """The fork to which this ledger belongs: the restore `plan` creates it from a snapshot of namespace `source`.

    It comes before the first topic is created. `apps`: of the source. `expires_ms`: from then on it may be removed.
    """

    process: int = NOBODY
    n: int
    plan: str
    fork: str = ""
    source: str = ""
    snapshot: str = ""
    attempt: int = 1
    epoch: int = 0
    apps: tuple[str, ...] = ()
    expires_ms: int = 0
    who: str = ""


@value
class Kept:
    """A record of the ledger that still matters, its offset, and when the broker appended it (ms)."""

    offset: int
    record: LedgerRecord
    at_ms: int = 0


@value
class SnapshotName:
    """An (id, attempt) that is taken: whatever became of its snapshot, a later `Trigger` with it is not an epoch
    (R1)."""

    id: str
    attempt: int


@value
class Checkpoint:
    """The ledger below `upto`, as far as it still matters: a reader that starts here needs nothing older.

    A chunk of `parts`, numbered from 0; the fold is complete with the last one. `names`: those that are taken, also by
    dropped records. `left_at`: where a process has left last.
    """

    process: int = NOBODY
    n: int
    upto: int
    highest_epoch: int
    left_at: int = -1
    part: int = 0
    parts: int = 1
    kept: tuple[Kept, ...] = ()
    names: tuple[SnapshotName, ...] = ()


LedgerRecord = (
    Hello
    | Assigned
    | Trigger
    | Report
    | Abort
    | Dead
    | Bye
    | TailLost
    | Retire
    | Verdict
    | Pause
    | Restore
    | Fork
    | Checkpoint
)
