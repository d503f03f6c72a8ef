"""Commands around assembly, without Spark: `verify --offline` and `prune`."""

from __future__ import annotations

from typing import Annotated

import typer

from snapkafka import ops
from snapkafka.cli.options import AsJson, Bootstrap, DryRun, KeepDays, KeepLast, Yes
from snapkafka.cli.present.layout import Table
from snapkafka.cli.propose import Proposal, propose
from snapkafka.cli.running import connect, console, print_json, run
from snapkafka.errors import EXIT_NOT_GOOD, BadInputError
from snapkafka.kafka.login.connection import Connection
from snapkafka.ops.pruning import KeptSnapshot, Prunable
from snapkafka.units import format_bytes


def prune(
    storage: Annotated[
        str, typer.Option("--storage", metavar="URI", help="Directory or URI of the tables.")
    ] = "",
    keep_last: KeepLast = None,
    keep_days: KeepDays = None,
    namespace: Annotated[
        str,
        typer.Option("--namespace", metavar="NAME", help="Only snapshots of this namespace. Default: all."),
    ] = "",
    bootstrap: Bootstrap = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not check what open restores and forks need.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove old snapshots from storage.

    Shows the plan and asks. Keeps the newest good snapshot, and any that another snapshot, a restore or a fork needs.
    """
    policy = ops.Policy(last=keep_last, days=keep_days, namespace=namespace)

    def where() -> Connection | None:
        return connect(bootstrap) if bootstrap and not offline else None

    propose(
        Proposal(
            plan=lambda: _planned(storage, policy, where(), offline=offline),
            act=lambda plan: ops.prune(storage, policy, plan, where=where()),
            show=_print_plan,
            report=_print_done,
            question=lambda plan: f"remove {format_bytes(plan.bytes)}?",
            empty=lambda plan: not (plan.removed or plan.leftovers),
            change="removed",
        ),
        yes=yes,
        as_json=as_json,
        dry_run=dry_run,
    )


async def _planned(
    storage: str, policy: ops.Policy, where: Connection | None, *, offline: bool
) -> ops.Pruning:
    planned = await ops.plan_pruning(storage, policy, where=where)
    if planned.removed and where is None and not offline:
        raise BadInputError(
            "no broker is given, so snapshots that open restores and forks need are unknown",
            hint="add --bootstrap host:port; or --offline if no restore or fork uses this storage",
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


def verify_offline(snapshot: str, namespace: str, manifest: str, storage: str, *, as_json: bool) -> None:
    """Print the damage, file by file; exit with status 30 if there is any, or if the verdict is not a good one."""
    found = run(
        lambda: ops.verify_offline(snapshot, namespace=namespace, manifest=manifest, storage=storage),
        as_json=as_json,
    )
    if as_json:
        print_json(found)
    else:
        _print_examined(found)
    if not found.good:
        raise typer.Exit(EXIT_NOT_GOOD)


def _print_examined(found: ops.ExaminedFiles) -> None:
    for damage in found.damage:
        console.print(("damaged", "red"), f" {damage.file}: {damage.what}")
    if not found.damage:
        console.print(
            "snapshot ",
            (found.id, "bold"),
            f"  epoch {found.epoch}: {found.files} files,"
            f" {format_bytes(found.bytes)}, unaltered; verdict {found.verdict}",
        )
    console.print(f"manifest: {found.manifest}")
