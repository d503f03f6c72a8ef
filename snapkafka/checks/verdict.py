"""The verdict: it follows from the outcomes of the checks, and shows whether a snapshot may be relied on."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from snapkafka.manifest import CheckEntry
from snapkafka.protocol.records import LEDGER_CUT_SHORT

from .witness import Status


class Verdict(StrEnum):
    """The result of verification; the first three mean that the snapshot may be relied on."""

    #: Every check that was run passed.
    VERIFIED = "VERIFIED"
    #: Passed; torn or replayed events are listed, a restore runs them again.
    VERIFIED_WITH_REPLAYS = "VERIFIED_WITH_REPLAYS"
    #: Passed; but effects may have come back to inputs without a header (topics with stamped and external records, or
    #: groups without snapkafka that read outputs), so what went that way is unproven;
    #: or an app subscribes to a topic that no process of it had, so what waits there is in no channel.
    VERIFIED_OPEN = "VERIFIED_OPEN"
    #: The log contradicts the snapshot.
    INCONSISTENT = "INCONSISTENT"
    #: The log does not contradict it, and can no longer prove it either.
    UNVERIFIABLE = "UNVERIFIABLE"


#: Those that mean that a snapshot may be relied on; words of a later release are not among them.
GOOD: Final = frozenset({Verdict.VERIFIED, Verdict.VERIFIED_WITH_REPLAYS, Verdict.VERIFIED_OPEN})


def decide(
    outcomes: Iterable[CheckEntry],
    *,
    replays: int = 0,
    open_paths: Iterable[str] = (),
    contaminated: str = "",
    unread: Iterable[object] = (),
) -> Verdict:
    """Derive the verdict. One failed check condemns; one that could not see leaves it open; no check at all proves
    nothing.

    Args:
        outcomes: of the checks that were run.
        replays: the number of torn or replayed events that the snapshot lists; those that V5 finds are added.
        open_paths: groups without snapkafka, and topics, through which outputs may come back to inputs unseen.
        contaminated: why it cannot be proved, whatever the checks find; empty: nothing is known against it. Where the
            ledger was cut short two processes may have had one number: then no check condemns.
        unread: inputs that no process had.
    """
    outcomes = tuple(outcomes)
    statuses = {outcome.status for outcome in outcomes}
    if Status.FAILED in statuses and not contaminated.startswith(LEDGER_CUT_SHORT):
        return Verdict.INCONSISTENT
    if Status.UNVERIFIABLE in statuses or not statuses or contaminated:
        return Verdict.UNVERIFIABLE
    if any(True for _ in (*open_paths, *unread)):
        return Verdict.VERIFIED_OPEN
    replays += sum(outcome.replayed for outcome in outcomes)
    return Verdict.VERIFIED_WITH_REPLAYS if replays else Verdict.VERIFIED
