"""The worlds that are explored, each made to show some of the rules: its parts, its slow steps and its faults, and the
steps that have to be tried in it.

A *lens* (`SmallWorld.slow`) makes a world smaller: kinds of steps that are not in it happen at once. Within the lens
all orders are tried, up to where nothing can happen of itself any more; but for one kind of step. *Fetching a record
that is not red* only moves the record into the queue of its agent: the position of a cut depends on started events,
and a rebalance discards both. So nothing else can prevent or change it, nor does it prevent or change anything else,
and every run without it now has a run with it that ends the same (a persistent set of one). That the outcomes are the
same is a test: `tests/sim/test_explore.py` goes through small worlds without this.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from snapkafka.protocol import TopicPartition
from snapkafka.sim import AgentPlan, App, Op, SimStored, WorldPlan
from snapkafka.sim.world.world_plan import HEARD

from .choices import Choice, ExploredWorld, Stage, settled

#: In what order things happen that nothing delays.
PROMPT: Final = ("stamp", "append", "ack", "post", "ledger", "reply", "global", "commit")
EVERYTHING: Final = frozenset(PROMPT)
#: Faults by which somebody leaves, or an input moves.
MOVES: Final = frozenset({"abort", "crash", "expel", "fence", "rebalance", "restart", "stop", "expire"})


@dataclass(frozen=True, slots=True)
class SmallWorld:
    """A world to explore.

    `inputs`: external records, present from the start. `faults`: the possible faults, and how often. `slow`: kinds of
    steps that may happen at any time after they became possible ("ledger", or more finely "ledger Trigger", or that of
    one app, "a ledger Trigger"); the others happen at once (so the world is smaller than one in which everything is
    slow: that is its lens). `asks`: the process that triggers snapshots (-1: any). `states`: the number of distinct
    states when this was written.
    """

    plan: WorldPlan
    inputs: tuple[TopicPartition, ...] = ()
    faults: dict[str, int] = field(default_factory=dict)
    slow: frozenset[str] = frozenset()
    asks: int = -1
    states: int = 0
    name: str = ""

    def root(self) -> ExploredWorld:
        """Return the initial world: every process has joined, nothing has happened."""
        world = ExploredWorld(self.plan, Stage())
        settled(world)
        for tp in self.inputs:
            world.broker.append(tp, SimStored(hops=self.plan.hops))
        world.triggers, world.faults = self.plan.snapshots, dict(self.faults)
        return world

    def choices(self, world: ExploredWorld, *, reduced: bool = True) -> list[Choice]:
        """Return the possible next steps that have to be tried; empty if the run is over."""
        moving = not MOVES.isdisjoint(name.split(" ")[0] for name in self.faults)
        # Without moves nobody asks what was committed.
        moves = [choice for choice in world.possible() if choice.kind != "commit" or moving]
        prompt = [c for c in moves if c.kind in PROMPT and not self._is_slow(world, c)]
        if prompt:
            return [min(prompt, key=lambda choice: PROMPT.index(choice.kind))]
        if reduced:
            for choice in moves:
                if choice.kind == "fetch" and not _is_red(world, choice):
                    return [choice]
        if world.triggers and world.look(()) is not None:  # else its author is refused
            joined = [p.number for p in world.processes if p.joined and self.asks in (-1, p.number)]
            authors = [-1] if "ledger" in world.plan.hear else joined
            moves += [Choice("trigger", author) for author in authors]
        return [*moves, *world.faulty()] if moves else []

    def _is_slow(self, world: ExploredWorld, choice: Choice) -> bool:
        """Return whether a choice may be late: by its kind, by its object, or by that and its app."""
        what = world.finely(choice)
        app = world.processes_ever[choice.process].app.name if choice.process >= 0 else ""
        return not self.slow.isdisjoint((choice.kind, what, f"{app} {what}"))


def _is_red(world: ExploredWorld, choice: Choice) -> bool:
    """Return whether a record that can be fetched is a marker, or red for its reader."""
    process = world.processes_ever[choice.process]
    record = world.broker.logs[choice.what][process.consumer.fetch[choice.what]]
    return record.marker or (record.process >= 0 and record.epoch > process.machine.colours.epoch)


A, B, A1 = TopicPartition("A", 0), TopicPartition("B", 0), TopicPartition("A", 1)
#: News of a snapshot come late; or only to one app.
NEWS: Final = frozenset({"ledger Trigger"})
NEWS_TO_B: Final = frozenset({"b ledger Trigger"})
HEADERS: Final = frozenset({"headers"})
Program = tuple[Op, ...]
SEND: Final[Program] = (("send", "B"),)
LOOP: Final[Program] = (("send", "A"),)
WRITE: Final[Program] = (("write", "x"),)
WRITES: Final[Program] = (("write", "x"), ("write", "y"))
PAUSE: Final[Program] = (("pause",),)


def app(
    name: str, topic: str, *programs: Program, workers: int = 1, at_once: int = 1, partitions: int = 1
) -> App:
    """Create an app with one agent, which runs the programs in turn."""
    return App(name, (AgentPlan(f"{name}.{topic}", topic, at_once, programs),), partitions, workers)


def plan(
    *apps: App,
    snapshots: int = 1,
    markers: str = "AB",
    hear: frozenset[str] = HEARD,
    table: bool = False,
    exactly_once: bool = False,
) -> WorldPlan:
    return WorldPlan(
        apps=apps,
        externals=("A", "B"),
        marker_topics=tuple(markers),
        hear=hear,
        snapshots=snapshots,
        hops=1,
        global_table=table,
        exactly_once=exactly_once,
    )


def transactions(*programs: Program, workers: int = 1) -> WorldPlan:
    return plan(app("a", "A", *programs, workers=workers), markers="", exactly_once=True)


PAIR: Final = plan(app("a", "A", SEND), app("b", "B", WRITE))
TWO: Final = plan(app("a", "A", WRITE, workers=2))
LOOPS: Final = plan(app("a", "A", LOOP, workers=2))
TWO_PARTITIONS: Final = plan(app("a", "A", WRITE, workers=2, partitions=2))
ZOMBIE: Final = plan(app("a", "A", WRITE, (("read", "x"), ("send", "B"))), app("b", "B", PAUSE), snapshots=2)
CROSSING: Final = ((("read", "x"), ("write", "y")), (("read", "y"), ("write", "x")))
HOLDING: Final = ((("hold", "x"), ("look", "x")), (("hold", "x"), ("change", "x"), ("write", "x")))
ITERATING: Final[tuple[Program, ...]] = (WRITE, (("iterate",), ("next",)), WRITE)

SMALL: Final = {
    # R2, R3, R5, R8: red records, markers and the ledger race to a receiver.
    "cut": SmallWorld(PAIR, (A, A), slow=NEWS | {"append"}, states=38_977),
    # R3: an agent is handed a record after the next one, before or after the cut, or the capture.
    "disorder": SmallWorld(
        plan(app("a", "A", WRITE, at_once=2)), (A, A), {"disorder": 1}, slow=NEWS | {"post"}, states=864
    ),
    # R4, R5, R7: everything is slow in one process.
    "closing": SmallWorld(plan(app("a", "A", WRITES)), (A,), slow=EVERYTHING, states=208),
    # R6: two events of one agent on one table, over a cut.
    "torn": SmallWorld(
        plan(app("a", "A", *CROSSING, at_once=2), markers=""), (A, A), slow=NEWS, states=1_168
    ),
    # R6: one event looks twice at what another one changes in place and sets later, over a cut.
    "held": SmallWorld(plan(app("a", "A", *HOLDING, at_once=2), markers=""), (A, A), slow=NEWS, states=1_228),
    # R6: one event goes over a table that another one writes, over a cut.
    "iterated": SmallWorld(
        plan(app("a", "A", *ITERATING, at_once=2), markers=""), (A, A, A), slow=NEWS, states=1_518
    ),
    # R8, R10: a sender that left before the trigger, and inputs of an app that does not run.
    "left": SmallWorld(PAIR, (A,), {"stop a": 1}, slow=NEWS, states=2_715),
    # R10, R11: a process stops, and another one of its app joins, before or after the trigger.
    "late": SmallWorld(PAIR, (A,), {"stop b": 1, "restart": 1}, slow=NEWS_TO_B, states=7_978),
    # R9, R10: an input moves to another worker while reports are late.
    "moves": SmallWorld(TWO, (A,), {"rebalance": 1}, slow=NEWS | {"post Report"}, states=6_536),
    # R9, R11: an input that was read in red moves to a worker that hears by headers only.
    "red-input": SmallWorld(replace(LOOPS, hear=HEADERS), (A, A), {"rebalance": 1}, asks=0, states=17_418),
    # R9: the group of a worker gives its input to another one, and it runs on with it.
    "expelled": SmallWorld(TWO_PARTITIONS, (A1,), {"expel": 1}, states=2_721),
    # R9: a worker stops, and no other one of its app has its input yet.
    "unassigned": SmallWorld(
        plan(app("a", "A", SEND, workers=2), app("b", "B", WRITE)), (A,), {"stop a": 1}, states=7_054
    ),
    # R11: a process that sends by a timer stops, and another one joins, before or after the trigger.
    "born": SmallWorld(
        plan(App("a", (), 1, 1, timer="B"), app("b", "B", WRITE), markers=""),
        faults={"stop a": 1, "restart": 1},
        slow=NEWS_TO_B,
        states=68_019,
    ),
    # R2, R6: a question and its answer, over a cut.
    "reply": SmallWorld(
        plan(app("a", "A", (("ask", "B"), ("write", "x"))), app("b", "B", WRITE)),
        (A,),
        slow=NEWS | {"reply"},
        states=563,
    ),
    # R2, R6: a global table.
    "global": SmallWorld(
        plan(app("a", "A", (("gwrite", "u"),)), app("b", "B", (("gread", "u"), ("write", "x"))), table=True),
        (A, B),
        slow=NEWS | {"global"},
        states=3_311,
    ),
    # 2 processes, 2 inputs, 1 snapshot, 1 crash, 1 rebalance, 1 lost report.
    "small": SmallWorld(TWO, (A, A), {"rebalance": 1, "lose-report": 1, "crash": 1}, states=27_520),
    # R2, R8: headers alone, no markers and nothing from the ledger.
    "headers": SmallWorld(
        replace(PAIR, hear=HEADERS, marker_topics=()),
        (A, A),
        asks=0,
        slow=frozenset({"append"}),
        states=4_170,
    ),
    # R7, R8: two partitions of each topic, and every message goes across.
    "partitions": SmallWorld(
        plan(app("a", "A", SEND, partitions=2), app("b", "B", WRITE, partitions=2)),
        (A, A1),
        slow=NEWS_TO_B,
        states=11_846,
    ),
    # R9, R10: two workers with a partition each change places.
    "partitions-move": SmallWorld(TWO_PARTITIONS, (A, A1), {"rebalance": 1}, states=16_699),
    # R7, exactly-once: a transaction is committed, or aborted as its process dies, before or after the cut.
    "transactions": SmallWorld(
        plan(app("a", "A", WRITE + SEND), app("b", "B", WRITE), markers="", exactly_once=True),
        (A,),
        {"crash a": 1},
        slow=NEWS,
        states=1_713,
    ),
    # R7, R10, exactly-once: a process aborts its transaction before or after the cut, and goes back.
    "aborted": SmallWorld(transactions(WRITE), (A,), {"abort a": 1}, slow=NEWS, states=163),
    # R7, R9, exactly-once: who has an input now aborts what a zombie left open, and the zombie sends on.
    "fenced": SmallWorld(transactions(WRITE, workers=2), (A,), {"fence": 1}, slow=NEWS, states=3_646),
}

#: Those that take longer to explore (`explore --large`): small worlds with more inputs, more that is slow, or more that
#: goes wrong, and others.
LARGE: Final = {
    "closing-large": replace(
        SMALL["closing"],
        plan=plan(app("a", "A", (("write", "x"), ("buffer", "A")))),
        faults={"fail-send": 1},
        states=13_844,
    ),
    "left-large": replace(SMALL["left"], inputs=(A, A), states=17_810),
    "moves-large": replace(
        SMALL["moves"],
        faults={"rebalance": 1, "lose-report": 1},
        slow=NEWS | {"post Report", "commit"},
        states=44_841,
    ),
    "small-large": replace(SMALL["small"], slow=NEWS, states=70_735),
    "late-large": replace(
        SMALL["late"],
        plan=plan(app("a", "A", SEND), app("b", "B", WRITE, workers=2)),
        slow=NEWS,
        states=17_183,
    ),
    "partitions-large": replace(SMALL["partitions"], slow=NEWS | {"append"}, states=1_066_970),
    "partitions-move-large": replace(SMALL["partitions-move"], slow=NEWS | {"post Report"}, states=110_958),
    "transactions-large": replace(SMALL["transactions"], inputs=(A, A), states=21_155),
    "fenced-large": replace(
        SMALL["fenced"], plan=transactions(WRITES, workers=2), slow=NEWS | {"append"}, states=27_143
    ),
    # R10, V5: an input moves, and comes back, and what was sent is sent again by the same process.
    "went-back": SmallWorld(LOOPS, (A,), {"rebalance": 2}, states=111_806),
    # R10, V5: a rebalance sets an input back, and what was sent is sent again.
    "replay": SmallWorld(LOOPS, (A,), {"rebalance": 1}, slow=NEWS | {"commit"}, states=211_336),
    # R12: somebody is taken for dead, and goes on; two snapshots.
    "dead": SmallWorld(
        plan(app("a", "A", WRITE + SEND), app("b", "B", PAUSE), snapshots=2),
        (A,),
        {"expire b": 1},
        slow=NEWS,
        states=127_631,
    ),
    # R12: a process is taken for dead, goes on, and comes back; two snapshots.
    "zombie": SmallWorld(
        ZOMBIE,
        (A, A),
        {"expire b": 1},
        slow=frozenset({"a ledger Trigger", "stamp", "post Assigned"}),
        states=184_254,
    ),
    # R12, V1: a process is taken for dead, goes on, writes late, and crashes; two snapshots.
    "late-zombie": SmallWorld(
        ZOMBIE,
        (A, A),
        {"expire b": 1, "crash a": 1},
        slow=frozenset({"a ledger Trigger", "stamp"}),
        states=179_138,
    ),
    # R1, R2, R11: two snapshots at once, one cut may serve both.
    "two": SmallWorld(replace(PAIR, snapshots=2), (A,), slow=NEWS | {"append"}, states=152_141),
}

#: So small that every run can be gone through, without hashing and without leaving an order out.
TINY: Final = {
    # One process, one event, everything at once but the news and the acknowledgements.
    "tiny": SmallWorld(plan(app("a", "A", WRITE)), (A,), slow=NEWS | {"ack", "stamp"}),
    # Two processes, one event, one crash; or one rebalance, in the middle of it perhaps.
    "tiny-crash": SmallWorld(TWO, (A,), {"crash": 1}),
    "tiny-move": SmallWorld(TWO, (A,), {"rebalance": 1}),
    # A sender and a receiver.
    "tiny-channel": SmallWorld(plan(app("a", "A", SEND), app("b", "B", PAUSE)), (A,), slow=NEWS),
    # One process, one transaction, one crash; two workers, one transaction, and one of them fences the other.
    "tiny-transactions": SmallWorld(transactions(WRITE), (A,), {"crash": 1}, slow=NEWS),
    "tiny-fenced": SmallWorld(transactions(WRITE, workers=2), (A,), {"fence": 1}),
    # One worker with two partitions.
    "tiny-partitions": SmallWorld(plan(app("a", "A", WRITE, partitions=2)), (A, A1)),
}

WORLDS: Final = {name: replace(small, name=name) for name, small in (SMALL | LARGE | TINY).items()}
