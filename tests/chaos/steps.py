"""The steps of a cut and its report, taken from the types of actions and events, so that none is forgotten."""

from typing import Final

from snapkafka import protocol
from snapkafka.protocol import Action, AppendToLedger, Event, LedgerRead

#: What the machine asks for, from the moment at which it hears of a snapshot until it has reported.
ASKED: Final = (
    protocol.StartTimer,
    protocol.TurnedRed,
    protocol.SendMarkers,
    (AppendToLedger, protocol.Report),
)
#: What it is fed meanwhile. The outcome of an action is the other side of that action.
FED: Final = (
    (LedgerRead, protocol.Trigger),
    protocol.MarkerSettled,
    protocol.MarkerMet,
    protocol.ChannelEnded,
    (LedgerRead, protocol.Report),
)
#: Neither cut nor closing, and why. `ReadLedgerTo` and `RecordMet` come where a header or marker is faster than the
#: ledger, which one app alone cannot bring about.
ELSEWHERE: Final = {
    protocol.AppendHello: "joining again",
    protocol.ReadLedgerTo: "before a cut",
    protocol.Hold: "of an aligned snapshot",
    protocol.LetGo: "of an aligned snapshot",
    protocol.AskState: "of a remote process",
    protocol.StateGiven: "of a remote process",
    protocol.Joined: "joining",
    protocol.LedgerRecreated: "joining",
    protocol.RecordMet: "before a cut",
    protocol.InputsAssigned: "a rebalance",
    protocol.InputsRevoked: "a rebalance",
    protocol.RanWithout: "joining late",
    protocol.TimerExpired: "aborts",
    protocol.Absence: "absent",
    protocol.StopAsked: "leaving",
}


def name_of(thing: Action | Event) -> str:
    """The type; of a ledger record with the type of the record."""
    name = type(thing).__name__
    return f"{name} {type(thing.record).__name__}" if isinstance(thing, AppendToLedger | LedgerRead) else name


def _name(kind: type | tuple[type, type]) -> str:
    return " ".join(one.__name__ for one in kind) if isinstance(kind, tuple) else kind.__name__


STEPS: Final = (
    *(f"{moment} {_name(kind)}" for kind in ASKED for moment in ("before", "after")),
    *(f"fed {_name(kind)}" for kind in FED),
)
