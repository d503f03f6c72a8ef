"""The protocol: what must hold for a snapshot to be consistent, and nothing else.

Chandy and Lamport (1985) let a process record its state and send a marker on every outgoing channel; anyone who
receives a marker for the first time does the same; the state of a channel is what came before the marker and after
the receiver's own recording. Here partitions are the channels, colours in record headers stand beside the markers
(Lai and Yang 1987; Dijkstra's white and red actions, EWD 864), and the recorded state is a vector of offsets.

Read in this order:

| modules | subject |
|---|---|
| `records`, `operator_records`, `offsets` | the content of the ledger |
| `ledger_state`, from `ledger_snapshots` and `ledger_processes` | when a snapshot is captured |
| `ledger_view`, `ownership`, `restores`, `facts` | other answers of the ledger |
| `colours`, `tearing`, `held`, `sent` | the work of one process, by colour |
| `cut`, `closing`, `reassignment` | its cut, the end of its cut, inputs that move |
| `hot_path`, `membership`, `worker` | all of it as one machine: events in, actions out |
| `gather`, `captured_snapshot` | the result |

Pure: the standard library only; no clock, no randomness, no asyncio, no I/O, no logging.
"""

from .ledger_state import LedgerState, Status
from .worker import WorkerProtocol

__all__ = ["LedgerState", "Status", "WorkerProtocol"]
