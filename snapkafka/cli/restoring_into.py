"""`restore --into`: shows the plan for another cluster, asks, and prints what was done and what is not there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import typer
from rich.markup import escape

from snapkafka import ops
from snapkafka.errors import EXIT_NOT_GOOD, BadInputError

from .confirming import confirm
from .erased import find_held, print_held, print_rules
from .running import connect, console, notices, print_json, run, who
from .tables import table

__all__ = ["restore_into"]


def restore_into(
    into: str,
    namespace: str,
    snapshot: str,
    *,
    storage: str,
    force: bool,
    drop_missing: bool,
    suppression: ops.Suppression | None,
    allow_unmatched: bool,
    in_place: Collection[str],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Run `snapkafka restore --into`.

    Args:
        in_place: options that were given and that a restore in place alone has.
    """
    run(lambda: _fits(in_place), as_json=as_json)
    planned = None
    if dry_run or not yes:
        planned = run(
            lambda: ops.plan_restore_into(
                connect(into),
                namespace,
                snapshot,
                storage=storage,
                force=force,
                drop_missing=drop_missing,
                suppress=suppression,
                allow_unmatched=allow_unmatched,
            ),
            as_json=as_json,
        )
        if not as_json:
            _print_plan(into, planned)
        if dry_run or planned.refused:
            if as_json:
                print_json({"planned": planned, "done": None})
            if planned.refused:
                raise typer.Exit(EXIT_NOT_GOOD)
            return
        confirm(
            f"restore {', '.join(planned.apps)} into {into}?",
            asks="restore asks before it changes anything",
            hint="see what --dry-run prints, then add --yes",
            as_json=as_json,
            planned=planned,
        )
    done = run(
        lambda: ops.restore_into(
            connect(into),
            namespace,
            snapshot,
            storage=storage,
            force=force,
            drop_missing=drop_missing,
            suppress=suppression,
            allow_unmatched=allow_unmatched,
            who=who(),
            say=(lambda text: None)
            if as_json
            else (lambda text: notices.print(f"restore: {text}", markup=False)),
        ),
        as_json=as_json,
    )
    if not as_json:
        _print_done(into, done)
    held = run(lambda: find_held(None, "", done.snapshot, suppression, storage=storage), as_json=as_json)
    if as_json:
        print_json({"planned": planned, "done": done, "still_held": held})
    else:
        print_held(held)


async def _fits(in_place: Collection[str]) -> None:
    if in_place:
        raise BadInputError(
            f"--into and {', '.join(sorted(in_place))} do not go together",
            hint="a cluster without anything takes the whole snapshot; restore a part of it in place afterwards",
        )


def _print_plan(into: str, plan: ops.IntoPlan) -> None:
    console.print(
        f"restore of [bold]{escape(', '.join(plan.apps))}[/] from snapshot [bold]{escape(plan.snapshot)}[/]"
        f"  epoch {plan.epoch}  {plan.verdict} into {escape(into)}, namespace {escape(plan.namespace)}:"
        f" {plan.records:,} messages in flight, {plan.inputs:,} stored external records, {plan.state:,} rows of state",
        soft_wrap=True,
    )
    if plan.resumes:
        console.print(f"continues plan {plan.resumes}, which is {plan.stage}")
    rows = table("topic", "partitions", "settings", "not as recorded", right=("partitions",))
    for it in plan.topics:
        kept = {name: value for name, value in it.settings.items() if name not in it.changed}
        rows.add_row(escape(it.topic), str(it.partitions), _settings(kept), _settings(it.changed))
    if plan.topics:
        console.print(rows)
    if plan.existing:
        console.print(f"exist here: {escape(', '.join(plan.existing))}", soft_wrap=True)
    if plan.open:
        console.print(f"unproven paths lead through {escape(', '.join(plan.open))}", soft_wrap=True)
    _print_missing(plan.absent, plan.notes)
    print_rules(plan.rules)
    for refusal in plan.refusals:
        console.print(f"[red]refused[/] ({refusal.code}): {escape(refusal.what)}", soft_wrap=True)
        console.print(f"        {escape(refusal.hint)}", soft_wrap=True)


def _settings(settings: Mapping[str, str]) -> str:
    return escape(", ".join(f"{name}={value}" for name, value in settings.items()))


def _print_missing(absent: Iterable[ops.AbsentInput], notes: Iterable[str]) -> None:
    for it in absent:
        apart = (
            f"; of those below {it.apart_until} some agents have processed a record and others have not"
            if it.apart_until > it.start
            else ""
        )
        mixed = "; what the apps had sent there is restored" if it.mixed else ""
        console.print(
            f"[yellow]not there[/]: external records of {escape(it.topic)}[{it.partition}] from offset {it.start} of"
            f" the old log on ({it.unread:,} offsets up to the cut, and all after it){apart}{mixed}",
            soft_wrap=True,
        )
    for note in notes:
        console.print(f"[yellow]note[/]: {escape(note)}", soft_wrap=True)


def _print_done(into: str, done: ops.RestoredInto) -> None:
    console.print(
        f"restored {escape(', '.join(done.apps))} to [bold]{escape(done.snapshot)}[/] in {escape(into)} in"
        f" {done.seconds:.1f} s (plan {done.plan}): start the workers",
        soft_wrap=True,
    )
    if done.messages >= 0:
        console.print(
            f"created: {len(done.topics)} topics; appended: {done.messages:,} messages, {done.inputs:,} external"
            f" records, {done.state:,} records of state",
            soft_wrap=True,
        )
    if done.suppressed:
        console.print(f"suppressed: {done.suppressed:,} records and rows")
    _print_missing(done.absent, done.notes)
    console.print(f"undo: {escape(done.undo)}", soft_wrap=True)
