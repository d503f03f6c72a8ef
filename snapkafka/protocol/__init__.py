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

from .actions import SendMarkers
from .captured_snapshot import WHY_UNREAD, Captured, InputCut, NeverRead, Outcome, Uncaptured
from .colours import Effect
from .events import ChannelEnded, Event, InputsRevoked, MarkerMet, MarkerSettled, RecordMet
from .hot_path import SendOutcome
from .ledger_state import LedgerState, from_checkpoint
from .offsets import ChangelogEnd, CheckResult, InputTopic, LogEnd, Retention, Table, TopicPartition
from .records import LEDGER_CUT_SHORT, NOT_ALIGNED, REMOTE, RESTORE, Fork, Hello, Report, Restore, Verdict
from .restores import RestoreView
from .snapshots import SnapshotView, Status, Unread
from .tearing import Cause
