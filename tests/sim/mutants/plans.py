"""Plans that reveal a mutant sooner: in most worlds something else hides it, or fails the snapshot first."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeAlias

from snapkafka.sim import AgentPlan, App, Op, WorldPlan
from snapkafka.sim.world.world_plan import HEARD, with_reads
from tests.sim.explore import small

Plan: TypeAlias = Callable[[WorldPlan], WorldPlan]


def acyclic(plan: WorldPlan) -> WorldPlan:
    """Return a world in which snapshots are aligned: each app sends only to later ones, and only by its events."""
    topics = [f"topic{n}" for n in range(len(plan.apps) + 1)]
    return replace(
        plan,
        apps=tuple(_reading(app, topics[n], topics[n + 1 :]) for n, app in enumerate(plan.apps)),
        externals=tuple(topics),
        marker_topics=tuple(topics[: len(topics) // 2 + 1]),
        global_table=False,
        hear=HEARD,
        hops=len(topics),
        scope=(),
        align=True,
        acyclic=True,
    )


def _reading(app: App, topic: str, later: list[str]) -> App:
    """Let an app read this topic only, with an agent or two, and send to later ones."""
    agents = []
    for k, agent in enumerate(app.agents[:2] or (AgentPlan("", "", 1, ((("send", ""),),)),)):
        programs = tuple(_sending_on(program, later) for program in agent.programs)
        agents.append(replace(agent, name=f"{app.name}.{k}", topic=topic, programs=programs))
    return replace(app, agents=tuple(agents), timer="")


def _sending_on(program: tuple[Op, ...], topics: list[str]) -> tuple[Op, ...]:
    """Send to these topics instead, in turn."""
    return tuple(
        (op[0], topics[i % len(topics)])
        if op[0] in ("send", "buffer", "ask")
        else ("pause",)
        if op[0].startswith("g")
        else op
        for i, op in enumerate(program)
    )


def as_it_is(plan: WorldPlan) -> WorldPlan:
    return plan


def changed(base: Plan, **changes: Any) -> Plan:
    """Change fields of a plan further."""
    return lambda plan: replace(base(plan), **changes)


def plain(base: Plan, **changes: Any) -> Plan:
    """Change a plan further, without transactions, and with all sources of news."""
    return changed(base, exactly_once=False, hear=HEARD, **changes)


def more(**chances: float) -> Plan:
    """Add these faults to those of the plan."""
    wanted = {name.replace("_", "-"): chance for name, chance in chances.items()}
    return lambda plan: replace(plan, faults={**plan.faults, **wanted})


def faults(**chances: float) -> Plan:
    """Add these faults to those of the plan, with many snapshots, which are to suffer from them."""
    return changed(more(**{"forge": 0, "recreate": 0} | chances), snapshots=6, inputs=10, hops=2)


def deaf(**chances: float) -> Plan:
    """Add faults as `faults` does, without any news of snapshots by the ledger, which would often hide the defect."""
    return changed(faults(**chances), hear=frozenset({"headers"}), exactly_once=False)


def alone(*, apps: int, workers: int, slow: dict[str, float] | None = None, **chances: float) -> Plan:
    """Keep only the first apps of the plan, of one partition each, with only these faults.

    In a larger world something else mostly fails the snapshot, or informs the process that must not learn of it.
    """
    wanted = {name.replace("_", "-"): chance for name, chance in chances.items()}
    return lambda plan: replace(
        plan,
        apps=tuple(replace(app, partitions=1, workers=workers) for app in plan.apps[:apps]),
        slow=plan.slow if slow is None else slow,
        faults=wanted,
        retries=0,
        snapshots=6,
        inputs=10,
        hops=2,
    )


def unreported(plan: WorldPlan) -> WorldPlan:
    """Assign inputs to processes that know of no snapshot: neither by the ledger, nor by the table that they
    recover."""
    lonely = alone(apps=1, workers=2, rebalance=0.01)(plan)
    apps = tuple(replace(app, agents=tuple(map(_writing_nothing, app.agents))) for app in lonely.apps)
    return replace(lonely, apps=apps, hear=frozenset({"headers"}), exactly_once=False)


def _writing_nothing(agent: AgentPlan) -> AgentPlan:
    programs = (
        tuple(("pause",) if op[0] in ("write", "gwrite") else op for op in program)
        for program in agent.programs
    )
    return replace(agent, programs=tuple(programs))


def looks(plan: WorldPlan, **chances: float) -> WorldPlan:
    """Let agents read their table over several steps, at once with others, with few other faults."""
    one = alone(apps=1, workers=1, slow=None, **chances)(plan)
    apps = tuple(with_reads(random.Random(app.name), app, global_table=False) for app in one.apps)
    return replace(one, apps=apps, exactly_once=False)


def windows(plan: WorldPlan) -> WorldPlan:
    """Likewise windows, which expire all the time."""
    return replace(looks(plan, window=0.1), hear=HEARD)


def unsettled(plan: WorldPlan) -> WorldPlan:
    """Let sends have no outcome, and land at once, later or never; queue records again with all their headers."""
    return faults()(more(time_out=0.05, land_late=0.03, queue_again=0.006)(plan))


def handing_over(plan: WorldPlan) -> WorldPlan:
    """Let the processes of every other app hand over their state before they cut, as remote ones do."""
    return replace(plan, states=tuple(app.name for app in plan.apps[::2]))


def losing(plan: WorldPlan) -> WorldPlan:
    """The ledger loses its tail, several times before anybody notices."""
    kept = {fault: share for fault, share in plan.faults.items() if fault not in ("forge", "recreate")}
    return replace(plan, snapshots=6, faults={**kept, "cut-short": 0.004})


sober: Final = more(forge=0)
#: Nobody learns of a snapshot by the ledger.
unread: Final = changed(sober, hear=frozenset({"headers", "markers"}))
#: Aligned snapshots where nothing is in the way of that; and while records wait long for their agents.
aligned: Final = changed(acyclic, faults={}, slow={}, retries=0)
aligned_slowly: Final = changed(aligned, slow={"start": 0.1, "step": 0.2}, snapshots=6, inputs=14)
#: Agents are handed records after later ones, or their readers pass some, without other faults.
disordered: Final = alone(apps=2, workers=1, disorder=0.3)
skipping: Final = alone(apps=2, workers=1, skip=0.03)

_READS_SLOWLY: Final = {"fetch": 0.1, "start": 0.1}
#: Workers leave in order between the question for log ends and the trigger, and others read slowly what they have
#: sent.
asking_early: Final = plain(
    alone(apps=3, workers=2, slow=_READS_SLOWLY, stop=0.02, restart=0.2), asked_early=True
)
#: Likewise; who triggers may not read the log ends.
leaving_unseen: Final = plain(
    alone(apps=3, workers=2, slow=_READS_SLOWLY, stop=0.02, crash=0.01, restart=0.2, unread_ends=1.0),
    snapshots=12,
)
#: Ledgers are recreated in the midst of events, whose inputs move.
reborn: Final = faults(recreate=0.01, rebalance=0.02)
#: One worker commits its transactions long after it could have closed, and dies sometimes; or it aborts some.
in_transactions: Final = changed(
    alone(apps=1, workers=1, slow=dict.fromkeys(("post", "ledger", "ack"), 20.0), crash=0.01, restart=0.1),
    exactly_once=True,
)
aborting: Final = changed(alone(apps=1, workers=1, abort=0.03), exactly_once=True)
#: Inputs move, and the transactions of their former owner are aborted.
fenced: Final = changed(alone(apps=1, workers=2, rebalance=0.02, fence=0.7), exactly_once=True)
#: The ledger does not always answer in time, so that workers stop waiting (R15); nor is it read in time.
unanswered: Final = more(silent_ledger=0.5, impatient=0.1)
unanswered_slowly: Final = plain(
    alone(apps=3, workers=1, slow={"ledger": 0.1}, silent_ledger=0.5, impatient=0.1, rebalance=0.01)
)
#: Workers start without snapkafka, or with a late `Hello`, or stand down; they stop in order. What a killed worker did
#: since its last commit is unknown: nothing of it has a header.
_WITHOUT: Final = {"bare": 0.4, "late_hello": 0.4, "stand_down": 0.004}
without: Final = plain(
    alone(apps=3, workers=1, slow={"ledger": 0.3}, stop=0.02, restart=0.2, **_WITHOUT, expire=0.02)
)
#: Workers leave in order, and others take over.
in_order: Final = plain(alone(apps=3, workers=2, stop=0.03, restart=0.2))
#: Others take over what a worker ran that stood down.
taken_over: Final = plain(alone(apps=3, workers=2, stop=0.03, restart=0.2, stand_down=0.004))
#: Workers take their time to join, and work meanwhile.
late: Final = plain(alone(apps=3, workers=1, slow={"late": 0.02}, stop=0.04, restart=0.4, late_hello=0.8))
#: Some records are too large with our header, and leave without it.
outgrown: Final = plain(alone(apps=2, workers=1, slow={"ledger": 0.2}, outgrow=0.1))

_FIRST: Final = small.app("app0", "in", (("read", "x"), ("send", "mid"), ("write", "x")))
_RELAY: Final = small.app("relay", "mid", (("send", "out"),))
_LAST: Final = small.app("app1", "out", (("write", "y"),))
_CALM: Final = plain(as_it_is, slow={}, faults={}, retries=0)
_SMALL: Final = changed(
    _CALM, externals=("in", "mid"), hops=2, marker_topics=(), global_table=False, inputs=14, snapshots=5
)
#: An app out of scope passes records from one app of the scope on to the other, with a ledger that hangs for it.
relayed: Final = changed(
    _SMALL,
    apps=(_FIRST, _LAST, _RELAY),
    scope=("app0", "app1"),
    externals=("in", "mid", "out"),
    hops=3,
    slow={"ledger": 0.3},
    faults={"hang": 0.01},
)
#: The topic between two apps is recreated from time to time; its reader is restarted, its sender is not.
renewed: Final = changed(
    relayed,
    apps=(_FIRST, _RELAY, _LAST),
    scope=(),
    recreated=("mid",),
    inputs=20,
    snapshots=6,
    slow={},
    faults={"recreate-topic": 0.003},
)
#: The app out of scope joined once, and runs without snapkafka; it is in scope; it stops and starts again, while
#: triggers are composed.
relays_off: Final = changed(relayed, off=("relay",), faults={})
relays_unseen: Final = changed(relays_off, scope=())
relays_that_wake: Final = changed(
    relays_unseen, asked_early=True, faults={"stop": 0.03, "restart": 0.1}, snapshots=12
)
#: The ledger loses its tail, and it takes long until anybody notices: others join meanwhile, and take snapshots.
unnoticed: Final = changed(
    relayed,
    scope=(),
    slow={"notice": 0.003, "ledger": 0.3},
    faults={"cut-short": 0.004, "stop": 0.01, "restart": 0.2},
    snapshots=20,
    inputs=40,
    steps=900,
)
#: One app asks the other, whose workers run without snapkafka now and then, and answer by what they have read before.
answered: Final = changed(
    _SMALL,
    apps=(
        small.app("app0", "in", (("ask", "mid"), ("write", "x")), (("send", "mid"),), at_once=2),
        small.app("app1", "mid", (("read", "y"), ("write", "y"))),
    ),
    slow={"ledger": 0.3},
    faults={"bare": 0.5},
)
#: Partitions are added all the time: the first app gets those, and the other one, which is in scope, sends to them long
#: before it is given any.
growing: Final = changed(
    _SMALL,
    apps=(small.app("app0", "in", (("pause",),)), small.app("app1", "in", (("send", "in"),))),
    scope=("app1",),
    externals=("in",),
    faults={"partition": 0.1},
    steps=250,
)
#: Headers are removed between the first app and the second, with rare reads of the ledger.
stripped: Final = changed(
    _SMALL,
    apps=(_FIRST, small.app("app1", "mid", (("write", "y"),))),
    stripped=("mid",),
    slow={"ledger": 0.05},
)
