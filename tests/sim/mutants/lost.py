"""Rules about a ledger that has lost its tail, each switched off: see `rules`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from snapkafka.protocol import Action, LedgerCutShort, LedgerState, WorkerProtocol
from snapkafka.protocol.lost_tail import LostTails
from snapkafka.sim import Process

from .broken import patching
from .mutant import Mutant
from .plans import losing, losing_often, unnoticed


def _never_notices(choices: Callable[[Process], Iterator[Any]]) -> Callable[[Process], Iterator[Any]]:
    return lambda self: (choice for choice in choices(self) if choice[0] != "notice")


def _forgets(cut_short: Callable[..., list[Action]]) -> Callable[..., list[Action]]:
    def names_the_last_one(self: WorkerProtocol, event: LedgerCutShort) -> list[Action]:
        self._losses.clear()
        with patching(LostTails, "named_from", lambda _: lambda self, offset: [])():
            return cut_short(self, event)

    return names_the_last_one


#: Caught by the causal checker.
LOST: Final[tuple[Mutant, ...]] = (
    Mutant(
        "R11 numbers",
        "numbers of a tail that is lost are used again",
        patching(LostTails, "hides", lambda _: lambda self, number: False),
        losing,
    ),
    Mutant(
        "R11 again",
        "a loss whose record is lost in turn is not stated again",
        patching(WorkerProtocol, "_ledger_cut_short", _forgets),
        losing_often,
    ),
)

#: Without these no snapshot is captured any more.
LOST_LIVENESS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "R11 noticed",
        "nobody notices that the ledger has lost its tail",
        patching(Process, "choices", _never_notices),
        losing,
    ),
)

#: Without this a sound snapshot is accused.
LOST_VERDICTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "R11 hidden",
        "of two processes with one number the second counts as the first",
        patching(LedgerState, "_hide", lambda _: lambda self, offset: None),
        unnoticed,
    ),
)
