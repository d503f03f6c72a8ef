"""The worlds that are explored, each made to show some of the rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from snapkafka.sim import App

from .lens import A1, BOTH, EVERYTHING, LOOP, NEWS, SEND, WRITE, A, B, SmallWorld, app, plan

SMALL: Final = (
    SmallWorld(
        name="cut",
        what="R2, R3, R5, R8: red records, markers and the ledger race to a receiver",
        plan=plan(app("a", "A", SEND), app("b", "B", WRITE)),
        inputs=(A, A),
        slow=NEWS | {"append"},
        states=38_977,
    ),
    SmallWorld(
        name="disorder",
        what="R3: an agent is handed a record after the next one, before or after the cut, or the capture",
        plan=plan(app("a", "A", WRITE, at_once=2)),
        inputs=(A, A),
        faults={"disorder": 1},
        slow=NEWS | {"post"},
        states=864,
    ),
    SmallWorld(
        name="closing",
        what="R4, R5, R7: everything is slow in one process",
        plan=plan(app("a", "A", (("write", "x"), ("write", "y")))),
        inputs=(A,),
        slow=EVERYTHING,
        states=208,
    ),
    SmallWorld(
        name="torn",
        what="R6: two events of one agent on one table, over a cut",
        plan=plan(
            app("a", "A", (("read", "x"), ("write", "y")), (("read", "y"), ("write", "x")), at_once=2),
            markers="",
        ),
        inputs=(A, A),
        slow=NEWS,
        states=1_168,
    ),
    SmallWorld(
        name="held",
        what="R6: one event looks twice at what another one changes in place and sets later, over a cut",
        plan=plan(
            app(
                "a",
                "A",
                (("hold", "x"), ("look", "x")),
                (("hold", "x"), ("change", "x"), ("write", "x")),
                at_once=2,
            ),
            markers="",
        ),
        inputs=(A, A),
        slow=NEWS,
        states=1_228,
    ),
    SmallWorld(
        name="iterated",
        what="R6: one event goes over a table that another one writes, over a cut",
        plan=plan(
            app("a", "A", (("write", "x"),), (("iterate",), ("next",)), (("write", "x"),), at_once=2),
            markers="",
        ),
        inputs=(A, A, A),
        slow=NEWS,
        states=1_518,
    ),
    SmallWorld(
        name="left",
        what="R8, R10: a sender that left before the trigger, and inputs of an app that does not run",
        plan=plan(app("a", "A", SEND), app("b", "B", WRITE)),
        inputs=(A,),
        faults={"stop a": 1},
        slow=NEWS,
        states=2_715,
    ),
    SmallWorld(
        name="late",
        what="R10, R11: a process stops, and another one of its app joins, before or after the trigger",
        plan=plan(app("a", "A", SEND), app("b", "B", WRITE)),
        inputs=(A,),
        faults={"stop b": 1, "restart": 1},
        slow=frozenset({"b ledger Trigger"}),
        states=7_978,
    ),
    SmallWorld(
        name="moves",
        what="R9, R10: an input moves to another worker while reports are late",
        plan=plan(app("a", "A", WRITE, workers=2)),
        inputs=(A,),
        faults={"rebalance": 1},
        slow=NEWS | {"post Report"},
        states=6_536,
    ),
    SmallWorld(
        name="red-input",
        what="R9, R11: an input that was read in red moves to a worker that hears by headers only",
        plan=plan(app("a", "A", LOOP, workers=2), hear="headers"),
        inputs=(A, A),
        asks=0,
        faults={"rebalance": 1},
        states=17_418,
    ),
    SmallWorld(
        name="expelled",
        what="R9: the group of a worker gives its input to another one, and it runs on with it",
        plan=plan(app("a", "A", WRITE, workers=2, partitions=2)),
        inputs=(A1,),
        faults={"expel": 1},
        states=2_721,
    ),
    SmallWorld(
        name="unassigned",
        what="R9: a worker stops, and no other one of its app has its input yet",
        plan=plan(app("a", "A", SEND, workers=2), app("b", "B", WRITE)),
        inputs=(A,),
        faults={"stop a": 1},
        states=7_054,
    ),
    SmallWorld(
        name="born",
        what="R11: a process that sends by a timer stops, and another one joins, before or after the trigger",
        plan=plan(App("a", (), 1, 1, timer="B"), app("b", "B", WRITE), markers=""),
        inputs=(),
        faults={"stop a": 1, "restart": 1},
        slow=frozenset({"b ledger Trigger"}),
        states=68_019,
    ),
    SmallWorld(
        name="reply",
        what="R2, R6: a question and its answer, over a cut",
        plan=plan(app("a", "A", (("ask", "B"), ("write", "x"))), app("b", "B", WRITE)),
        inputs=(A,),
        slow=NEWS | {"reply"},
        states=563,
    ),
    SmallWorld(
        name="global",
        what="R2, R6: a global table",
        plan=plan(
            app("a", "A", (("gwrite", "u"),)), app("b", "B", (("gread", "u"), ("write", "x"))), table=True
        ),
        inputs=(A, B),
        slow=NEWS | {"global"},
        states=3_311,
    ),
    SmallWorld(
        name="small",
        what="2 processes, 2 inputs, 1 snapshot, 1 crash, 1 rebalance, 1 lost report",
        plan=plan(app("a", "A", WRITE, workers=2)),
        inputs=(A, A),
        faults={"rebalance": 1, "lose-report": 1, "crash": 1},
        states=27_520,
    ),
    SmallWorld(
        name="headers",
        what="R2, R8: headers alone, no markers and nothing from the ledger",
        plan=plan(app("a", "A", SEND), app("b", "B", WRITE), hear="headers", markers=""),
        inputs=(A, A),
        asks=0,
        slow=frozenset({"append"}),
        states=4_170,
    ),
    SmallWorld(
        name="partitions",
        what="R7, R8: two partitions of each topic, and every message goes across",
        plan=plan(app("a", "A", SEND, partitions=2), app("b", "B", WRITE, partitions=2)),
        inputs=(A, A1),
        slow=frozenset({"b ledger Trigger"}),
        states=11_846,
    ),
    SmallWorld(
        name="partitions-move",
        what="R9, R10: two workers with a partition each change places",
        plan=plan(app("a", "A", WRITE, workers=2, partitions=2)),
        inputs=(A, A1),
        faults={"rebalance": 1},
        states=16_699,
    ),
    SmallWorld(
        name="transactions",
        what="R7, exactly-once: a transaction is committed, or aborted as its process dies, before or after the cut",
        plan=plan(app("a", "A", BOTH), app("b", "B", WRITE), markers="", exactly_once=True),
        inputs=(A,),
        faults={"crash a": 1},
        slow=NEWS,
        states=1_713,
    ),
    SmallWorld(
        name="aborted",
        what="R7, R10, exactly-once: a process aborts its transaction before or after the cut, and goes back",
        plan=plan(app("a", "A", WRITE), markers="", exactly_once=True),
        inputs=(A,),
        faults={"abort a": 1},
        slow=NEWS,
        states=163,
    ),
    SmallWorld(
        name="fenced",
        what="R7, R9, exactly-once: who has an input now aborts what a zombie left open, and the zombie sends on",
        plan=plan(app("a", "A", WRITE, workers=2), markers="", exactly_once=True),
        inputs=(A,),
        faults={"fence": 1},
        slow=NEWS,
        states=3_646,
    ),
)


def _more(name: str, *, states: int, **changes: Any) -> SmallWorld:
    """Return a small world with more inputs, more that is slow, or more that goes wrong."""
    world = next(small for small in SMALL if small.name == name)
    return replace(world, name=f"{name}-large", what=f"{world.what}; more of it", states=states, **changes)


_ZOMBIE: Final = plan(
    app("a", "A", WRITE, (("read", "x"), ("send", "B"))), app("b", "B", (("pause",),)), snapshots=2
)
#: Those that take longer to explore (`explore --large`).
LARGE: Final = (
    _more(
        "closing",
        plan=plan(app("a", "A", (("write", "x"), ("buffer", "A")))),
        faults={"fail-send": 1},
        states=13_844,
    ),
    _more("left", inputs=(A, A), states=17_810),
    _more(
        "moves",
        faults={"rebalance": 1, "lose-report": 1},
        slow=NEWS | {"post Report", "commit"},
        states=44_911,
    ),
    _more("small", slow=NEWS, states=67_604),
    _more("late", plan=plan(app("a", "A", SEND), app("b", "B", WRITE, workers=2)), slow=NEWS, states=17_183),
    _more("partitions", slow=NEWS | {"append"}, states=67_742),
    _more("partitions-move", slow=NEWS | {"post Report"}, states=110_958),
    _more("transactions", inputs=(A, A), states=21_155),
    _more(
        "fenced",
        plan=plan(app("a", "A", (("write", "x"), ("write", "y")), workers=2), markers="", exactly_once=True),
        slow=NEWS | {"append"},
        states=25_581,
    ),
    SmallWorld(
        name="went-back",
        what="R10, V5: an input moves, and comes back, and what was sent is sent again by the same process",
        plan=plan(app("a", "A", LOOP, workers=2)),
        inputs=(A,),
        faults={"rebalance": 2},
        states=111_806,
    ),
    SmallWorld(
        name="replay",
        what="R10, V5: a rebalance sets an input back, and what was sent is sent again",
        plan=plan(app("a", "A", LOOP, workers=2)),
        inputs=(A,),
        faults={"rebalance": 1},
        slow=NEWS | {"commit"},
        states=211_336,
    ),
    SmallWorld(
        name="dead",
        what="R12: somebody is taken for dead, and goes on; two snapshots",
        plan=plan(app("a", "A", BOTH), app("b", "B", (("pause",),)), snapshots=2),
        inputs=(A,),
        faults={"expire b": 1},
        slow=NEWS,
        states=127_631,
    ),
    SmallWorld(
        name="zombie",
        what="R12: a process is taken for dead, goes on, and comes back; two snapshots",
        plan=_ZOMBIE,
        inputs=(A, A),
        faults={"expire b": 1},
        slow=frozenset({"a ledger Trigger", "stamp", "post Assigned"}),
        states=184_254,
    ),
    SmallWorld(
        name="late-zombie",
        what="R12, V1: a process is taken for dead, goes on, writes late, and crashes; two snapshots",
        plan=_ZOMBIE,
        inputs=(A, A),
        faults={"expire b": 1, "crash a": 1},
        slow=frozenset({"a ledger Trigger", "stamp"}),
        states=179_138,
    ),
    SmallWorld(
        name="two",
        what="R1, R2, R11: two snapshots at once, one cut may serve both",
        plan=plan(app("a", "A", SEND), app("b", "B", WRITE), snapshots=2),
        inputs=(A,),
        slow=NEWS | {"append"},
        states=152_141,
    ),
)

#: So small that every run can be gone through, without hashing and without leaving an order out.
TINY: Final = (
    SmallWorld(
        name="tiny",
        what="one process, one event, everything at once but the news and the acknowledgements",
        plan=plan(app("a", "A", WRITE)),
        inputs=(A,),
        slow=NEWS | {"ack", "stamp"},
    ),
    SmallWorld(
        name="tiny-crash",
        what="two processes, one event, one crash",
        plan=plan(app("a", "A", WRITE, workers=2)),
        inputs=(A,),
        faults={"crash": 1},
    ),
    SmallWorld(
        name="tiny-move",
        what="two workers, one event, one rebalance, in the middle of it perhaps",
        plan=plan(app("a", "A", WRITE, workers=2)),
        inputs=(A,),
        faults={"rebalance": 1},
    ),
    SmallWorld(
        name="tiny-channel",
        what="a sender and a receiver",
        plan=plan(app("a", "A", SEND), app("b", "B", (("pause",),))),
        inputs=(A,),
        slow=NEWS,
    ),
    SmallWorld(
        name="tiny-transactions",
        what="one process, one transaction, one crash",
        plan=plan(app("a", "A", WRITE), markers="", exactly_once=True),
        inputs=(A,),
        faults={"crash": 1},
        slow=NEWS,
    ),
    SmallWorld(
        name="tiny-fenced",
        what="two workers, one transaction, and one of them fences the other",
        plan=plan(app("a", "A", WRITE, workers=2), markers="", exactly_once=True),
        inputs=(A,),
        faults={"fence": 1},
    ),
    SmallWorld(
        name="tiny-partitions",
        what="one worker with two partitions",
        plan=plan(app("a", "A", WRITE, partitions=2)),
        inputs=(A, A1),
    ),
)


def by_name(name: str) -> SmallWorld | None:
    return next((small for small in (*SMALL, *LARGE, *TINY) if small.name == name), None)
