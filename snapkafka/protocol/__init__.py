"""The protocol: what must hold for a snapshot to be consistent, and nothing else.

Chandy and Lamport (1985) let a process record its state and send a marker on every outgoing channel; anyone who
receives a marker for the first time does the same; the state of a channel is what came before the marker and after
the receiver's own recording. Here partitions are the channels, colours in record headers stand beside the markers
(Lai and Yang 1987; Dijkstra's white and red actions, EWD 864), and the recorded state is a vector of offsets.

Read in this order: `records` (what the ledger holds; made of `fields`), `completion` (when is a snapshot captured) and
`asking` (what else the ledger states), `colours`, `cut`, `closing`, `moves`, `lives` (what one process does), `work`
and `worker` (all of it as one machine: events in, actions out), `captured` (what comes of it).

Pure: the standard library only; no clock, no randomness, no asyncio, no I/O, no logging.
"""

from .ledger_state import LedgerState, Status
from .worker import WorkerProtocol

__all__ = ["LedgerState", "Status", "WorkerProtocol"]
