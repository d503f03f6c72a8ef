"""What can be relied on: `doctor`, `audit`, `drill`, `invariants`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from snapkafka import ops
from snapkafka.advice import Advice, Weight
from snapkafka.cli.build import command, good
from snapkafka.cli.commands.snapshots import coloured, count
from snapkafka.cli.layout import Part
from snapkafka.cli.progress import progress_lines
from snapkafka.cli.running import (
    connect,
    console,
    data_output,
    notices,
    notifier,
    print_json,
    run,
    who,
    write_file,
)
from snapkafka.drivers.faust.offline import DescribedApp, describe_app_at
from snapkafka.errors import EXIT_NOT_GOOD
from snapkafka.ops import Evaluation, Holding, Invariant
from snapkafka.ops.drill import records_of
from snapkafka.runtime.extras import extra_missing
from snapkafka.units import format_seconds, rounded_ms, utc_time
from snapkafka.verbs import Audit, Doctor, Drill, Invariants, Where

WEIGHTS: Final = {Weight.PROBLEM: "red", Weight.WARNING: "yellow", Weight.NOTE: "dim"}
#: As many others of a kind are named.
NAMED_MAX: Final = 3


def print_advice(found: Sequence[Advice], *, verbose: bool) -> None:
    """Print findings in their order.

    Args:
        verbose: each by itself, with the command that fixes it and the one that undoes that.
    """
    kinds: dict[object, list[Advice]] = {}
    for advice in found:
        kinds.setdefault(advice.code if advice.subject and not verbose else id(advice), []).append(advice)
    for advice, *others in kinds.values():
        console.print((advice.weight, WEIGHTS[advice.weight]), f" {advice.code}: {advice.what}", hang=4)
        if others:
            named = ", ".join(other.subject for other in others[:NAMED_MAX])
            more = len(others) - NAMED_MAX
            console.print(f"  likewise: {named}" + (f" and {more} more" if more > 0 else ""))
        if advice.do:
            console.print(f"  {advice.do}", style="dim")
        if verbose and advice.command:
            console.command(advice.command, indent=4)
            console.print("  to undo it:", style="dim")
            console.command(advice.undo, indent=4)
    if not verbose and (len(kinds) < len(found) or any(advice.command for advice in found)):
        console.print("Add -v for each finding and for commands.", style="dim")


# -- doctor ---------------------------------------------------------------------------------------------------


@command("doctor", own_json=True)
def doctor(at: Where, asked: Doctor) -> None:
    async def work() -> ops.Checkup | DescribedApp:
        if not asked.offline:
            return await ops.doctor(connect(at.bootstrap), at.namespace)
        try:
            return describe_app_at(asked.offline)
        except ModuleNotFoundError as error:
            if error.name != "faust":
                raise
            raise extra_missing("faust", "--offline", "faust") from error

    found = run(work)
    if console.as_json:
        print_json(found)
    else:
        if isinstance(found, DescribedApp):
            _print_described(found)
        else:
            apps = ", ".join(f"{app} ({number} running)" for app, number in found.apps.items())
            console.print(f"{found.namespace}: {apps or 'no app has joined'}")
        print_advice(found.found, verbose=asked.verbose)
        if not found.found:
            well = "Snapshots hold all of this app." if asked.offline else "No problems found."
            console.print((well, "green"))
    if not found.well:
        raise typer.Exit(EXIT_NOT_GOOD)


def _print_described(found: DescribedApp) -> None:
    console.print("app ", (found.app, "bold"))
    console.table(
        found.agents,
        "agent=name",
        ("reads", lambda it: ", ".join(it.topics) or "an in-memory channel"),
    )
    console.table(
        list(found.topics.items()),
        ("topic", lambda it: it[0]),
        ("read by", lambda it: ", ".join(it[1])),
    )
    console.table(
        found.tables,
        "table=name",
        "kind",
        "changelog",
        ("windows live", lambda it: rounded_ms(it.expires_ms) if it.expires_ms else ""),
    )


# -- audit ----------------------------------------------------------------------------------------------------


#: So many findings are printed; `--json` has all of them.
FINDINGS_SHOWN: Final = 20


def _print_audit(found: ops.AuditReport) -> None:
    console.table(
        found.partitions,
        "app",
        "table",
        ("partition", lambda it: "-" if it.partition < 0 else it.partition),
        "keys:,",
        ("result", _result),
    )
    console.note("differs", (it.cause for it in found.findings[:FINDINGS_SHOWN]), "red")
    if len(found.findings) > FINDINGS_SHOWN:
        console.print(f"and {len(found.findings) - FINDINGS_SHOWN:,} more: --json has them")
    unaudited = sum(bool(part.reason) for part in found.partitions)
    verdict: Part = ("are what their changelogs say", "green")
    if not found.partitions:
        verdict = ("were not audited: no app of it has tables", "yellow")
    elif found.findings:
        verdict = (f"differ from their changelogs in {count(len(found.findings), 'key')}", "red")
    elif unaudited:
        verdict = (f"were not all audited: {count(unaudited, 'partition')} left out", "yellow")
    console.print(
        "the tables at snapshot ", (found.snapshot, "bold"), " ", verdict, f" ({found.seconds:.1f} s)"
    )


def _result(part: ops.AuditedPartition) -> str:
    if part.reason:
        return f"not audited: {part.reason}"
    result = [f"{part.differing:,} differ" if part.differing else "same"]
    result += [f"{part.in_progress:,} in progress"] if part.in_progress else []
    result += [f"{part.expired:,} expired"] if part.expired else []
    return ", ".join(result)


@command("audit", _print_audit, status=good("same"))
async def audit(
    at: Where, asked: Audit, spec: Annotated[ops.JobSpec, ("storage", "unpickle", "engine")]
) -> ops.AuditReport:
    with progress_lines() as progress:
        return await ops.audit(
            connect(at.bootstrap),
            msgspec.structs.replace(spec, namespace=at.namespace),
            **msgspec.structs.asdict(asked),
            who=who(),
            capturing=progress,
            notify=notifier(),
            progress=progress,
        )


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
    found = run(
        lambda: ops.drill(
            connect(at.bootstrap),
            at.namespace,
            asked,
            who=who(),
            spec=spec,
            notify=lambda text: notices.print(f"drill: {text}"),
        ),
        ends_within_s=CLEANS_UP_WITHIN_S,
    )
    if not console.as_json:
        _print_drill(found)
    text = json.dumps(msgspec.to_builtins(found), indent=2, ensure_ascii=False) + "\n"
    if console.as_json:
        data_output().write(text)
    elif json_file:
        write_file(Path(json_file), text)
    if not found.trusted:
        raise typer.Exit(EXIT_NOT_GOOD)


def _print_drill(found: ops.Drill) -> None:
    console.table(
        found.phases,
        "phase=name",
        "status",
        ("seconds", lambda it: f"{it.seconds:.1f}" if it.status != "not-run" else ""),
        ("result", lambda it: it.what if it.status == "done" else ""),
        notes=lambda it: [it.what] if it.status != "done" and it.what else [],
    )
    for name, judged in (("snapshot", found.source), ("fork", found.of_fork)):
        if judged is not None:
            console.print(f"{name}: {judged.verdict}, {records_of(judged):,} records checked")
    console.print(f"RPO {format_seconds(found.rpo_s)}, RTO {format_seconds(found.rto_s)}")
    console.note("reason", found.reasons, "red")
    if found.trusted:
        console.print(("the backup can be trusted", "bold green"), f": {found.snapshot}")
    else:
        console.print(("the backup cannot be trusted", "bold red"))
    if found.kept or not found.removed:
        console.print(f"not removed: fork {found.fork} (`snapkafka fork drop {found.fork}`)")


# -- invariants -----------------------------------------------------------------------------------------------


#: How many of the newest snapshots of a history are printed; `--json` has them all.
EVALUATIONS_SHOWN = 20


def _print_invariants(found: Sequence[Invariant]) -> None:
    if not found:
        console.print("No snapshot evaluates an invariant. Add some by `snapkafka keep --invariants DIR`.")
    elif found[0].evaluations:
        _print_history(found[0])
    else:
        console.table(
            found,
            "invariant=name",
            ("state", _state),
            ("rows", lambda it: it.last and it.last.found),
            ("last held in", lambda it: it.last_ok.id if it.last_ok else "none"),
            ("first violated in", lambda it: it.broke and it.broke.id),
        )


@command("invariants", _print_invariants, key="invariants")
async def invariants(at: Where, asked: Invariants) -> list[Invariant]:
    found = await ops.invariants(connect(at.bootstrap), at.namespace, asked.name)
    return [it if asked.name else it.listed() for it in found]


def _print_history(found: Invariant) -> None:
    console.print("invariant ", (found.name, "bold"), "  ", coloured(_state(found)))
    for item in found.violations if found.broke else found.violations[:1]:
        _print_rows("first violated in" if item == found.violations[0] else "last violated in", item)
    if found.last_ok is not None:
        console.print(f"last held in {found.last_ok.id}, {utc_time(found.last_ok.triggered_ms)} UTC")
    console.table(
        found.evaluations[:EVALUATIONS_SHOWN],
        "snapshot=id",
        ("when (UTC)", lambda it: utc_time(it.triggered_ms)),
        "state=holding",
        "rows=found",
    )


def _print_rows(title: str, item: Evaluation) -> None:
    console.print(f"{title} {item.id}, {utc_time(item.triggered_ms)} UTC, rows: {item.found:,}")
    if item.unreadable:
        console.print(f"  its rows cannot be read: {item.unreadable}")
    for row in item.rows:
        console.print(f"  {row.what}")
        if row.topic and row.offset >= 0:
            console.print(f"    causes: snapkafka trace {row.topic} {row.partition} {row.offset}")


def _state(found: Invariant) -> str:
    if found.holding is Holding.UNPROVEN and found.not_evaluated_since is not None:
        return f"not evaluated since {found.not_evaluated_since.id}"
    return found.holding
