"""`states.md`: the state machines of the protocol. The simulator takes these transitions and no others.

`MACHINES` is compared with what is observed in tests/sim/test_states.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .markdown import code, table

#: Where each begins and ends.
OUTSIDE: Final = "[*]"


@dataclass(frozen=True)
class Transition:
    """`at`: what happened, each the class of a ledger record, of an event of the machine, or one of its methods."""

    before: str
    after: str
    at: frozenset[str]
    meaning: str


@dataclass(frozen=True)
class Machine:
    """States by name, with what holds in each."""

    name: str
    title: str
    about: str
    states: dict[str, str]
    transitions: tuple[Transition, ...]


def _to(before: str, after: str, at: str, meaning: str) -> Transition:
    return Transition(before, after, frozenset(at.split()), meaning)


#: Records after which nobody waits for a cut any more: the snapshot has failed, another one's report is the cut, or it
#: is captured without an app out of scope.
DECIDED: Final = "Abort Aligning Assigned Bye Closed CutReport Dead Hello StoppedSeen TailLost TimerExpired"
#: After these the ledger is another one than a process has read.
ANOTHER: Final = "LedgerRecreated LedgerCutShort"

MACHINES: Final = (
    Machine(
        "process",
        "A process",
        "`snapkafka.protocol.worker.WorkerProtocol`, as a worker feeds it.",
        {
            "not joined": "it has no id: what it does has no colour",
            "joined": "white or red for what the ledger holds",
            "closing": "it is red for a snapshot whose `Closed` it has not appended yet",
            "absent": "it works, and the machine is not asked (R15)",
        },
        (
            _to("not joined", "joined", "Hello", "its own `Hello` is read back, and gives it its id (R11)"),
            _to(
                "joined",
                "closing",
                "Trigger RecordMet MarkerMet",
                "it learns of an epoch above its own and cuts (R1, R2, R3)",
            ),
            _to(
                "closing",
                "joined",
                f"{DECIDED} CutTimed EndsSeen MarkerSent event_ended reply_taken send_acked send_failed",
                "`Closed` is appended (R7), or nobody waits for it any more",
            ),
            _to(
                "joined",
                "not joined",
                f"Dead TailLost {ANOTHER}",
                "it was declared dead (R12), or the ledger was recreated or cut short: it joins under another id",
            ),
            _to("closing", "not joined", f"Dead TailLost {ANOTHER}", "likewise, with cuts open"),
            _to(
                "joined",
                "absent",
                "WentAbsent",
                "it works on without the machine: an error of snapkafka, or switched off (R15)",
            ),
            _to("closing", "absent", "WentAbsent", "likewise: its open snapshots fail"),
            _to("not joined", "absent", "WentAbsent", "likewise, before it had an id"),
            _to(
                "absent",
                "joined",
                "CameBack",
                "the machine is asked again; snapshots that were open have failed",
            ),
        ),
    ),
    Machine(
        "cut",
        "An open cut",
        "`snapkafka.protocol.cut.OpenCut`, from the cut to `Closed`; `closing` has the conditions.",
        {
            "white events run": "events of before the cut finish in white (R5), or their sends are not appended",
            "answers awaited": "markers are asked for (R7); report, markers, sends or log ends are not confirmed",
        },
        (
            _to(OUTSIDE, "white events run", "Trigger RecordMet MarkerMet", "the cut, while events run"),
            _to(
                OUTSIDE,
                "answers awaited",
                "Trigger RecordMet MarkerMet",
                "the cut, with nothing under way: the markers leave at once, as in 1985",
            ),
            _to(
                "white events run",
                "answers awaited",
                "event_ended reply_taken send_appended table_iterated table_touched value_held",
                "the last white event ended or was torn (R6), and its sends are appended",
            ),
            _to(
                "white events run",
                OUTSIDE,
                f"{DECIDED} {ANOTHER} event_ended reply_taken table_iterated table_touched value_held",
                "nobody waits for it any more; or the last white event ends and all else was there: `Closed`",
            ),
            _to(
                "answers awaited",
                OUTSIDE,
                f"{DECIDED} {ANOTHER} CutTimed EndsSeen MarkerSent WentAbsent send_acked send_failed",
                "the last answer is there: `Closed`; or nobody waits for it any more",
            ),
        ),
    ),
    Machine(
        "snapshot",
        "A snapshot",
        "`snapkafka.protocol.snapshots.SnapshotView`, folded from the ledger: the same for all who read it (R11).",
        {
            "INITIATED": "its `Trigger` is in the ledger",
            "CAPTURING": "a process has reported its cut",
            "CAPTURED": "every input has a cut that counts, and every process has closed",
            "COMPLETED": "assembled and judged",
            "FAILED": "it cannot be captured any more; the record that shows it names the cause",
        },
        (
            _to(OUTSIDE, "INITIATED", "Trigger", "asked for"),
            _to(
                OUTSIDE,
                "FAILED",
                "Trigger",
                "refused: an app in scope runs without snapkafka, snapshots are paused, a restore is under way, or the"
                " number was used before the ledger lost its tail",
            ),
            _to("INITIATED", "CAPTURING", "Closed CutReport", "the first report"),
            _to("CAPTURING", "CAPTURED", "Closed", "the last part is there"),
            _to("CAPTURED", "COMPLETED", "Verdict", "a verdict was recorded"),
            _to(
                "INITIATED",
                "FAILED",
                "Abort Bye Closed CutReport Dead Hello Pause Restore TailLost",
                "given up; or a process in scope left, died or joined late; or paused, or restored; or the ledger has"
                " lost its tail",
            ),
            _to(
                "CAPTURING",
                "FAILED",
                "Abort Assigned Bye Closed CutReport Dead Hello Pause Restore TailLost",
                "likewise; or an input moved with events uncut (R9)",
            ),
        ),
    ),
    Machine(
        "event",
        "An event in a worker",
        "One record in one agent, as `snapkafka.protocol.colours.Colours.running` has it.",
        {
            "runs": "in the colour of the process",
            "runs in an earlier colour": "a cut was taken since it began: it keeps its colour (R5)",
        },
        (
            _to(OUTSIDE, "runs", "event_started", "an agent takes the record"),
            _to(
                "runs",
                "runs in an earlier colour",
                "Trigger RecordMet MarkerMet Hello",
                "the process cuts meanwhile",
            ),
            _to(
                "runs in an earlier colour",
                "runs",
                "table_touched value_held reply_taken",
                "torn: it takes in something red and goes on in red (R6)",
            ),
            _to(
                "runs",
                OUTSIDE,
                f"event_ended Dead TailLost {ANOTHER}",
                "done; or the process goes on under another id",
            ),
            _to("runs in an earlier colour", OUTSIDE, f"event_ended Dead TailLost {ANOTHER}", "likewise"),
        ),
    ),
)


def page() -> str:
    """Return the page."""
    head = """# State machines

