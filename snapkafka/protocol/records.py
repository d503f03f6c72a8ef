"""The records of the ledger, which is the only means of agreement between processes.

The ledger is a topic with one partition, so its order is *the* order (R11). An epoch is the ledger offset of a
`Trigger` + 1; a process id is the ledger offset of a `Hello`. Every record carries `(process, n)`: `process` is its
author (`NOBODY` for a `Hello`, whose author has no id yet, and for tools, which are not processes), `n` counts per
author (a random number of 63 bits if the author is `NOBODY`). A record that comes twice changes nothing the second
time: a `Hello` and an `Assigned` are known by their `n`, a snapshot by its id and attempt.

Fields added later have defaults, so that two neighbouring releases can share a ledger.
"""

from __future__ import annotations

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
from .operator_records import Fork, Pause, Restore, Retire, Verdict
from .process_records import FOREIGN, RESTORE, Assigned, Bye, Dead, Hello

#: The code of a failure: an input was assigned to a process, or moves, while the snapshot is taken (R9).
INPUT_MOVED: Final = "input-moved"
#: The code of a failure: no process has had an input of an app that runs (R9).
INPUT_UNASSIGNED: Final = "input-unassigned"
#: The code of an `Abort`: white records lie in a partition that nobody has named as an input.
UNKNOWN_PARTITION: Final = "unknown-partition"
#: The code of an `Abort`: an event was started that a cut had noted as started (R3).
OUT_OF_ORDER: Final = "out-of-order"
#: The code of an `Abort`: a record left without our header, because a limit had no room for it (R15).
SENT_BARE: Final = "sent-bare"
#: The code of an `Abort`: an event of another app of the process had an effect across a cut.
MIXED: Final = "mixed"
#: The code of an `Abort`: an app ran without taking part (R10).
APP_RUNS_WITHOUT: Final = "app-runs-without"
#: The code of a failure: an app stopped while the snapshot was being requested, or got inputs: its cut is missing.
APP_STOPPED: Final = "app-stopped"
#: The code of an `Abort`: the snapshot overlaps a restore of one of its apps.
RESTORING: Final = "restoring"
#: The topics with the state of such processes have names that begin so: no other one may.
FOREIGN_STATE: Final = "_snapkafka-state."
#: The code of an `Abort`: a foreign process did not give its state in time.
NOT_GIVEN: Final = "state-not-given"
#: The code of a failure: the ledger has lost records that were acknowledged and read.
LEDGER_CUT_SHORT: Final = "ledger-cut-short"
#: The code of a failure: a snapshot that was to be aligned is not (R16).
NOT_ALIGNED: Final = "not-aligned"
#: Failures by something that passes: who waits for a snapshot, a keeper and a timer try it again.
RETRYABLE: Final = frozenset(
    {
        *(INPUT_MOVED, INPUT_UNASSIGNED, UNKNOWN_PARTITION, APP_STOPPED, NOT_ALIGNED, NOT_GIVEN, SENT_BARE),
        *("process-lost", "ttl", "send-failed", "send-unsettled", "marker-failed", "contaminated"),
    }
)
#: So often, after pauses of so many seconds: the first, and the longest.
RETRIES: Final = 3
PAUSE_S: Final = 1.0
PAUSE_MOST_S: Final = 60.0
#: What these report may have happened before the capture, though it stands behind it in the ledger.
CONTAMINATING: Final = frozenset({OUT_OF_ORDER, SENT_BARE, APP_RUNS_WITHOUT, MIXED})


@value
class Trigger:
    """A request for a snapshot. Its ledger offset + 1 is the epoch (R1).

    `apps`: those in scope, empty = all. `ends`: log ends of the inputs just before, no red record lies below them; an
    input whose end the author may not read is not among them. `marker_topics`: topics whose every consumer group knows
    markers. `ttl_ms`: if it is not captured within that time, any process that notices aborts it. `run_without`: apps
    out of scope, and retired ones, that ran without taking part as far as the author saw their groups. `stopped`: the
    apps in scope that do not run. `asked_at`: how far the author had read the ledger when it asked the broker for all
    this: if a process has left since, the snapshot fails; -1: it did not ask. `align`: each process cuts when nothing
    is in flight to it (R16); `sends`: to which topics each app sends, as earlier reports show. `audit`: workers send
    what their tables hold at the cut, for a comparison with the changelogs.
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
    audit: bool = False


@value
class Report(InParts, rest="sent"):
    """A process turned red for `epoch` (from `previous`) at these positions, and all its white records are in the log
    (R3, R7). A process that no open snapshot requires reports at its cut, without the fields from `unstamped` on.

    `assigned` is the ledger offset of the `Assigned` it was made under (-1: no inputs yet); if that is no longer its
    latest, or it has other inputs, the snapshot fails (R9). `unstamped`: one past the last record that it sent
    somewhere without a header, because a size limit had no room for it (R15). `skipped`: what it passed without reading
    it (R3). The fields from `sent` on are read by whoever gathers a captured snapshot, and where it is to be aligned.
    """

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
    """The ledger has lost the records from offset `since` on: the author had read or written them, up to `upto`.

    The author has no id any more: it joins again behind this record. `void`: the id that it had, where its `Hello` is
    still there (-1: none). It appends this record until the ledger has passed `upto`, for a number below is never used
    again. With a `process`, the record only goes on with that: its author has read nothing that is lost.
    """

    process: int = NOBODY
    n: int
    since: int
    upto: int
    void: int = NOBODY


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
