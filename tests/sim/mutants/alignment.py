"""Rules about aligned snapshots (R16), each switched off: see `rules`."""

from __future__ import annotations

from typing import Any, Final

from snapkafka.protocol import WorkerProtocol, aligner, alignment, cut
from snapkafka.sim import Process

from .broken import patching
from .mutant import Mutant
from .plans import aligned, aligned_slowly


def _takes_it_in(met: Any) -> Any:
    """Take a red record in while the process waits."""

    def lax(self: WorkerProtocol, event: Any) -> Any:
        known = self.colours.epoch < event.epoch <= self.ledger.end
        return [] if self.aligning and known and self.aligner.is_ahead(event.epoch) else met(self, event)

    return lax


#: Caught by the causal checker.
ALIGNED: Final[tuple[Mutant, ...]] = (
    Mutant(
        "R16 hold",
        "a process that aligns takes in red before it cuts",
        patching(WorkerProtocol, "_red_met", _takes_it_in),
        aligned_slowly,
    ),
)

#: Without these a snapshot that nothing keeps from being aligned is not, or is not captured.
ALIGNED_LIVENESS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "R16 ends",
        "a process cuts before it has read up to the barriers",
        patching(cut.Positions, "behind", lambda _: lambda self, ends: None),
        aligned,
    ),
    Mutant(
        "R16 senders",
        "a process cuts before those that send to it have closed",
        patching(aligner.Aligner, "waits_for", lambda _: lambda self, ledger, epoch, process, positions: ""),
        aligned,
    ),
    Mutant(
        "R16 together",
        "a process goes on before all who send to the same topics have closed",
        patching(aligner, "holds_after", lambda _: lambda ledger, snapshot, process: False),
        aligned,
    ),
    Mutant(
        "R16 marker",
        "a marker is taken for the barrier of its partition",
        patching(aligner.Aligner, "is_ahead", lambda _: lambda self, epoch: False),
        aligned,
    ),
    Mutant(
        "R16 let go",
        "what is held back never goes on",
        patching(Process, "let_go", lambda _: lambda self: None),
        aligned,
    ),
)

#: Without this a snapshot is called aligned that has messages in flight.
ALIGNED_VERDICTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "R16 in flight",
        "every snapshot that was to be aligned counts as aligned",
        patching(alignment, "in_flight", lambda _: lambda ledger, snapshot: None),
        aligned_slowly,
    ),
)
