"""The small worlds that are explored, each made to show some of the rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from snapkafka.protocol.records import TopicPartition

from .explore_world import ExploredWorld, Stage, settled
from .log import Stored
from .plan import Agent, App, Op, Plan

__all__ = ["LARGE", "PROMPT", "SMALL", "TINY", "SmallWorld", "by_name"]

A, B = TopicPartition("A", 0), TopicPartition("B", 0)
#: In what order things happen that nothing delays.
PROMPT: Final = ("stamp", "append", "ack", "ends", "stopped", "post", "ledger", "reply", "global", "commit")
EVERYTHING: Final = frozenset(PROMPT)
#: News of a snapshot come late.
NEWS: Final = frozenset({"ledger Trigger"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallWorld:
    """A world to explore.

    `slow`: kinds of steps that may happen at any time after they became possible ("ledger", or more finely "ledger
    Trigger", or that of one app, "a ledger Trigger"); the others happen at once (so the
    world is smaller than one in which everything is slow: that is its lens). `faults`: what may go wrong, how often.
    `inputs`: records from outside, there from the start. `asks`: the process that asks for snapshots (-1:
    anybody). `reduced`: leave out orders that make no difference (`explore_steps`). `states`:
    distinct ones when this was written.
    """

    name: str
    what: str
    plan: Plan
    inputs: tuple[TopicPartition, ...]
    faults: dict[str, int] = field(default_factory=dict)
    slow: frozenset[str] = EVERYTHING
    asks: int = -1
    reduced: bool = True
    states: int = 0

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of faults."""
        return frozenset(name.split(" ")[0] for name in self.faults)

    def root(self) -> ExploredWorld:
        """Everybody has joined, nothing has happened."""
        world = ExploredWorld(self.plan, Stage())
        settled(world)
        for tp in self.inputs:
            world.broker.append(tp, Stored(hops=self.plan.hops))
        world.triggers, world.faults = self.plan.snapshots, dict(self.faults)
        return world


def _app(name: str, topic: str, *programs: tuple[Op, ...], workers: int = 1, at_once: int = 1) -> App:
    """An app with one agent, that does the programs in turn."""
    agents = (Agent(f"{name}.{topic}", topic, at_once, programs),) if programs else ()
    return App(name, agents, 1, workers)


def _plan(
    *apps: App, snapshots: int = 1, markers: str = "AB", hear: str = "", hops: int = 1, table: bool = False
) -> Plan:
    heard = frozenset(hear.split()) if hear else frozenset({"ledger", "markers", "headers"})
    return Plan(
        apps=apps,
        externals=("A", "B"),
        marker_topics=tuple(markers),
        hear=heard,
        snapshots=snapshots,
        hops=hops,
        global_table=table,
    )


SEND: Final[tuple[Op, ...]] = (("send", "B"),)
WRITE: Final[tuple[Op, ...]] = (("write", "x"),)
LOOP: Final[tuple[Op, ...]] = (("send", "A"),)

SMALL: Final = (
    SmallWorld(
        name="cut",
        what="R2, R3, R5, R8: red records, markers and the ledger race to a receiver",
        plan=_plan(_app("a", "A", SEND), _app("b", "B", WRITE)),
        inputs=(A, A),
        slow=NEWS | {"append"},
        states=10_368,
    ),
    SmallWorld(
        name="closing",
        what="R4, R5, R7: everything is slow in one process",
        plan=_plan(_app("a", "A", (("write", "x"), ("write", "y")))),
        inputs=(A,),
        reduced=False,
        states=673,
    ),
    SmallWorld(
        name="torn",
        what="R6: two events of one agent on one table, over a cut",
        plan=_plan(
            _app("a", "A", (("read", "x"), ("write", "y")), (("read", "y"), ("write", "x")), at_once=2),
            markers="",
        ),
        inputs=(A, A),
        slow=NEWS,
        states=1_115,
    ),
    SmallWorld(
        name="left",
        what="R8, R10: a sender that left before the trigger, and inputs of an app that does not run",
        plan=_plan(_app("a", "A", SEND), _app("b", "B", WRITE)),
        inputs=(A,),
        faults={"stop a": 1},
        slow=NEWS | {"ends", "stopped"},
        states=8_894,
    ),
    SmallWorld(
        name="late",
        what="R10, R11: a process stops, and another one of its app joins, before or after the trigger",
        plan=_plan(_app("a", "A", SEND), _app("b", "B", WRITE)),
        inputs=(A,),
        faults={"stop b": 1, "restart": 1},
        slow=NEWS,
        states=17_183,
    ),
    SmallWorld(
        name="moves",
        what="R9, R10: an input moves to another worker while reports are late",
        plan=_plan(_app("a", "A", WRITE, workers=2)),
        inputs=(A, A),
        faults={"rebalance": 1},
        slow=NEWS | {"post CutReport"},
        states=7_725,
    ),
    SmallWorld(
        name="red-input",
        what="R9, R11: an input that was read in red moves to a worker that hears by headers only",
        plan=_plan(_app("a", "A", LOOP, workers=2), hear="headers"),
        inputs=(A, A),
        asks=0,
        faults={"rebalance": 1},
        slow=frozenset(),
        states=2_921,
    ),
    SmallWorld(
        name="uncut",
        what="R10: an input that is sent to moves from a white worker to a red one, and nobody has cut it",
        plan=_plan(_app("a", "A", SEND), _app("b", "B", WRITE, workers=2), markers=""),
        inputs=(A,),
        faults={"rebalance b": 1},
        slow=frozenset({"b ledger Trigger"}),
        states=8_030,
    ),
    SmallWorld(
        name="reply",
        what="R2, R6: a question and its answer, over a cut",
        plan=_plan(_app("a", "A", (("ask", "B"), ("write", "x"))), _app("b", "B", WRITE)),
        inputs=(A,),
        slow=NEWS | {"reply"},
        states=873,
    ),
    SmallWorld(
        name="global",
        what="R2, R6: a global table",
        plan=_plan(
            _app("a", "A", (("gwrite", "u"),)), _app("b", "B", (("gread", "u"), ("write", "x"))), table=True
        ),
        inputs=(A, B),
        slow=NEWS | {"global"},
        states=3_610,
    ),
    SmallWorld(
        name="small",
        what="2 processes, 2 inputs, 1 snapshot, 1 crash, 1 rebalance, 1 lost report",
        plan=_plan(_app("a", "A", WRITE, workers=2)),
        inputs=(A, A),
        faults={"rebalance": 1, "lose-report": 1, "crash": 1},
        slow=NEWS,
        states=18_363,
    ),
)

