"""The small worlds that are explored, each made to show some of the rules."""

from __future__ import annotations

from typing import Final

from snapkafka.sim import App

from .large import LARGE
from .lens import A1, LOOP, NEWS, SEND, WRITE, A, B, SmallWorld, app, plan

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
        states=212,
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
        slow=frozenset(),
        states=17_418,
    ),
    SmallWorld(
        name="expelled",
        what="R9: the group of a worker gives its input to another one, and it runs on with it",
        plan=plan(app("a", "A", WRITE, workers=2, partitions=2)),
        inputs=(A1,),
        faults={"expel": 1},
        slow=frozenset(),
        states=2_721,
    ),
    SmallWorld(
        name="unassigned",
        what="R9: a worker stops, and no other one of its app has its input yet",
        plan=plan(app("a", "A", SEND, workers=2), app("b", "B", WRITE)),
        inputs=(A,),
        faults={"stop a": 1},
        slow=frozenset(),
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
        slow=frozenset(),
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
        slow=frozenset(),
        states=16_699,
    ),
    SmallWorld(
        name="transactions",
        what="R7, exactly-once: a transaction is committed, or aborted as its process dies, before or after the cut",
        plan=plan(
            app("a", "A", (("write", "x"), ("send", "B"))),
            app("b", "B", WRITE),
            markers="",
            exactly_once=True,
        ),
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
        slow=frozenset(),
    ),
    SmallWorld(
        name="tiny-move",
        what="two workers, one event, one rebalance, in the middle of it perhaps",
        plan=plan(app("a", "A", WRITE, workers=2)),
        inputs=(A,),
        faults={"rebalance": 1},
        slow=frozenset(),
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
        slow=frozenset(),
    ),
    SmallWorld(
        name="tiny-partitions",
        what="one worker with two partitions",
        plan=plan(app("a", "A", WRITE, partitions=2)),
        inputs=(A, A1),
        slow=frozenset(),
    ),
)


def by_name(name: str) -> SmallWorld | None:
    return next((small for small in (*SMALL, *LARGE, *TINY) if small.name == name), None)
