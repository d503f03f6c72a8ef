"""Plans that reveal a mutant sooner: in most worlds something else hides it, or fails the snapshot first."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from snapkafka.sim import AgentPlan, App, Op, WorldPlan
from snapkafka.sim.world.world_plan import with_reads

#: By what a process hears of a snapshot, unless a plan is about that.
HEARD = frozenset({"ledger", "markers", "headers"})


def acyclic(plan: WorldPlan) -> WorldPlan:
    """Return a world in which snapshots are aligned: each app sends only to later ones, and only by its events."""
    topics = [f"topic{n}" for n in range(len(plan.apps) + 1)]
    apps = []
    for n, app in enumerate(plan.apps):
        agents = app.agents[:2] or (AgentPlan("", "", 1, ((("send", ""),),)),)
        apps.append(
            replace(
                app,
                agents=tuple(
                    replace(
                        agent,
                        name=f"{app.name}.{k}",
                        topic=topics[n],
                        programs=tuple(_sending_on(program, topics[n + 1 :]) for program in agent.programs),
                    )
                    for k, agent in enumerate(agents)
                ),
                timer="",
            )
        )
    return replace(
        plan,
        apps=tuple(apps),
        externals=tuple(topics),
        marker_topics=tuple(topics[: len(topics) // 2 + 1]),
        global_table=False,
        hear=HEARD,
        hops=len(topics),
        scope=(),
        align=True,
        acyclic=True,
    )


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


def faults(**chances: float) -> Callable[[WorldPlan], WorldPlan]:
    """Add these faults to those of the plan, with many snapshots, which are to suffer from them."""
    wanted = {name.replace("_", "-"): chance for name, chance in chances.items()}
    return lambda plan: replace(
        plan, snapshots=6, inputs=10, hops=2, faults={**plan.faults, "forge": 0, "recreate": 0, **wanted}
    )


def deaf(**chances: float) -> Callable[[WorldPlan], WorldPlan]:
    """Add faults as `faults` does, without any news of snapshots by the ledger, which would often hide the defect."""
    with_faults = faults(**chances)
    return lambda plan: replace(with_faults(plan), hear=frozenset({"headers"}), exactly_once=False)


def alone(
    *, apps: int, workers: int, slow: dict[str, float] | None = None, **chances: float
) -> Callable[[WorldPlan], WorldPlan]:
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


def aligned(plan: WorldPlan) -> WorldPlan:
    """Take aligned snapshots where nothing is in the way of that."""
    return replace(acyclic(plan), faults={}, slow={}, retries=0)


def aligned_slowly(plan: WorldPlan) -> WorldPlan:
    """Take aligned snapshots while records wait long for their agents."""
    slow = {"start": 0.1, "step": 0.2}
    return replace(aligned(plan), slow=slow, snapshots=6, inputs=14)


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


def asking_early(plan: WorldPlan) -> WorldPlan:
    """Let workers leave in order between the question for log ends and the trigger, and others read slowly what they
    have sent."""
    slow = {"fetch": 0.1, "start": 0.1}
    lonely = alone(apps=3, workers=2, slow=slow, stop=0.02, restart=0.2)(plan)
    return replace(lonely, asked_early=True, exactly_once=False, hear=HEARD)


def leaving_unseen(plan: WorldPlan) -> WorldPlan:
    """Let workers leave, and others read slowly what they have sent; who triggers may not read the log ends."""
    slow = {"fetch": 0.1, "start": 0.1}
    chances = {"stop": 0.02, "crash": 0.01, "restart": 0.2, "unread_ends": 1.0}
    lonely = alone(apps=3, workers=2, slow=slow, **chances)(plan)
    return replace(lonely, exactly_once=False, hear=HEARD, snapshots=12)


def in_transactions(plan: WorldPlan) -> WorldPlan:
    """Keep one worker, which commits its transactions long after it could have closed, and dies sometimes."""
    at_once = dict.fromkeys(("post", "ledger", "ack"), 20.0)
    lonely = alone(apps=1, workers=1, slow=at_once, crash=0.01, restart=0.1)(plan)
    return replace(lonely, exactly_once=True)


def aborting(plan: WorldPlan) -> WorldPlan:
    """Keep one worker, which aborts some of its transactions."""
    lonely = alone(apps=1, workers=1, abort=0.03)(plan)
    return replace(lonely, exactly_once=True)


def fenced(plan: WorldPlan) -> WorldPlan:
    """Move inputs, and abort the transactions of their former owner."""
    lonely = alone(apps=1, workers=2, rebalance=0.02, fence=0.7)(plan)
    return replace(lonely, exactly_once=True)


def unanswered(plan: WorldPlan) -> WorldPlan:
    """Let the ledger, and the broker that is asked where inputs start, not always answer in time, so that workers stop
    waiting (R15)."""
    return replace(plan, faults={**plan.faults, "silent-ledger": 0.3, "late-told": 0.3, "impatient": 0.1})


def without(plan: WorldPlan) -> WorldPlan:
    """Start workers without snapkafka, or with a late `Hello`, or let them stand down; they stop in order.

    What a killed worker did since its last commit is unknown: nothing of it has a header.
    """
    slow = {"ledger": 0.3}
    chances = {
        "stop": 0.02,
        "restart": 0.2,
        "bare": 0.4,
        "late_hello": 0.4,
        "stand_down": 0.004,
        "expire": 0.02,
    }
    lonely = alone(apps=3, workers=1, slow=slow, **chances)(plan)
    return replace(lonely, exactly_once=False, hear=HEARD)


def late(plan: WorldPlan) -> WorldPlan:
    """Let workers take their time to join, and work meanwhile."""
    slow = {"late": 0.02}
    lonely = alone(apps=3, workers=1, slow=slow, stop=0.04, restart=0.4, late_hello=0.8)(plan)
    return replace(lonely, exactly_once=False, hear=HEARD)


def windows(plan: WorldPlan) -> WorldPlan:
    """Keep one worker whose events read windows over several steps, with windows that expire all the time."""
    lonely = alone(apps=1, workers=1, window=0.1)(plan)
    reading = tuple(with_reads(random.Random(plan.inputs), app, global_table=False) for app in lonely.apps)
    return replace(lonely, apps=reading, exactly_once=False, hear=HEARD)


def unsettled(plan: WorldPlan) -> WorldPlan:
    """Let sends have no outcome, and land at once, later or never; queue records again with all their headers."""
    more = {"time-out": 0.05, "land-late": 0.03, "queue-again": 0.006}
    return faults()(replace(plan, faults={**plan.faults, **more}))


def outgrown(plan: WorldPlan) -> WorldPlan:
    """Let some records be too large with our header, and leave without it."""
    lonely = alone(apps=2, workers=1, slow={"ledger": 0.2}, outgrow=0.1)(plan)
    return replace(lonely, exactly_once=False, hear=HEARD)


def relayed(plan: WorldPlan) -> WorldPlan:
    """Let an app out of scope pass records from one app of the scope on to the other, with a ledger that hangs for
    it."""
    sending = AgentPlan("app0.in", "in", 1, ((("read", "x"), ("send", "mid"), ("write", "x")),))
    passing_on = AgentPlan("relay.mid", "mid", 1, ((("send", "out"),),))
    taking = AgentPlan("app1.out", "out", 1, ((("write", "y"),),))
    return replace(
        plan,
        apps=(
            App("app0", (sending,), 1, 1),
            App("app1", (taking,), 1, 1),
            App("relay", (passing_on,), 1, 1),
        ),
        scope=("app0", "app1"),
        externals=("in", "mid", "out"),
        marker_topics=(),
        global_table=False,
        exactly_once=False,
        hear=HEARD,
        inputs=14,
        hops=3,
        snapshots=5,
        retries=0,
        slow={"ledger": 0.3},
        faults={"hang": 0.01},
    )


def renewed(plan: WorldPlan) -> WorldPlan:
    """Recreate the topic between two apps from time to time; its reader is restarted, its sender is not."""
    whole = relayed(plan)
    names = ("app0", "relay", "app1")
    return replace(
        whole,
        apps=tuple(app for name in names for app in whole.apps if app.name == name),
        scope=(),
        recreated=("mid",),
        inputs=20,
        snapshots=6,
        slow={},
        faults={"recreate-topic": 0.003},
    )


def relays_off(plan: WorldPlan) -> WorldPlan:
    """Let the app out of scope join once, and run without snapkafka."""
    return replace(relayed(plan), off=("relay",), faults={})


def relays_unseen(plan: WorldPlan) -> WorldPlan:
    """Let an app of the scope join once, and run without snapkafka."""
    return replace(relays_off(plan), scope=())


def relays_that_wake(plan: WorldPlan) -> WorldPlan:
    """Let it stop and start again, while triggers are composed."""
    return replace(relays_unseen(plan), asked_early=True, faults={"stop": 0.03, "restart": 0.1}, snapshots=12)


def losing(plan: WorldPlan) -> WorldPlan:
    """The ledger loses its tail again and again, and whoever is to pass its numbers mostly does not get there."""
    kept = {fault: share for fault, share in plan.faults.items() if fault not in ("forge", "recreate")}
    return replace(plan, snapshots=6, faults={**kept, "cut-short": 0.004, "fill-ends": 0.7})


def losing_often(plan: WorldPlan) -> WorldPlan:
    """It loses what was written about the loss before, too."""
    lossy = losing(plan)
    return replace(lossy, faults={**lossy.faults, "cut-short": 0.02}, snapshots=12, inputs=20)


def unnoticed(plan: WorldPlan) -> WorldPlan:
    """The ledger loses its tail, and it takes long until anybody notices: others join meanwhile, and take snapshots."""
    return replace(
        relayed(plan),
        scope=(),
        slow={"notice": 0.003, "ledger": 0.3},
        faults={"cut-short": 0.004, "stop": 0.01, "restart": 0.2},
        snapshots=20,
        inputs=40,
        steps=900,
    )


def stripped(plan: WorldPlan) -> WorldPlan:
    """Remove headers between the first app and the second, with rare reads of the ledger."""
    sending = AgentPlan("app0.in", "in", 1, ((("read", "x"), ("send", "mid"), ("write", "x")),))
    taking = AgentPlan("app1.mid", "mid", 1, ((("write", "y"),),))
    return replace(
        plan,
        apps=(App("app0", (sending,), 1, 1), App("app1", (taking,), 1, 1)),
        externals=("in", "mid"),
        stripped=("mid",),
        marker_topics=(),
        global_table=False,
        exactly_once=False,
        hear=HEARD,
        inputs=14,
        hops=2,
        snapshots=5,
        retries=0,
        slow={"ledger": 0.05},
        faults={},
    )


def disordered(plan: WorldPlan) -> WorldPlan:
    """Hand agents records after later ones, without other faults."""
    return alone(apps=2, workers=1, disorder=0.3)(plan)


def skipping(plan: WorldPlan) -> WorldPlan:
    """Let readers pass records, without other faults."""
    return alone(apps=2, workers=1, skip=0.03)(plan)


def looks(plan: WorldPlan) -> WorldPlan:
    """Let agents read their table over several steps, at once with others, with few other faults."""
    one = alone(apps=1, workers=1)(plan)
    apps = tuple(with_reads(random.Random(app.name), app, global_table=False) for app in one.apps)
    return replace(one, apps=apps, exactly_once=False)


def sober(plan: WorldPlan) -> WorldPlan:
    return replace(plan, faults={**plan.faults, "forge": 0})
