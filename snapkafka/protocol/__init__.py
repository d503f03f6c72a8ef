"""The protocol: what must hold for a snapshot to be consistent, and nothing else.

Chandy and Lamport (1985) let a process record its state and send a marker on every outgoing channel; anyone who
receives a marker for the first time does the same; the state of a channel is what came before the marker and after
the receiver's own recording. Here partitions are the channels, colours in record headers stand beside the markers
(Lai and Yang 1987; Dijkstra's white and red actions, EWD 864), and the recorded state is a vector of offsets.

Read in this order:

| modules | subject |
|---|---|
| `records`, `offsets` | the content of the ledger |
| `ledger_state`, `ledger_fold` | when a snapshot is captured |
| `ledger_view`, `snapshots`, `restores` | other answers of the ledger |
| `colours`, `tearing`, `sent` | the work of one process, by colour |
| `cut`, `closing` | its cut, the end of its cut |
| `hot_path`, `membership`, `worker` | all of it as one machine: events in, actions out |
| `gather`, `captured_snapshot` | the result |

Pure: the standard library only; no clock, no randomness, no asyncio, no I/O, no logging.
"""

from .actions import (
    Action,
    AppendHello,
    AppendToLedger,
    AskState,
    Hold,
    LetGo,
    ReadLedgerTo,
    SendMarkers,
    StartTimer,
    TurnedRed,
)
from .captured_snapshot import (
    WHY_UNREAD,
    BaseCut,
    Captured,
    ChangelogCut,
    InputCut,
    NeverRead,
    OldTopic,
    Outcome,
    Outsider,
    ProcessCut,
    Recorded,
    SenderEnd,
    Uncaptured,
)
from .colours import Effect
from .events import (
    Absence,
    AssignedInput,
    ChannelEnded,
    Event,
    InputsAssigned,
    InputsRevoked,
    Joined,
    LedgerRead,
    LedgerRecreated,
    MarkerMet,
    MarkerSettled,
    RanWithout,
    RecordMet,
    StateGiven,
    StopAsked,
    TimerExpired,
)
from .forking import fork_problem, prefixed
from .hot_path import SendOutcome
from .ledger_state import LedgerState, from_checkpoint, take_checkpoint
from .offsets import (
    NOBODY,
    Agent,
    AgentPosition,
    ChangelogEnd,
    ChannelRange,
    CheckResult,
    InputTopic,
    LogEnd,
    Position,
    Retention,
    Running,
    RunsWithout,
    SentEnd,
    SeqRange,
    StoppedApp,
    Table,
    TopicId,
    TopicPartition,
    TornEvent,
)
from .records import (
    APP_RUNS_WITHOUT,
    INPUT_MOVED,
    INPUT_UNASSIGNED,
    LEDGER_CUT_SHORT,
    NOT_ALIGNED,
    OUT_OF_ORDER,
    REMOTE,
    RESTORE,
    SENT_BARE,
    Abort,
    Assigned,
    Bye,
    Checkpoint,
    Dead,
    Fork,
    Hello,
    LedgerRecord,
    Pause,
    Report,
    Restore,
    Retire,
    TailLost,
    Trigger,
    Verdict,
)
from .restores import RestoreView, Rule
from .snapshots import Failure, SnapshotView, Status, Unread
from .tearing import Cause
from .worker import HEAR_ALL, WorkerProtocol
