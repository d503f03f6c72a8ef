"""The steps of cut and closing, taken from the types of actions and events, so that none is forgotten."""

from __future__ import annotations

from typing import Final, get_args

from snapkafka.protocol import Action, AppendToLedger, Event, LedgerRead, actions, events, records

#: What the machine asks for, from the moment at which it hears of a snapshot until it has closed.
ASKED: Final = (
    actions.StartTimer,
    actions.TurnedRed,
    (AppendToLedger, records.CutReport),
    actions.AskEnds,
    actions.SendMarkers,
    (AppendToLedger, records.Closed),
)
#: What it is fed meanwhile. The outcome of an action is the other side of that action.
FED: Final = (
    (LedgerRead, records.Trigger),
    events.CutTimed,
    events.ReportAppended,
    (LedgerRead, records.CutReport),
    events.EndsSeen,
    events.MarkerSent,
    events.MarkerMet,
    events.ChannelEnded,
    (LedgerRead, records.Closed),
)
#: Neither cut nor closing, and why. `ReadLedgerTo` and `RecordMet` come where a header or marker is faster than the
#: ledger, which one app alone cannot bring about.
ELSEWHERE: Final = {
    actions.AppendHello: "joining again",
    actions.ReadLedgerTo: "before a cut",
    actions.AskStopped: "for an app that does not run",
    actions.HoldRecord: "of an aligned snapshot",
    actions.HoldInputs: "of an aligned snapshot",
    actions.LetGo: "of an aligned snapshot",
    events.InputsReleased: "of an aligned snapshot",
    events.Joined: "joining",
    events.LedgerBegins: "joining",
    events.LedgerRecreated: "joining again",
    events.LedgerCutShort: "joining again",
    events.CheckpointGoesOn: "joining",
    events.TriggerAppended: "before a cut, and only where the app triggers itself",
    events.RecordMet: "before a cut",
    events.InputsAdded: "partitions are added",
    events.InputsAssigned: "a rebalance",
    events.InputsRevoked: "a rebalance",
    events.MarkerFailed: "aborts",
    events.StoppedSeen: "for an app that does not run",
    events.RanWithout: "joining late",
    events.TimerExpired: "aborts",
    events.WentAbsent: "absent",
    events.CameBack: "absent",
    events.StopAsked: "leaving",
}


def name_of(thing: Action | Event) -> str:
    """The type; of a ledger record with the type of the record."""
    name = type(thing).__name__
    if isinstance(thing, AppendToLedger | LedgerRead):
        return f"{name} {type(thing.record).__name__}"
    return name


def _name(kind: type | tuple[type, type]) -> str:
    return " ".join(one.__name__ for one in kind) if isinstance(kind, tuple) else kind.__name__


STEPS: Final = (
    *(f"{moment} {_name(kind)}" for kind in ASKED for moment in ("before", "after")),
    *(f"fed {_name(kind)}" for kind in FED),
)

#: Those that a worker meets for certain only where the trigger does not tell when its log ends were asked for: it asks
#: for them itself, and its report has a record of its own.
ASKING_ENDS: Final = frozenset(
    step for step in STEPS if step.endswith(("AskEnds", "EndsSeen", "CutReport", "ReportAppended"))
)


def all_names() -> set[str]:
    """Every type of action and event that there is."""
    return {kind.__name__ for kind in (*get_args(Action), *get_args(Event))}


def known_names() -> set[str]:
    """Every type that is a step, or none for a reason."""
    kinds = [kind[0] if isinstance(kind, tuple) else kind for kind in (*ASKED, *FED)]
    return {kind.__name__ for kind in (*kinds, *ELSEWHERE)}
