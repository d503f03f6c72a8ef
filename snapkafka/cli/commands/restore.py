"""`restore`: in place, or into another cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from snapkafka import ops
from snapkafka.cli.options import AllowUnmatched, AsJson, Bootstrap, DryRun, Namespace, Stored, Suppress, Yes
from snapkafka.cli.present.plans import print_plan, print_recovered
from snapkafka.cli.propose import Proposal, propose
from snapkafka.cli.running import connect, console, notices, print_json, run, who
from snapkafka.errors import BadInputError
from snapkafka.kafka.ledger.reading import LATEST

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
    wait: Annotated[
        float,
        typer.Option(
            "--wait", metavar="SECONDS", min=0, help="First wait for the workers to leave their groups."
        ),
    ] = 0.0,
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
    suppression = run(lambda: _read(suppress, into, wait), as_json=as_json)
    if check:
        check_restored(
            into or bootstrap,
            namespace,
            snapshot,
            storage=storage,
            suppression=suppression,
            as_json=as_json,
        )
        return
    notify = _notify(as_json=as_json)
    if wait and not dry_run:
        run(
            lambda: ops.await_workers(
                connect(bootstrap),
                namespace,
                snapshot,
                wait_s=wait,
                storage=storage,
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
        suppress=suppression,
        allow_unmatched=allow_unmatched,
    )
    propose(
        Proposal(
            plan=lambda: ops.plan_recovery(connect(into or bootstrap), request),
            act=lambda plan: ops.recover(connect(into or bootstrap), plan, who=who(), notify=notify),
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


async def _read(suppress: str, into: str, wait: float) -> ops.Suppression | None:
    if into and wait:
        raise BadInputError(
            "--into and --wait cannot be combined", hint="stop the old workers, if there are any, before"
        )
    return ops.read_suppression(suppress) if suppress else None


def _notify(*, as_json: bool) -> Callable[[str], None]:
    if as_json:
        return lambda text: None
    return lambda text: notices.print(f"restore: {text}")