The states of a process, an open cut, a snapshot and an event, and what changes them. A test runs the simulator,
observes every transition, and fails where one is not listed or a listed one is not seen.
[protocol.md](../explanation/protocol.md) has the rules.
"""
    return "\n".join([head, *(_section(machine) for machine in MACHINES)])


def _section(machine: Machine) -> str:
    arrows = "\n".join(_arrow(machine, each) for each in machine.transitions)
    declared = "\n".join(f'    state "{name}" as {_id(name)}' for name in machine.states)
    states = table(("state", "means"), machine.states.items())
    rows = (
        (_shown(each.before), _shown(each.after), each.meaning, ", ".join(code(at) for at in sorted(each.at)))
        for each in machine.transitions
    )
    return (
        f"## {machine.title}\n\n{machine.about}\n\n```mermaid\nstateDiagram-v2\n{declared}\n{arrows}\n```\n\n"
        f"{states}\n{table(('from', 'to', 'when', 'at'), rows)}"
    )


def _arrow(machine: Machine, each: Transition) -> str:
    causes = sorted(each.at)
    shown = causes[0] if len(causes) == 1 else ""
    label = f" : {shown}" if shown else ""
    return f"    {_id(each.before)} --> {_id(each.after)}{label}"


def _id(state: str) -> str:
    return state if state == OUTSIDE else state.replace(" ", "_")


def _shown(state: str) -> str:
    return "" if state == OUTSIDE else state
