"""The steps of a cut and its report, taken from the types of actions and events, so that none is forgotten."""

from typing import Final

from snapkafka.protocol import actions, events, records
from snapkafka.protocol.actions import Action, AppendToLedger
from snapkafka.protocol.events import Event, LedgerRead

#: What the machine asks for, from the moment at which it hears of a snapshot until it has reported.
ASKED: Final = (
    actions.StartTimer,
    actions.TurnedRed,
    actions.SendMarkers,
    (AppendToLedger, records.Report),
)
#: What it is fed meanwhile. The outcome of an action is the other side of that action.
FED: Final = (
    (LedgerRead, records.Trigger),
    events.MarkerSettled,
    events.MarkerMet,
    events.ChannelEnded,
    (LedgerRead, records.Report),
)
#: Neither cut nor closing, and why. `ReadLedgerTo` and `RecordMet` come where a header or marker is faster than the
#: ledger, which one app alone cannot bring about.
ELSEWHERE: Final = {
    actions.AppendHello: "joining again",
    actions.ReadLedgerTo: "before a cut",
    actions.Hold: "of an aligned snapshot",
    actions.LetGo: "of an aligned snapshot",
    actions.AskState: "of a remote process",
    events.StateGiven: "of a remote process",
    events.Joined: "joining",
    events.LedgerRecreated: "joining",
    events.RecordMet: "before a cut",
    events.InputsAssigned: "a rebalance",
    events.InputsRevoked: "a rebalance",
    events.RanWithout: "joining late",
    events.TimerExpired: "aborts",
    events.Absence: "absent",
    events.StopAsked: "leaving",
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