#: The same with more inputs, more that is slow, more that goes wrong.
LARGE: Final = (
    SmallWorld(
        name="passed",
        what="R9: an input comes and goes while the report of who has read it in red is late",
        plan=_plan(_app("a", "A", WRITE, workers=2), markers=""),
        inputs=(A,),
        faults={"rebalance": 2},
        slow=NEWS | {"post CutReport"},
        states=27_823,
    ),
    SmallWorld(
        name="closing-large",
        what="R4, R5, R7: everything is slow in one process, and a send may fail",
        plan=_plan(_app("a", "A", (("write", "x"), ("buffer", "A")))),
        inputs=(A,),
        faults={"fail-send": 1},
        states=23_407,
    ),
    SmallWorld(
        name="left-large",
        what="R8, R10: a sender that left before the trigger, and inputs of an app that does not run",
        plan=_plan(_app("a", "A", SEND), _app("b", "B", WRITE)),
        inputs=(A, A),
        faults={"stop a": 1},
        slow=NEWS | {"ends", "stopped"},
        states=64_934,
    ),
    SmallWorld(
        name="moves-large",
        what="R4, R9, R10: an input moves to another worker while reports are late or lost",
        plan=_plan(_app("a", "A", WRITE, workers=2)),
        inputs=(A, A),
        faults={"rebalance": 1, "lose-report": 1},
        slow=NEWS | {"post CutReport", "commit"},
        states=183_697,
    ),
    SmallWorld(
        name="replay",
        what="R10, V5: a rebalance sets an input back, and what was sent is sent again",
        plan=_plan(_app("a", "A", LOOP, workers=2)),
        inputs=(A,),
        faults={"rebalance": 1},
        slow=NEWS | {"commit"},
        states=47_269,
    ),
    SmallWorld(
        name="dead",
        what="R12: somebody is taken for dead, and goes on; two snapshots",
        plan=_plan(
            _app("a", "A", (("write", "x"), ("send", "B"))), _app("b", "B", (("pause",),)), snapshots=2
        ),
        inputs=(A,),
        faults={"expire b": 1},
        slow=NEWS,
        states=383_275,
    ),
    SmallWorld(
        name="zombie",
        what="R12, V1: somebody is taken for dead, and goes on, and what it wrote comes late; two snapshots",
        plan=_plan(
            _app("a", "A", WRITE, (("read", "x"), ("send", "B"))), _app("b", "B", (("pause",),)), snapshots=2
        ),
        inputs=(A, A),
        faults={"expire b": 1},
        slow=frozenset({"a ledger Trigger", "stamp"}),
        states=113_520,
    ),
    SmallWorld(
        name="two",
        what="R1, R2, R11: two snapshots at once, one cut may serve both",
        plan=_plan(_app("a", "A", SEND), _app("b", "B", WRITE), snapshots=2),
        inputs=(A,),
        slow=NEWS | {"append"},
        states=387_240,
    ),
    SmallWorld(
        name="small-large",
        what="2 processes, 2 inputs, 1 snapshot, 1 crash, 1 rebalance, 1 lost report, positions committed late",
        plan=_plan(_app("a", "A", WRITE, workers=2)),
        inputs=(A, A),
        faults={"rebalance": 1, "lose-report": 1, "crash": 1},
        slow=NEWS | {"commit"},
        states=67_063,
    ),
)

#: So small that every run can be gone through, without hashing and without leaving an order out.
TINY: Final = (
    SmallWorld(
        name="tiny",
        what="one process, one event, everything at once but the news and the acknowledgements",
        plan=_plan(_app("a", "A", WRITE)),
        inputs=(A,),
        slow=NEWS | {"ack", "stamp"},
    ),
    SmallWorld(
        name="tiny-crash",
        what="two processes, one event, one crash",
        plan=_plan(_app("a", "A", WRITE, workers=2)),
        inputs=(A,),
        faults={"crash": 1},
        slow=frozenset(),
    ),
    SmallWorld(
        name="tiny-channel",
        what="a sender and a receiver",
        plan=_plan(_app("a", "A", SEND), _app("b", "B", (("pause",),))),
        inputs=(A,),
        slow=NEWS,
    ),
)


def by_name(name: str) -> SmallWorld | None:
    return next((small for small in (*SMALL, *LARGE, *TINY) if small.name == name), None)
