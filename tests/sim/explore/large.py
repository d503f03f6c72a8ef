"""Worlds that take longer to explore: with more inputs, more slow steps and more faults (`explore --large`)."""

from __future__ import annotations

from typing import Final

from .lens import A1, LOOP, NEWS, SEND, WRITE, A, SmallWorld, app, plan

#: The same with more inputs, more that is slow, more that goes wrong.
LARGE: Final = (
    SmallWorld(
        name="closing-large",
        what="R4, R5, R7: everything is slow in one process, and a send may fail",
        plan=plan(app("a", "A", (("write", "x"), ("buffer", "A")))),
        inputs=(A,),
        faults={"fail-send": 1},
        states=7_882,
    ),
    SmallWorld(
        name="left-large",
        what="R8, R10: a sender that left before the trigger, and inputs of an app that does not run",
        plan=plan(app("a", "A", SEND), app("b", "B", WRITE)),
        inputs=(A, A),
        faults={"stop a": 1},
        slow=NEWS,
        states=3_869,
    ),
    SmallWorld(
        name="moves-large",
        what="R4, R9, R10: an input moves to another worker while reports are late or lost, positions committed late",
        plan=plan(app("a", "A", WRITE, workers=2)),
        inputs=(A,),
        faults={"rebalance": 1, "lose-report": 1},
        slow=NEWS | {"post Report", "commit"},
        states=11_899,
    ),
    SmallWorld(
        name="went-back",
        what="R10, V5: an input moves, and comes back, and what was sent is sent again by the same process",
        plan=plan(app("a", "A", LOOP, workers=2)),
        inputs=(A,),
        faults={"rebalance": 2},
        slow=frozenset(),
        states=24_425,
    ),
    SmallWorld(
        name="replay",
        what="R10, V5: a rebalance sets an input back, and what was sent is sent again",
        plan=plan(app("a", "A", LOOP, workers=2)),
        inputs=(A,),
        faults={"rebalance": 1},
        slow=NEWS | {"commit"},
        states=47_269,
    ),
    SmallWorld(
        name="dead",
        what="R12: somebody is taken for dead, and goes on; two snapshots",
        plan=plan(app("a", "A", (("write", "x"), ("send", "B"))), app("b", "B", (("pause",),)), snapshots=2),
        inputs=(A,),
        faults={"expire b": 1},
        slow=NEWS,
        states=58_907,
    ),
    SmallWorld(
        name="zombie",
        what="R12: a process is taken for dead, goes on, and comes back; two snapshots",
        plan=plan(
            app("a", "A", WRITE, (("read", "x"), ("send", "B"))), app("b", "B", (("pause",),)), snapshots=2
        ),
        inputs=(A, A),
        faults={"expire b": 1},
        slow=frozenset({"a ledger Trigger", "stamp", "post Assigned"}),
        states=69_910,
    ),
    SmallWorld(
        name="late-zombie",
        what="R12, V1: a process is taken for dead, goes on, writes late, and crashes; two snapshots",
        plan=plan(
            app("a", "A", WRITE, (("read", "x"), ("send", "B"))), app("b", "B", (("pause",),)), snapshots=2
        ),
        inputs=(A, A),
        faults={"expire b": 1, "crash a": 1},
        slow=frozenset({"a ledger Trigger", "stamp"}),
        states=76_521,
    ),
    SmallWorld(
        name="two",
        what="R1, R2, R11: two snapshots at once, one cut may serve both",
        plan=plan(app("a", "A", SEND), app("b", "B", WRITE), snapshots=2),
        inputs=(A,),
        slow=NEWS | {"append"},
        states=42_532,
    ),
    SmallWorld(
        name="small-large",
        what="2 processes, 2 inputs, 1 snapshot, 1 crash, 1 rebalance, 1 lost report, and news of it are late",
        plan=plan(app("a", "A", WRITE, workers=2)),
        inputs=(A, A),
        faults={"rebalance": 1, "lose-report": 1, "crash": 1},
        slow=NEWS,
        states=16_107,
    ),
    SmallWorld(
        name="late-large",
        what="R10, R11: a process stops, another one of its app joins, and everybody hears of the snapshot late",
        plan=plan(app("a", "A", SEND), app("b", "B", WRITE, workers=2)),
        inputs=(A,),
        faults={"stop b": 1, "restart": 1},
        slow=NEWS,
        states=17_183,
    ),
    SmallWorld(
        name="partitions-large",
        what="R7, R8: two partitions of each topic, every message goes across, and what was sent is late",
        plan=plan(app("a", "A", SEND, partitions=2), app("b", "B", WRITE, partitions=2)),
        inputs=(A, A1),
        slow=NEWS | {"append"},
        states=67_742,
    ),
    SmallWorld(
        name="partitions-move-large",
        what="R9, R10: two workers with a partition each change places while their reports are late",
        plan=plan(app("a", "A", WRITE, workers=2, partitions=2)),
        inputs=(A, A1),
        faults={"rebalance": 1},
        slow=NEWS | {"post Report"},
        states=22_368,
    ),
    SmallWorld(
        name="transactions-large",
        what="R7, exactly-once: two transactions, each committed, or aborted as its process dies",
        plan=plan(
            app("a", "A", (("write", "x"), ("send", "B"))),
            app("b", "B", WRITE),
            markers="",
            exactly_once=True,
        ),
        inputs=(A, A),
        faults={"crash a": 1},
        slow=NEWS,
        states=10_606,
    ),
    SmallWorld(
        name="fenced-large",
        what="R7, R9, exactly-once: what a zombie wrote in part is aborted, and the rest of it comes late",
        plan=plan(app("a", "A", (("write", "x"), ("write", "y")), workers=2), markers="", exactly_once=True),
        inputs=(A,),
        faults={"fence": 1},
        slow=NEWS | {"append"},
        states=9_896,
    ),
)
