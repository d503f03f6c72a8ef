"""Ledgers of simulated runs, with what operators, retries and strangers append behind them."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count

from snapkafka.protocol import RESTORE, Hello, LedgerState, Restore, Verdict
from snapkafka.protocol.offsets import NOBODY, AgentPosition, RestoreStage
from snapkafka.protocol.records import Abort, Assigned, Bye, Dead, LedgerRecord, Pause, Retire, Trigger
from snapkafka.sim import played
from tests.protocol.world import fold_of, log_ends

#: What is appended, and how often beside the rest.
KINDS = dict.fromkeys(("verdict", "abort", "repeat", "joins"), 3) | {"trigger": 5, "restore": 5, "pause": 1}
KINDS |= dict.fromkeys(("dead", "bye", "retire", "resume"), 2) | {"stranger": 1}


def ledger(seed: int, more: int = 100) -> list[LedgerRecord]:
    """Return the ledger of a simulated run and `more` records behind it, the same for the same seed."""
    records = list(played(seed)[0].broker.ledger)
    fold = fold_of(*records)
    rng, numbers = random.Random(seed), count(10**6)
    for _ in range(more):
        kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
        record = rng.choice(records[-20:]) if kind == "repeat" else _record(kind, fold, rng, next(numbers))
        fold.apply(len(records), record)
        records.append(record)
    return records


def _record(kind: str, fold: LedgerState, rng: random.Random, n: int) -> LedgerRecord:
    epoch = rng.choice([*fold.open, *fold.snapshots, 1])
    hellos = [view.hello for view in fold.processes.values() if view.hello.inputs]
    living = [view.process for view in fold.living()]
    hello = rng.choice(hellos)
    match kind:
        case "verdict":
            return Verdict(n=n, epoch=epoch, verdict=f"VERIFIED {n}")
        case "abort":
            return Abort(n=n, epoch=epoch, code="by-hand", reason="because")
        case "trigger":
            return Trigger(n=n, id=f"snapshot {n % 30}", apps=rng.choice([(), (), (hello.app,)]))
        case "joins" if living and rng.random() < 0.6:
            inputs = [tp for app, tp in fold.readers if app == hello.app]
            generation = 10**6 + n if rng.random() < 0.8 else 0
            mine = tuple(rng.sample(inputs, rng.randint(0, len(inputs))))
            return Assigned(process=rng.choice(living), n=n, generation=generation, inputs=mine)
        case "joins":
            return replace(hello, n=n, was=NOBODY)
        case "dead" if living:
            return Dead(n=n, dead=rng.choice(living))
        case "bye" if living:
            return Bye(process=rng.choice(living), n=n, goes_on=rng.random() < 0.3)
        case "retire":
            return Retire(n=n, app=hello.app)
        case "pause" | "resume":
            return Pause(n=n, paused=kind == "pause")
        case "restore":
            return _restore(fold, rng, n, hello)
        case _:
            return Abort(process=NOBODY, n=n, epoch=10**6, code="x", reason="y")


def _restore(fold: LedgerState, rng: random.Random, n: int, hello: Hello) -> LedgerRecord:
    """A restore takes a step, or one that has lost its plan tries to."""
    plan = fold.restores.open
    authors = [view.process for view in fold.living() if view.hello.mode == RESTORE]
    if not authors and rng.random() < 0.7:
        return Hello(n=n, app="restoring", mode=RESTORE)
    stages: tuple[RestoreStage, ...] = ("begun", "appending", "done") if plan else ("begun",)
    tps = [tp for app, tp in fold.readers if app == hello.app]
    return Restore(
        n=n,
        plan=plan.plan if plan else f"plan {n}",
        stage=rng.choice(stages) if rng.random() < 0.85 else "aborted",
        apps=(hello.app,),
        author=rng.choice([NOBODY, *authors[-1:], *authors[-1:], *([plan.author] if plan else ())]),
        ends=log_ends(*((tp, 5) for tp in tps)),
        positions=tuple(
            AgentPosition(app=hello.app, agent="*", topic=tp.topic, partition=tp.partition, offset=4)
            for tp in tps
        ),
    )
