"""`fork`: create, list, compare and drop second systems made of snapshots."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import typer
from rich.markup import escape

from snapkafka import ops
from snapkafka.durations import duration_ms
from snapkafka.errors import EXIT_NOT_GOOD, BadInputError

from .confirming import confirm
from .erased import AllowUnmatched, find_held, print_held, print_rules
from .options import AsJson, Bootstrap, Namespace
from .querying import print_difference
from .running import EXIT_STATUSES, connect, console, notices, print_json, run, who
from .tables import table

__all__ = ["app"]

F = TypeVar("F", bound=Callable[..., Any])

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
HELPS = {
    "create": "Create a fork of a snapshot: topics under a prefix, with state and messages in flight.",
    "list": "List the forks of this cluster.",
    "diff": "Print what a fork has changed since its snapshot; it takes an assembled snapshot of the fork.",
    "drop": "Remove a fork: its topics, consumer groups and ledger. Asks before.",
}
Name = Annotated[str, typer.Argument(metavar="NAME", help="The fork's name: letters, digits and dashes.")]


def _command(name: str) -> Callable[[F], F]:
    return app.command(name=name, help=HELPS[name], epilog=EXIT_STATUSES)


@_command("create")
def create(
    name: Name,
    snapshot: Annotated[
        str,
        typer.Option("--from", metavar="ID", help="The snapshot: its id, epoch, or latest, the last good."),
    ] = "latest",
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    storage: Annotated[
        str, typer.Option("--storage", help="Where its tables lie; default: their place in the ledger.")
    ] = "",
    expires: Annotated[
        str,
        typer.Option("--expires", metavar="TIME", help="`fork drop --expired` removes it then: 90min, 2d."),
    ] = "",
    with_inputs: Annotated[
        bool,
        typer.Option(
            "--with-inputs", help="Copy the external records, too, from each position in the snapshot to now."
        ),
    ] = False,
    mask: Annotated[
        str, typer.Option("--mask", metavar="FILE", help="TOML: replace values of tables and topics by SQL.")
    ] = "",
    suppress: Annotated[
        str,
        typer.Option("--suppress", metavar="FILE", help="TOML: keys of people who were erased stay erased."),
    ] = "",
    allow_unmatched: AllowUnmatched = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Fork a snapshot that is not VERIFIED; its values may be wrong."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and every reason to refuse it; change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    options: dict[str, Any] = {
        "snapshot": snapshot,
        "storage": storage,
        "with_inputs": with_inputs,
        "force": force,
    }
    expires_s = run(lambda: _seconds(expires), as_json=as_json)
    masks, suppression = run(lambda: _files(mask, suppress), as_json=as_json)
    options |= {"mask": masks, "suppress": suppression, "allow_unmatched": allow_unmatched}
    planned = None
    if dry_run or not yes:
        planned = run(
            lambda: ops.plan_fork(connect(bootstrap), namespace, name, **options),
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
        _confirm(f"create fork {planned.fork}?", as_json=as_json, planned=planned)
    done = run(
        lambda: ops.create_fork(
            connect(bootstrap),
            namespace,
            name,
            expires_s=expires_s,
            who=who(),
            say=_say(as_json=as_json),
            **options,
        ),
        as_json=as_json,
    )
    if not as_json:
        _print_created(done, edited=bool(masks or suppression is not None))
    held = run(
        lambda: find_held(connect(bootstrap), namespace, done.snapshot, suppression, storage=storage),
        as_json=as_json,
    )
    if as_json:
        print_json({"planned": planned, "done": done, "still_held": held})
    else:
        print_held(held)


def _print_created(done: ops.Forked, *, edited: bool) -> None:
    console.print(
        f"fork [bold]{escape(done.fork)}[/] of snapshot {escape(done.snapshot)}: {len(done.topics)} topics,"
        f" {done.messages:,} messages in flight, {done.inputs:,} external records, {done.state:,} rows of state,"
        f" in {done.seconds:.1f} s{_until(done.expires_ms)}",
        soft_wrap=True,
    )
    if edited:
        console.print(f"masked: {done.masked:,} values; suppressed: {done.suppressed:,} records and rows")
    console.print(f"start its workers: SNAPKAFKA_FORK={done.fork} faust -A ... worker", soft_wrap=True)


@_command("list")
def list_(bootstrap: Bootstrap = None, namespace: Namespace = "", as_json: AsJson = False) -> None:
    found = run(lambda: ops.list_forks(connect(bootstrap), namespace), as_json=as_json)
    if as_json:
        print_json({"forks": found})
        return
    rows = table("fork", "of", "snapshot", "state", "created", "expires", "topics", "by", right=("topics",))
    for it in found:
        rows.add_row(
            escape(it.fork),
            escape(it.source),
            escape(it.snapshot),
            it.stage,
            _moment(it.created_ms),
            _moment(it.expires_ms) if it.expires_ms else "never",
            str(len(it.topics)),
            escape(it.who),
        )
    if found:
        console.print(rows)
    else:
        console.print("there is no fork")


@_command("diff")
def diff(
    name: Name,
    after: Annotated[
        str, typer.Option("--to", metavar="ID", help="A snapshot of the fork; default: its last good one.")
    ] = "latest",
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    storage: Annotated[
        str,
        typer.Option("--storage", help="Where the first snapshot lies; default: its place in the ledger."),
    ] = "",
    keys: Annotated[
        int, typer.Option("--keys", metavar="N", min=0, help="Name so many keys of each change.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    found = run(
        lambda: ops.diff_fork(connect(bootstrap), namespace, name, after=after, storage=storage, keys=keys),
        as_json=as_json,
    )
    if as_json:
        print_json(found)
    else:
        print_difference(found)


@_command("drop")
def drop(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The fork's name.")] = "",
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    expired: Annotated[
        bool,
        typer.Option(
            "--expired", help="Remove the forks whose time is over; only topics that their creation created."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    run(lambda: _one_of(name, expired=expired), as_json=as_json)
    if not yes:
        what = (
            "the forks whose time is over"
            if expired
            else f"fork {name}: every topic that begins with fork.{name}."
        )
        _confirm(f"remove {what}?", as_json=as_json)
    if expired:
        found = run(
            lambda: ops.drop_expired(connect(bootstrap), namespace, say=_say(as_json=as_json)),
            as_json=as_json,
        )
    else:
        found = (
            run(
                lambda: ops.drop_fork(connect(bootstrap), namespace, name, say=_say(as_json=as_json)),
                as_json=as_json,
            ),
        )
    if as_json:
        print_json({"dropped": found})
        return
    for it in found:
        if it.kept:
            console.print(f"fork [bold]{escape(it.fork)}[/] stays: {escape(it.kept)}", soft_wrap=True)
        else:
            console.print(f"fork [bold]{escape(it.fork)}[/] is removed: {len(it.topics)} topics")
        if it.left:
            console.print(f"  not created with it, and left: {escape(', '.join(it.left))}", soft_wrap=True)
    if not found:
        console.print("no fork has expired")


# --- Parts of them ---------------------------------------------------------------------------------------------------


async def _seconds(text: str) -> float | None:
    return duration_ms(text, "--expires") / 1_000 if text else None


async def _files(mask: str, suppress: str) -> tuple[tuple[ops.Mask, ...], ops.Suppression | None]:
    return ops.read_masks(mask) if mask else (), ops.read_suppression(suppress) if suppress else None


async def _one_of(name: str, *, expired: bool) -> None:
    if bool(name) == expired:
        raise BadInputError("drop takes the name of a fork, or --expired", hint="see `snapkafka fork list`")


def _confirm(question: str, *, as_json: bool, planned: ops.ForkPlan | None = None) -> None:
    asks = "fork asks before it creates or removes anything"
    confirm(question, asks=asks, hint="add --yes", as_json=as_json, planned=planned)


def _say(*, as_json: bool) -> Callable[[str], None]:
    if as_json:
        return lambda text: None
    return lambda text: notices.print(f"fork: {text}", markup=False)


def _print_plan(plan: ops.ForkPlan) -> None:
    console.print(
        f"fork [bold]{escape(plan.fork)}[/] of {escape(plan.source)}, snapshot [bold]{escape(plan.snapshot)}[/]"
        f"  epoch {plan.epoch}  {plan.verdict}: {plan.records:,} messages in flight, {plan.state:,} rows of state"
        + (f", {plan.stored:,} external records that only the snapshot has" if plan.stored else ""),
        soft_wrap=True,
    )
    rows = table("topic", "partitions", "settings that differ from production's", right=("partitions",))
    for it in plan.topics:
        changed = ", ".join(f"{name}={value}" for name, value in it.changed.items())
        rows.add_row(escape(it.topic), str(it.partitions), escape(changed))
    console.print(rows)
    print_rules(plan.rules)
    if plan.unfinished:
        console.print(f"removed first: {len(plan.unfinished)} topics that an earlier attempt has left")
    for refusal in plan.refusals:
        console.print(f"[red]refused[/] ({refusal.code}): {escape(refusal.what)}", soft_wrap=True)
        console.print(f"        {escape(refusal.hint)}", soft_wrap=True)


def _until(expires_ms: int) -> str:
    return f"; expires {_moment(expires_ms)}" if expires_ms else ""


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ") if at_ms else "unknown"
