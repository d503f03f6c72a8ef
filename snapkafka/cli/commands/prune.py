"""`snapkafka prune`: remove old snapshots from a storage."""

from __future__ import annotations

from typing import Annotated

from snapkafka import ops
from snapkafka.cli.build import AsJson
from snapkafka.cli.present.layout import Table
from snapkafka.cli.propose import Proposal, propose
from snapkafka.cli.running import connect, console
from snapkafka.errors import BadInputError
from snapkafka.kafka.login.connection import Connection
from snapkafka.ops.pruning import KeptSnapshot, Prunable
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
    rows = Table(
        "snapshot",
        "namespace",
        "verdict",
        "assembled",
        "plan",
        "why",
        "bytes",
        right=("bytes",),
    )
    for kept in planned.kept:
        rows.add(*_cells(kept), "keep", kept.why, "")
    for item in planned.removed:
        others = f"keeps {', '.join(item.foreign[:2])}" if item.foreign else ""
        more = f" and {len(item.foreign) - 2} more" if len(item.foreign) > 2 else ""
        rows.add(*_cells(item), ("remove", "bold"), others + more, format_bytes(item.bytes))
    for left in planned.leftovers:
        rows.add(left.name, "", "", "", ("remove", "bold"), "never finished", format_bytes(left.bytes))
    if rows:
        console.table(rows)
    if not (planned.removed or planned.leftovers):
        console.print(("Nothing to remove.", "green"))


def _cells(item: KeptSnapshot | Prunable) -> tuple[str, ...]:
    return (
        item.id,
        item.namespace,
        item.verdict,
        item.assembled_at[:16].replace("T", " "),
    )


def _print_done(planned: ops.Pruning, done: ops.Pruning) -> None:
    console.print(
        f"snapshots removed: {len(done.removed)}, leftovers: {len(done.leftovers)}, {format_bytes(done.bytes)}"
    )
    for item in planned.removed:
        if item not in done.removed:
            console.print(f"{item.id} was kept: it has changed, or a restore or fork needs it now")
