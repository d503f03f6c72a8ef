"""`restore`: shows the plan, asks, and prints what was done."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated

import typer
from rich.markup import escape

from snapkafka import ops
from snapkafka.errors import EXIT_NOT_GOOD
from snapkafka.kafka.lasting import said_bytes
from snapkafka.ops import RestoreSelection

from .confirming import confirm
from .options import AsJson, Bootstrap, Namespace
from .restore_checking import check_restored
from .restoring_into import restore_into
from .running import connect, console, notices, print_json, run, who
from .tables import table

__all__ = ["restore"]


def restore(
    snapshot: Annotated[
        str,
        typer.Argument(metavar="ID", help="The snapshot: its id, its epoch, or latest, the last good one."),
    ] = "latest",
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    storage: Annotated[
        str, typer.Option("--storage", help="Where its tables lie; default: their place in the ledger.")
    ] = "",
    into: Annotated[
        str,
        typer.Option(
            "--into",
            metavar="HOST:PORT",
            help="Restore into this empty cluster, from --storage alone: nothing is asked of the old one.",
        ),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and every reason to refuse it; change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Restore a snapshot that is not VERIFIED, or into code that reads it otherwise; values may be wrong.",
        ),
    ] = False,
    app: Annotated[
        list[str] | None,
        typer.Option("--app", help="Restore this app alone: no consistent cut; repeatable."),
    ] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", help="Restore the state of this table alone: no consistent cut; repeatable."),
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--keys", metavar="KEY", help="Restore this key of the table alone, as JSON or text; repeatable."
        ),
    ] = None,
    drop_missing: Annotated[
        bool,
        typer.Option(
            "--drop-missing",
            help="Leave out tables, agents and inputs that the code no longer has, and name them.",
        ),
    ] = False,
    wait: Annotated[
        float,
        typer.Option(
            "--wait", metavar="SECONDS", min=0, help="Wait so long for the workers to leave their groups."
        ),
    ] = 0.0,
    safety: Annotated[
        bool,
        typer.Option(
            "--safety/--no-safety",
            help="With --wait, where workers run: take a snapshot first, the way back.",
        ),
    ] = True,
    suppress: Annotated[
        str,
        typer.Option("--suppress", metavar="FILE", help="TOML: keys of people who were erased stay erased."),
    ] = "",
    abort: Annotated[
        bool, typer.Option("--abort", help="Give up the restore that is open, before its commit point.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Compare a system without workers with the snapshot; change nothing. Status 1: it differs.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run `snapkafka restore`."""
    if abort:
        plan = run(
            lambda: ops.abort_restore(connect(into or bootstrap), namespace, reason=f"given up by {who()}"),
            as_json=as_json,
        )
        if as_json:
            print_json({"aborted": plan})
        else:
            console.print(f"plan {plan} is aborted: workers start as if it had never begun")
        return
    suppression = run(lambda: _suppression(suppress), as_json=as_json)
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
    if into:
        given = {"--app": app, "--table": tables, "--keys": keys, "--wait": wait, "--no-safety": not safety}
        restore_into(
            into,
            namespace,
            snapshot,
            storage=storage,
            force=force,
            drop_missing=drop_missing,
            suppression=suppression,
            in_place=[option for option, value in given.items() if value],
            dry_run=dry_run,
            yes=yes,
            as_json=as_json,
        )
        return
    planned = None
    if dry_run or not yes:
        planned = run(
            lambda: ops.plan_restore(
                connect(bootstrap),
                namespace,
                snapshot,
                storage=storage,
                force=force,
                drop_missing=drop_missing,
                selection=selection,
            ),
            as_json=as_json,
        )
        if not as_json:
            _print_plan(planned)
        if dry_run or planned.refused:
            if as_json:
                print_json({"planned": planned, "done": None})
            if planned.refused:
                raise typer.Exit(EXIT_NOT_GOOD)
            return
        confirm(
            f"restore {', '.join(planned.apps)} to {planned.snapshot}?",
            asks="restore asks before it changes anything",
            hint="see what --dry-run prints, then add --yes",
            as_json=as_json,
            planned=planned,
        )
    done = run(
        lambda: ops.restore(
            connect(bootstrap),
            namespace,
            snapshot,
            storage=storage,
            force=force,
            drop_missing=drop_missing,
            selection=selection,
            wait_s=wait,
            safety=safety,
            suppress=suppression,
            who=who(),
            say=(lambda text: None)
            if as_json
            else (lambda text: notices.print(f"restore: {text}", markup=False)),
        ),
        as_json=as_json,
    )
    if as_json:
        print_json({"planned": planned, "done": done})
    else:
        _print_done(done)


async def _suppression(path: str) -> ops.Suppression | None:
    return ops.read_suppression(path) if path else None


def _print_plan(plan: ops.RestorePlan) -> None:
    console.print(
        f"restore of [bold]{escape(', '.join(plan.apps))}[/] to snapshot [bold]{escape(plan.snapshot)}[/]"
        f"  epoch {plan.epoch}  {plan.verdict}: overwrites, does not merge",
        soft_wrap=True,
    )
    if plan.resumes:
        console.print(f"continues plan {plan.resumes}, which is {plan.stage}")
    moves = table(
        "app", "input", "partition", "committed", "new", "appended", right=("partition", "committed")
    )
    for move in plan.moves:
        moves.add_row(
            escape(move.app),
            escape(move.topic),
            str(move.partition),
            "-" if move.before < 0 else str(move.before),
            "behind its end" if move.after is None else str(move.after),
            f"{move.appends:,}" if move.appends else "",
        )
    console.print(moves)
    work = table("topic", "kind", "records, at most", "bytes", right=("records, at most", "bytes"))
    for item in plan.work:
        work.add_row(escape(item.topic), item.kind, f"{item.records:,}", said_bytes(item.bytes))
    if plan.work:
        console.print(work)
    if plan.open:
        console.print(f"unproven paths lead through {escape(', '.join(plan.open))}", soft_wrap=True)
    for note in plan.notes:
        console.print(f"[yellow]note[/]: {escape(note)}", soft_wrap=True)
    _print_irrevocable(plan.irrevocable)
    for refusal in plan.refusals:
        console.print(f"[red]refused[/] ({refusal.code}): {escape(refusal.what)}", soft_wrap=True)
        console.print(f"        {escape(refusal.hint)}", soft_wrap=True)


def _print_irrevocable(found: tuple[ops.Irrevocable, ...]) -> None:
    by_topic: dict[str, list[ops.Irrevocable]] = defaultdict(list)
    for item in found:
        by_topic[item.topic].append(item)
    for topic, items in by_topic.items():
        ranges = ", ".join(f"{item.partition}: {item.start}-{item.end - 1}" for item in items)
        console.print(
            f"cannot be taken back: outputs in {escape(topic)}, partition: offsets {ranges}", soft_wrap=True
        )


def _print_done(done: ops.Restored) -> None:
    console.print(
        f"restored {escape(', '.join(done.apps))} to [bold]{escape(done.snapshot)}[/] in {done.seconds:.1f} s"
        f" (plan {done.plan}): start the workers",
        soft_wrap=True,
    )
    if done.messages >= 0:
        console.print(f"appended: {done.messages:,} messages, {done.state:,} records of state")
    for note in done.notes:
        console.print(f"[yellow]note[/]: {escape(note)}", soft_wrap=True)
    if done.undo:
        console.print(f"undo: snapkafka assemble {done.undo}; snapkafka restore {done.undo}", soft_wrap=True)
    _print_irrevocable(done.irrevocable)
