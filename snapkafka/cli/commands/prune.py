"""`snapkafka prune`: remove old snapshots from a storage."""

from __future__ import annotations

from typing import Annotated

from snapkafka import ops
from snapkafka.cli.build import AsJson
from snapkafka.cli.propose import Proposal, propose
from snapkafka.cli.running import connect, console
from snapkafka.errors import BadInputError
from snapkafka.kafka.login.connection import Connection
from snapkafka.ops.pruning import PlannedSnapshot
from snapkafka.store import Leftover
from snapkafka.units import format_bytes
from snapkafka.verbs import Change, Prune, Where


def prune(at: Annotated[Where, ("bootstrap",)], asked: Prune, how: Change, as_json: AsJson = False) -> None:
    policy = ops.Policy(last=asked.keep_last)

    def where() -> Connection | None:
        return connect(at.bootstrap) if at.bootstrap else None

    propose(
        Proposal(
            plan=lambda: _planned(asked.storage, policy, where()),
            act=lambda plan: ops.prune(asked.storage, policy, plan, where=where()),
            show=_print_plan,
            report=_print_done,
            question=lambda plan: f"remove {format_bytes(plan.bytes)}?",
            empty=lambda plan: not (plan.removed or plan.leftovers),
            change="removed",
        ),
        how,
        as_json=as_json,
    )


async def _planned(storage: str, policy: ops.Policy, where: Connection | None) -> ops.Pruning:
    planned = await ops.plan_pruning(storage, policy, where=where)
    if planned.removed and where is None:
        raise BadInputError(
            "no broker is given, so snapshots that open restores and forks need are unknown",
            hint="add --bootstrap host:port",
        )
    return planned


def _print_plan(planned: ops.Pruning) -> None:
    console.table(
        (*planned.kept, *planned.removed, *planned.leftovers),
        ("snapshot", lambda it: it.name if isinstance(it, Leftover) else it.id),
        ("namespace", lambda it: getattr(it, "namespace", "")),
        ("verdict", lambda it: getattr(it, "verdict", "")),
        ("assembled", lambda it: getattr(it, "assembled_at", "")[:16].replace("T", " ")),
        ("plan", lambda it: "keep" if getattr(it, "why", "") else ("remove", "bold")),
        ("why", _why),
        ("bytes", lambda it: "" if getattr(it, "why", "") else format_bytes(it.bytes)),
    )
    if not (planned.removed or planned.leftovers):
        console.print(("Nothing to remove.", "green"))


def _why(item: PlannedSnapshot | Leftover) -> str:
    if isinstance(item, Leftover):
        return "never finished"
    return item.why or f"keeps {', '.join(item.foreign)}" * bool(item.foreign)


def _print_done(planned: ops.Pruning, done: ops.Pruning) -> None:
    console.print(
        f"snapshots removed: {len(done.removed)}, leftovers: {len(done.leftovers)}, {format_bytes(done.bytes)}"
    )
    for item in planned.removed:
        if item not in done.removed:
            console.print(f"{item.id} was kept: it has changed, or a restore or fork needs it now")
