"""`drill`: print the result of a drill, and write it to a file; the exit status shows whether the backup can be
trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from snapkafka import ops
from snapkafka.cli.job_options import READING, Spec, job_options
from snapkafka.cli.options import Bootstrap, Invariants, Namespace, Parameters, Stored
from snapkafka.cli.output_file import write_whole
from snapkafka.cli.present.layout import Table
from snapkafka.cli.running import connect, console, data_output, notices, run, who
from snapkafka.errors import EXIT_NOT_GOOD
from snapkafka.ops.drill import records_of
from snapkafka.units import duration_ms, format_seconds

#: After Ctrl-C: workers leave their groups, and topics are deleted.
PUTS_AWAY_WITHIN_S = 180.0
COLOURS = {"done": "green", "failed": "red", "not-run": "yellow"}


@job_options(*READING)
def drill(
    apps: Annotated[
        list[str], typer.Option("--app", metavar="COMMAND", help="Command that starts a worker. Repeatable.")
    ],
    snapshot: Annotated[
        str, typer.Option("--snapshot", metavar="ID", help="Id, epoch or `latest` (newest good).")
    ] = "latest",
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    storage: Stored = "",
    invariants: Invariants = None,
    parameters: Parameters = None,
    until: Annotated[
        str,
        typer.Option(
            "--until", metavar="FILE.sql", help="Wait until this SQL is true of the fork, then judge it."
        ),
    ] = "",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the fork; its workers are stopped.")] = False,
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout", metavar="TIME", help="Limit for becoming stable, and again for catching up."
        ),
    ] = "10min",
    joins_within: Annotated[
        str,
        typer.Option(
            "--join-within", metavar="TIME", help="Stop a command that has not joined as a fork by then."
        ),
    ] = "60s",
    allow: Annotated[
        list[int] | None,
        typer.Option(
            "--allow", metavar="PORT", help="Allow the commands TCP connections to PORT. Repeatable."
        ),
    ] = None,
    unlocked: Annotated[
        bool, typer.Option("--unlocked", help="Run the commands without the network lock.")
    ] = False,
    json_file: Annotated[
        str, typer.Option("--json", metavar="FILE", help="Write the result as JSON; `-` prints it.")
    ] = "",
    spec: Spec = ops.JobSpec,
) -> None:
    """Test a backup by running it as a temporary fork.

    Both the snapshot and the fork are verified, then the fork is removed. Production is only read.
    """
    found = run(
        lambda: ops.drill(
            connect(bootstrap),
            namespace,
            ops.DrillRequest(
                apps=apps,
                snapshot=snapshot,
                storage=storage,
                invariants=invariants or (),
                parameters=parameters or (),
                until=until,
                keep=keep,
                timeout_s=duration_ms(timeout, "--timeout") / 1_000,
                joins_within_s=duration_ms(joins_within, "--join-within") / 1_000,
                allow=allow or (),
                lock=not unlocked,
            ),
            who=who(),
            spec=spec(),
            notify=lambda text: notices.print(f"drill: {text}"),
        ),
        as_json=json_file == "-",
        ends_within_s=PUTS_AWAY_WITHIN_S,
    )
    if json_file != "-":
        _print(found)
    _write(json_file, json.dumps(msgspec.to_builtins(found), indent=2, ensure_ascii=False) + "\n")
    if not found.trusted:
        raise typer.Exit(EXIT_NOT_GOOD)


def _write(place: str, text: str) -> None:
    if place == "-":
        data_output().write(text)
    elif place:
        write_whole(Path(place), text)


def _print(found: ops.Drill) -> None:
    phases = Table("phase", "status", "seconds", "result", right=("seconds",))
    for phase in found.phases:
        phases.add(
            phase.name,
            (phase.status, COLOURS[phase.status]),
            f"{phase.seconds:.1f}" if phase.status != "not-run" else "",
            phase.what if phase.status == "done" else "",
            notes=(phase.what,) if phase.status != "done" and phase.what else (),
        )
    console.table(phases)
    for name, seconds in found.rto_phases.items():
        console.print(f"RTO, {name}: {seconds:.1f} s")
    for item in found.compared:
        console.print(f"{item.what}: {item.snapshot:,} in the snapshot, {item.fork:,} in the fork")
    for name, judged in (("snapshot", found.source), ("fork", found.of_fork)):
        if judged is not None:
            console.print(f"{name}: {judged.verdict}, {records_of(judged):,} records checked")
    console.print(f"RPO {format_seconds(found.rpo_s)}, RTO {format_seconds(found.rto_s)}")
    for reason in found.reasons:
        console.print(("reason", "red"), f": {reason}")
    if found.trusted:
        console.print(("the backup can be trusted", "bold green"), f": {found.snapshot}")
    else:
        console.print(("the backup cannot be trusted", "bold red"))
    if found.kept or not found.removed:
        console.print(f"not removed: fork {found.fork} (`snapkafka fork drop {found.fork}`)")
