"""`restore`: in place, or into another cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import Annotated

import typer

from snapkafka import ops
from snapkafka.cli.options import AllowUnmatched, AsJson, Bootstrap, DryRun, Namespace, Stored, Suppress, Yes
from snapkafka.cli.present.plans import print_plan, print_recovered
from snapkafka.cli.propose import Proposal, propose
from snapkafka.cli.running import connect, console, notices, print_json, run, who
from snapkafka.errors import BadInputError
from snapkafka.kafka.ledger.reading import LATEST
from snapkafka.ops import RestoreSelection

from .doctor import ask_one_way
from .restore_check import check_restored


def restore(
    snapshot: Annotated[
        str, typer.Argument(metavar="ID", help="Id, epoch or `latest` (newest good).")
    ] = LATEST,
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    storage: Stored = "",
    into: Annotated[
        str,
        typer.Option(
            "--into", metavar="HOST:PORT", help="Restore into this empty cluster, from --storage alone."
        ),
    ] = "",
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Annotated[
        bool, typer.Option("--force", help="Accept an unverified snapshot, or code that has changed.")
    ] = False,
    app: Annotated[
        list[str] | None,
        typer.Option("--app", metavar="APP", help="Restore only this app: no consistent cut. Repeatable."),
    ] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--table", metavar="TABLE", help="Restore only this table: no consistent cut. Repeatable."
        ),
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option("--keys", metavar="KEY", help="Restore only this key of the table. Repeatable."),
    ] = None,
    drop_missing: Annotated[
        bool,
        typer.Option("--drop-missing", help="Skip tables, agents and inputs that the code no longer has."),
    ] = False,
    wait: Annotated[
        float,
        typer.Option(
            "--wait", metavar="SECONDS", min=0, help="First wait for the workers to leave their groups."
        ),
    ] = 0.0,
    safety: Annotated[
        bool,
        typer.Option("--safety/--no-safety", help="With --wait: take a snapshot of the present state first."),
    ] = True,
    suppress: Suppress = "",
    allow_unmatched: AllowUnmatched = False,
    abort: Annotated[
        bool, typer.Option("--abort", help="Abort the open restore, if it has appended nothing yet.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Compare a stopped system with the snapshot; change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Restore apps to a snapshot, in place or in an empty cluster.

    Shows the plan and asks. All state is replaced with that of the snapshot; nothing is merged.
    """
    beside = {
        "an ID": snapshot != LATEST,
        "--check": check,
        "--dry-run": dry_run,
        "--app": bool(app),
        "--table": bool(tables),
        "--keys": bool(keys),
        "--drop-missing": drop_missing,
        "--suppress": bool(suppress),
        "--wait": bool(wait),
    }
    run(
        lambda: ask_one_way(*({"--abort": abort, name: given} for name, given in beside.items())),
        as_json=as_json,
    )
    if abort:
        _abort(into or bootstrap, namespace, as_json=as_json)
        return
    given = {"--app": app, "--table": tables, "--keys": keys, "--wait": wait, "--no-safety": not safety}
    in_place_only = [option for option, value in given.items() if value]
    suppression = run(lambda: _read(suppress, into, in_place_only), as_json=as_json)
    selection = RestoreSelection(apps=tuple(app or ()), tables=tuple(tables or ()), keys=tuple(keys or ()))
    if check:
        check_restored(
            into or bootstrap,
            namespace,
            snapshot,
            storage=storage,
            drop_missing=drop_missing,
            selection=selection,
            suppression=suppression,
            as_json=as_json,
        )
        return
    notify = _notify(as_json=as_json)
    undo = ""
    if wait and not dry_run:
        undo = run(
            lambda: ops.await_workers(
                connect(bootstrap),
                namespace,
                snapshot,
                wait_s=wait,
                storage=storage,
                selection=selection,
                safety=safety,
                who=who(),
                notify=notify,
            ),
            as_json=as_json,
        )
    request = ops.RecoveryRequest(
        namespace=namespace,
        name=snapshot,
        storage=storage,
        into=bool(into),
        force=force,
        drop_missing=drop_missing,
        selection=selection,
        suppress=suppression,
        allow_unmatched=allow_unmatched,
    )
    propose(
        Proposal(
            plan=lambda: ops.plan_recovery(connect(into or bootstrap), request),
            act=lambda plan: _restore(into or bootstrap, plan, undo, notify),
            show=print_plan,
            report=lambda plan, done: print_recovered(done, into),
            question=lambda plan: f"restore {', '.join(plan.apps)} to {plan.snapshot}?",
            refused=lambda plan: plan.refused,
        ),
        yes=yes,
        as_json=as_json,
        dry_run=dry_run,
    )


def _abort(bootstrap: str | None, namespace: str, *, as_json: bool) -> None:
    plan = run(
        lambda: ops.abort_restore(connect(bootstrap), namespace, reason=f"aborted by {who()}"),
        as_json=as_json,
    )
    if as_json:
        print_json({"aborted": plan})
    else:
        console.print(f"Plan {plan} is aborted. Nothing was appended; start the workers.")


async def _restore(
    bootstrap: str | None, plan: ops.RecoveryPlan, undo: str, notify: Callable[[str], None]
) -> ops.Recovered:
    done = await ops.recover(connect(bootstrap), plan, who=who(), notify=notify)
    way_back = f"snapkafka assemble {undo}; snapkafka restore {undo}" if undo else done.undo
    return dataclasses.replace(done, undo=way_back)


async def _read(suppress: str, into: str, in_place_only: Collection[str]) -> ops.Suppression | None:
    if into and in_place_only:
        raise BadInputError(
            f"--into and {', '.join(sorted(in_place_only))} cannot be combined",
            hint="restore the whole snapshot first, then a part of it in place",
        )
    return ops.read_suppression(suppress) if suppress else None


def _notify(*, as_json: bool) -> Callable[[str], None]:
    if as_json:
        return lambda text: None
    return lambda text: notices.print(f"restore: {text}")
