"""`fork`: create, list, compare and drop second systems made from snapshots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from snapkafka import ops
from snapkafka.cli.helps import command
from snapkafka.cli.options import AllowUnmatched, AsJson, Bootstrap, DryRun, Namespace, Stored, Suppress, Yes
from snapkafka.cli.present.layout import Table
from snapkafka.cli.present.plans import print_plan, print_recovered
from snapkafka.cli.present.printed import count
from snapkafka.cli.propose import Proposal, propose
from snapkafka.cli.running import connect, console, notices, print_json, run, who
from snapkafka.errors import BadInputError
from snapkafka.units import duration_ms, utc_time

from .query import print_difference

app = typer.Typer(
    help="Run a snapshot as a second system beside production.", no_args_is_help=True, rich_markup_mode="rich"
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the fork: letters, digits and dashes.")]


@command(app, "fork create")
def create(
    name: Name,
    snapshot: Annotated[
        str, typer.Option("--from", metavar="ID", help="Id, epoch or `latest` (newest good).")
    ] = "latest",
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    storage: Stored = "",
    expires: Annotated[
        str,
        typer.Option(
            "--expires", metavar="TIME", help="Let `fork drop --expired` remove it after TIME: 90min, 2d."
        ),
    ] = "",
    with_inputs: Annotated[
        bool, typer.Option("--with-inputs", help="Also copy external records, from the snapshot until now.")
    ] = False,
    mask: Annotated[
        str, typer.Option("--mask", metavar="FILE", help="TOML file with SQL that replaces values.")
    ] = "",
    suppress: Suppress = "",
    allow_unmatched: AllowUnmatched = False,
    force: Annotated[
        bool, typer.Option("--force", help="Accept an unverified snapshot; its values may be wrong.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Create a fork of a snapshot.

    Topics under a prefix, with the state and the messages in flight.
    """
    expires_s = run(lambda: _seconds(expires), as_json=as_json)
    masks, suppression = run(lambda: _files(mask, suppress), as_json=as_json)
    notify = _notify(as_json=as_json)
    request = ops.RecoveryRequest(
        namespace=namespace,
        name=snapshot,
        storage=storage,
        force=force,
        suppress=suppression,
        allow_unmatched=allow_unmatched,
        masks=masks,
        fork=name,
        with_inputs=with_inputs,
        expires_s=expires_s,
    )
    propose(
        Proposal(
            plan=lambda: ops.plan_recovery(connect(bootstrap), request),
            act=lambda plan: ops.recover(connect(bootstrap), plan, who=who(), notify=notify),
            show=print_plan,
            report=lambda plan, done: _print_created(done),
            question=lambda plan: f"create fork {plan.request.fork}?",
            refused=lambda plan: plan.refused,
        ),
        yes=yes,
        as_json=as_json,
        dry_run=dry_run,
    )


def _print_created(done: ops.Recovered) -> None:
    print_recovered(done)
    if done.expires_ms:
        console.print(f"expires {_moment(done.expires_ms)}: `snapkafka fork drop --expired` removes it then")
    console.print(f"start its workers: SNAPKAFKA_FORK={done.fork} faust -A ... worker")


@command(app, "fork list")
def list_(bootstrap: Bootstrap = None, namespace: Namespace = "", as_json: AsJson = False) -> None:
    """List the forks of this cluster."""
    found = run(lambda: ops.list_forks(connect(bootstrap), namespace), as_json=as_json)
    if as_json:
        print_json({"forks": found})
        return
    rows = Table(
        "fork",
        "of",
        "snapshot",
        "state",
        "created",
        "expires",
        "topics",
        "by",
        right=("topics",),
    )
    for it in found:
        rows.add(
            it.fork,
            it.source,
            it.snapshot,
            it.stage,
            _moment(it.created_ms),
            _moment(it.expires_ms) if it.expires_ms else "never",
            str(len(it.topics)),
            it.who,
        )
    if found:
        console.table(rows)
    else:
        console.print("No forks.")


@command(app, "fork diff")
def diff(
    name: Name,
    after: Annotated[
        str, typer.Option("--to", metavar="ID", help="Snapshot of the fork. Default: latest good snapshot.")
    ] = "latest",
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    storage: Stored = "",
    keys: Annotated[
        int,
        typer.Option("--keys", metavar="N", min=0, help="List up to N keys per table and kind of change."),
    ] = 0,
    values: Annotated[bool, typer.Option("--values", help="Show the values of the listed keys.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a fork has changed.

    It compares an assembled snapshot of the fork with its source.
    """
    found = run(
        lambda: ops.diff_fork(
            connect(bootstrap), namespace, name, after=after, storage=storage, keys=keys, values=values
        ),
        as_json=as_json,
    )
    if as_json:
        print_json(found)
    else:
        print_difference(found)


@command(app, "fork drop")
def drop(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the fork.")] = "",
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    expired: Annotated[bool, typer.Option("--expired", help="Remove expired forks.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove a fork.

    Shows the plan and asks. Removes its topics, consumer groups and ledger.
    """
    run(lambda: _one_of(name, expired=expired), as_json=as_json)
    propose(
        Proposal(
            plan=lambda: ops.plan_drop(connect(bootstrap), namespace, name, expired=expired),
            act=lambda plan: ops.drop_forks(connect(bootstrap), plan, notify=_notify(as_json=as_json)),
            show=_print_dropping,
            report=lambda plan, done: _print_dropped(done),
            question=lambda plan: f"remove {', '.join(it.fork for it in plan if not it.kept)}?",
            refused=lambda plan: bool(plan) and all(it.kept for it in plan),
            empty=lambda plan: not plan,
            change="removed",
        ),
        yes=yes,
        as_json=as_json,
        dry_run=dry_run,
    )


def _print_dropping(planned: tuple[ops.Dropping, ...]) -> None:
    if not planned:
        console.print("No fork has expired.")
    for it in planned:
        if it.kept:
            console.print(("refused", "red"), f": fork {it.fork} stays: {it.kept}")
            console.print("        stop its workers and run this again")
            continue
        console.print(
            "removes fork ", (it.fork, "bold"), f" ({it.namespace}): {count(len(it.topics), 'topic')}"
        )
        for name, _ in it.topics:
            console.print(f"  {name}")


def _print_dropped(found: tuple[ops.Dropped, ...]) -> None:
    for it in found:
        if it.kept:
            console.print("fork ", (it.fork, "bold"), f" stays: {it.kept}")
        else:
            console.print("removed fork ", (it.fork, "bold"), f": {count(len(it.topics), 'topic')}")
        if it.left:
            console.print(f"  kept, as it was not created with the fork: {', '.join(it.left)}")


# --- Parts of them ---------------------------------------------------------------------------------------------------


async def _seconds(text: str) -> float | None:
    return duration_ms(text, "--expires") / 1_000 if text else None


async def _files(mask: str, suppress: str) -> tuple[tuple[ops.Mask, ...], ops.Suppression | None]:
    return ops.read_masks(mask) if mask else (), ops.read_suppression(suppress) if suppress else None


async def _one_of(name: str, *, expired: bool) -> None:
    if bool(name) == expired:
        raise BadInputError("name a fork, or add --expired", hint="see `snapkafka fork list`")


def _notify(*, as_json: bool) -> Callable[[str], None]:
    if as_json:
        return lambda text: None
    return lambda text: notices.print(f"fork: {text}")


def _moment(at_ms: int) -> str:
    return f"{utc_time(at_ms)}Z" if at_ms else "unknown"
