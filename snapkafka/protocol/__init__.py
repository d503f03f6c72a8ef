"""The protocol: what must hold for a snapshot to be consistent, and nothing else.

Chandy and Lamport (1985) let a process record its state and send a marker on every outgoing channel; anyone who
receives a marker for the first time does the same; the state of a channel is what came before the marker and after
the receiver's own recording. Here partitions are the channels, colours in record headers stand beside the markers
(Lai and Yang 1987; Dijkstra's white and red actions, EWD 864), and the recorded state is a vector of offsets.

Read in this order: `records` (the content of the ledger, made of `offsets`), `ledger_state` (when a snapshot is
captured) and `ledger_view` (other answers of the ledger), `colours`, `cut`, `closing`, `reassignment`, `identity` (the
work of one process), `hot_path` and `worker` (all of it as one machine: events in, actions out), `captured_snapshot`
(the result).

Pure: the standard library only; no clock, no randomness, no asyncio, no I/O, no logging.
"""

from .ledger_state import LedgerState, Status
from .worker import WorkerProtocol

__all__ = ["LedgerState", "Status", "WorkerProtocol"]
