"""What can be relied on: `doctor`, `drill`, `invariants`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from snapkafka import ops
from snapkafka.advice import Advice
from snapkafka.cli.build import command
from snapkafka.cli.running import connect, console, json_of, notifier, print_json, run, who, write_file
from snapkafka.cli.screen import COLOURS
from snapkafka.drivers.faust.offline import DescribedApp, describe_app_at
from snapkafka.errors import EXIT_NOT_GOOD
from snapkafka.ops import Invariant
from snapkafka.runtime.extras import require_extra
from snapkafka.verbs import Doctor, Drill, Invariants, Where

#: As many others of a kind are named.
NAMED_MAX: Final = 3

# -- doctor ---------------------------------------------------------------------------------------------------


def print_advice(found: Sequence[Advice], *, verbose: bool) -> None:
    """Print findings in their order; with `verbose` each by itself, with its command and the one that undoes that."""
    kinds: dict[object, list[Advice]] = {}
    for advice in found:
        kinds.setdefault(advice.code if advice.subject and not verbose else id(advice), []).append(advice)
    for advice, *others in kinds.values():
        console.print((advice.weight, COLOURS[advice.weight]), f" {advice.code}: {advice.what}", hang=4)
        if others:
            named = ", ".join(other.subject for other in others[:NAMED_MAX])
            more = len(others) - NAMED_MAX
            console.print(f"  likewise: {named}" + (f" and {more} more" if more > 0 else ""))
        if advice.do:
            console.print(f"  {advice.do}", style="dim")
        if verbose and advice.command:
            console.command(advice.command, indent=4)
        if verbose and advice.undo:
            console.print("  to undo it:", style="dim")
            console.command(advice.undo, indent=4)
    if not verbose and (len(kinds) < len(found) or any(advice.command for advice in found)):
        console.print("Add -v for each finding and for commands.", style="dim")


@command("doctor", own_json=True)
def doctor(at: Where, asked: Doctor) -> None:
    async def work() -> ops.Checkup | DescribedApp:
        if not asked.offline:
            return await ops.doctor(connect(at.bootstrap), at.namespace)
        require_extra("faust", "--offline")
        return describe_app_at(asked.offline)

    found = run(work)
    if console.as_json:
        print_json(found)
    else:
        console.show(found, ("found",))
        print_advice(found.found, verbose=asked.verbose)
        if not found.found:
            console.print(("Snapshots hold all of this app." if asked.offline else "No problems.", "green"))
    if not found.well:
        raise typer.Exit(EXIT_NOT_GOOD)


# -- drill ----------------------------------------------------------------------------------------------------


#: After Ctrl-C: workers leave their groups, and topics are deleted.
CLEANS_UP_WITHIN_S = 180.0


@command("drill")
def drill(
    at: Where,
    asked: Drill,
    spec: Annotated[ops.JobSpec, ("invariants", "parameters", "unpickle", "engine")],
    json_file: Annotated[
        str, typer.Option("--json", metavar="FILE", help="Write the result as JSON; `-` prints it.")
    ] = "",
) -> None:
    console.as_json = json_file == "-"
    said = notifier(anyway=True)
    found = run(
        lambda: ops.drill(connect(at.bootstrap), at.namespace, asked, who=who(), spec=spec, notify=said),
        ends_within_s=CLEANS_UP_WITHIN_S,
    )
    if console.as_json:
        print_json(found)
    else:
        console.show(found)
        fork = f"; fork {found.fork} is left: `snapkafka fork drop {found.fork}`"
        verdict = ("can be trusted", "bold green") if found.trusted else ("cannot be trusted", "bold red")
        console.print("the backup ", verdict, fork if found.kept or not found.removed else "")
    if json_file and not console.as_json:
        write_file(Path(json_file), json_of(found))
    if not found.trusted:
        raise typer.Exit(EXIT_NOT_GOOD)


# -- invariants -----------------------------------------------------------------------------------------------


def _print_invariants(found: Sequence[Invariant]) -> None:
    if not found:
        console.print("No snapshot evaluates an invariant. Add some by `snapkafka keep --invariants DIR`.")
    for item in found if len(found) == 1 else ():
        for shown in item.violations:
            console.print(f"violated in {shown.id}, rows: {shown.found:,}", style="bold")
            console.table(shown.rows, "topic", "partition", "offset", "what")
        console.table(item.evaluations, "snapshot=id", "triggered_ms", "state=holding", "rows=found")
    console.table(
        found,
        "invariant=name",
        "state=holding",
        ("rows", lambda it: it.last and it.last.found),
        "last_held_in=last_ok",
        "first_violated_in=broke",
        "not_evaluated_since",
    )


@command("invariants", _print_invariants, key="invariants")
async def invariants(at: Where, asked: Invariants) -> tuple[Invariant, ...]:
    found = await ops.invariants(connect(at.bootstrap), at.namespace, asked.name)
    return tuple(it if asked.name else it.listed() for it in found)
