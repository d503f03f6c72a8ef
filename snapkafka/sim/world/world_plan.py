"""The plan of a world: one seed decides everything, topology, load, and the faults with their chances."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

#: What an event does, one step each: ("read" | "write", key), ("send", topic), ("buffer", topic) which leaves later,
#: ("gread" | "gwrite", key) on the global table, ("ask", topic) and wait for the answer, ("pause",). Of what changes in
#: place: ("hold", key) looks a value up, ("look" | "change", key) reads or changes it later without the table; ("see",
#: key) looks up one of which each change is recorded, as of a set; ("iterate", ...) begins to go over the table, each
#: ("next", ...) goes on; ("ghold", ...) likewise of the global table.
Op = tuple[str, ...]

#: The sources from which a process learns of a snapshot, unless a plan is about that.
HEARD = frozenset({"ledger", "markers", "headers"})


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """An agent: its topic, how many of its events may run at once, their programs (in turn)."""

    name: str
    topic: str
    concurrency: int
    programs: tuple[tuple[Op, ...], ...]


@dataclass(frozen=True, slots=True)
class App:
    """A Faust app. Its agents share a table, partitioned as its topics are; `timer`: it sends outside any event."""

    name: str
    agents: tuple[AgentPlan, ...]
    partitions: int
    workers: int
    timer: str = ""

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({agent.topic for agent in self.agents}))

    @property
    def changelog(self) -> str:
        return f"{self.name}-t-changelog"

    @property
    def reply_topic(self) -> str:
        return f"{self.name}-reply"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldPlan:
    """A world and its faults. Weights of faults are relative to one step of the system; 0: never."""

    apps: tuple[App, ...]
    externals: tuple[str, ...]  # topics that the outside world writes
    marker_topics: tuple[str, ...]
    global_table: bool = False
    stripped: tuple[str, ...] = ()  # topics on whose way headers are removed
    exactly_once: bool = False
    hear: frozenset[str] = HEARD
    inputs: int = 12  # records from outside
    hops: int = 2  # messages that one of them may lead to, in a row
    snapshots: int = 3
    retries: int = 0  # of one that failed
    steps: int = 700  # of the safety phase
    slow: dict[str, float] = field(default_factory=dict)  # kind of step -> weight, 1 where it is not named
    faults: dict[str, float] = field(default_factory=dict)  # kind of fault -> chance per step
    scope: tuple[str, ...] = ()  # apps that snapshots are asked of; none: all
    recreated: tuple[str, ...] = ()  # topics that may be deleted and recreated
    asked_early: bool = False  # triggers have log ends that were asked for some time before, and tell when
    align: bool = False  # some snapshots are aligned (R16)
    acyclic: bool = False  # and nothing is in the way of that
    states: tuple[str, ...] = ()  # apps whose processes hand over their state before they cut
    off: tuple[str, ...] = ()  # apps that joined once, and whose workers run without snapkafka


#: Faults that a world may have, with their chances per step or occasion.
FAULTS = {
    "crash": 0.006,
    "restart": 0.02,
    "rebalance": 0.006,
    "pause": 0.003,
    "wake": 0.03,
    "expire": 0.004,
    "lose-report": 0.03,
    "fail-send": 0.01,
    "duplicate": 0.01,
    "stop": 0.002,
    "partition": 0.001,
    "forge": 0.0008,
    "recreate": 0.0005,
    "silent-ledger": 0.3,
    "impatient": 0.002,
    "revoke-uncommitted": 0.5,
}
#: Faults that some worlds have beside these: the share of worlds, and the chances. Not among them: "disorder", an agent
#: is handed a record after a later one. What was skipped and runs in another life, after a crash or a rebalance, looks
#: like a replay, so it goes with no other fault. Likewise "skip", a reader passes some records.
SOME_HAVE = (
    (0.25, {"time-out": 0.02, "land-late": 0.02, "queue-again": 0.006}),
    (0.12, {"unread-ends": 0.5}),
    (0.25, {"window": 0.02}),
    (0.12, {"cut-short": 0.003}),
)
#: How often the steps of events are of these kinds.
OFTEN = ((0.3, "write"), (0.5, "read"), (0.7, "send"), (0.8, "buffer"), (0.85, "ask"))
#: How events read a table over several steps.
READS = (
    ("hold", "look", "look"),
    ("see", "look", "look"),
    ("hold", "change", "write"),
    ("hold", "look", "change", "write"),
    ("iterate", "next", "next", "next"),
)


def make_plan(seed: int) -> WorldPlan:
    """Create the world of a seed."""
    rng = random.Random(f"plan {seed}")
    names = [f"app{n}" for n in range(rng.choice((1, 2, 2, 2, 3)))]
    topics = [f"topic{n}" for n in range(rng.choice((1, 2, 2, 3)))]
    global_table = rng.random() < 0.2
    apps = _apps(rng, names, topics, rng.choice((1, 1, 2, 2, 3)), global_table)
    if rng.random() < 0.25:  # agents read tables over several steps
        apps = [with_reads(rng, app, global_table) for app in apps]
    rough = 4.0 if rng.random() < 0.25 else 1.0
    faults = {
        fault: min(0.5, chance * rng.choice((0.5, 1, 2)) * rough)
        for fault, chance in FAULTS.items()
        if rng.random() < 0.45
    }
    for share, some in SOME_HAVE:
        faults |= some if rng.random() < share else {}
    if (
        "cut-short" in faults
    ):  # a ledger that loses its tail has no other one beside it, and nobody invents numbers
        faults |= {"recreate": 0, "forge": 0}
    scope = tuple(names[:-1]) if rng.random() < 0.08 else ()
    if scope:  # a worker out of scope, for whom the ledger hangs now and then
        faults |= {"recreate": 0, "hang": 0.004}
    return WorldPlan(
        apps=tuple(apps),
        externals=tuple(topics),
        marker_topics=tuple(t for t in topics if rng.random() < 0.7),
        global_table=global_table,
        exactly_once=rng.random() < 0.2,
        hear=rng.choices((HEARD, frozenset({"headers"}), frozenset({"ledger"})), (8, 1, 1))[0],
        inputs=rng.randint(4, 10),
        hops=rng.choice((1, 1, 2, 2, 3)),
        snapshots=rng.choice((1, 2, 3, 4)) if rough == 1 else 6,
        retries=rng.choice((0, 0, 0, 1, 3)),
        slow={
            kind: rng.choice((0.05, 0.3, 1, 1, 3))
            for kind in ("ledger", "post", "ack", "append", "step", "stamp")
        },
        faults=faults,
        scope=scope,
        asked_early=rng.random() < 0.6,
        align=rng.random() < 0.25,
    )


def _apps(
    rng: random.Random, names: list[str], topics: list[str], partitions: int, global_table: bool
) -> list[App]:
    apps: list[App] = []
    for name in names:
        mine = rng.sample(topics, rng.randint(1, len(topics)))
        if rng.random() < 0.07 and apps:
            mine = []  # an app that only sends
        agents = []
        for topic in mine:
            for k in range(rng.choice((1, 1, 1, 2))):
                programs = tuple(_program(rng, topics, global_table) for _ in range(3))
                agents.append(AgentPlan(f"{name}.{topic}.{k}", topic, rng.choice((1, 1, 2, 3)), programs))
        timer = rng.choice(topics) if not agents or rng.random() < 0.3 else ""
        apps.append(App(name, tuple(agents), partitions, rng.choice((1, 1, 2, 2, 3)), timer))
    return apps


def with_reads(rng: random.Random, app: App, global_table: bool) -> App:
    """Return the same app, with agents that read the table over several steps."""
    programs = (tuple(_with_reads_in(rng, it, global_table) for it in agent.programs) for agent in app.agents)
    agents = (replace(agent, programs=mixed) for agent, mixed in zip(app.agents, programs, strict=True))
    return replace(app, agents=tuple(agents))


def _with_reads_in(rng: random.Random, program: tuple[Op, ...], global_table: bool) -> tuple[Op, ...]:
    """Insert steps between the others, in their order."""
    shared = "g" if global_table and rng.random() < 0.3 else ""
    key = rng.choice("uv" if shared else "xy")
    ops = [(f"{shared}{kind}", key) for kind in rng.choice(READS)]
    places = sorted(rng.randint(0, len(program)) for _ in ops)
    mixed = list(program)
    for place, op in reversed(list(zip(places, ops, strict=True))):
        mixed.insert(place, op)
    return tuple(mixed)


def _program(rng: random.Random, topics: list[str], global_table: bool) -> tuple[Op, ...]:
    """Draw two to five steps; agents write and send, as they do."""
    ops: list[Op] = []
    for _ in range(rng.randint(2, 5)):
        draw = rng.random()
        kind = next((kind for upto, kind in OFTEN if draw < upto), "")
        if kind:
            ops.append((kind, rng.choice("xy" if kind in ("write", "read") else topics)))
        elif draw < 0.92 and global_table:
            ops.append((rng.choice(("gread", "gwrite")), rng.choice("uv")))
        else:
            ops.append(("pause",))
    return tuple(ops)
