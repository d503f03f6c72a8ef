"""`drill`: print the result of a drill, and write it to a file; the exit status shows whether the backup can be
trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from snapkafka import ops
from snapkafka.cli.output_file import write_whole
from snapkafka.cli.running import connect, console, data_output, notices, run, who
from snapkafka.errors import EXIT_NOT_GOOD
from snapkafka.ops.drill import records_of
from snapkafka.units import format_seconds
from snapkafka.verbs import Drill, Where

#: After Ctrl-C: workers leave their groups, and topics are deleted.
PUTS_AWAY_WITHIN_S = 180.0


def drill(
    at: Where,
    asked: Drill,
    spec: Annotated[ops.JobSpec, ("invariants", "parameters", "unpickle", "engine")],
    json_file: Annotated[
        str, typer.Option("--json", metavar="FILE", help="Write the result as JSON; `-` prints it.")
    ] = "",
) -> None:
    found = run(
        lambda: ops.drill(
            connect(at.bootstrap),
            at.namespace,
            asked,
            who=who(),
            spec=spec,
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
    console.table(
        found.phases,
        "phase=name",
        "status",
        ("seconds", lambda it: f"{it.seconds:.1f}" if it.status != "not-run" else ""),
        ("result", lambda it: it.what if it.status == "done" else ""),
        notes=lambda it: [it.what] if it.status != "done" and it.what else [],
    )
    for item in found.compared:
        console.print(f"{item.what}: {item.snapshot:,} in the snapshot, {item.fork:,} in the fork")
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
        console.print(f"not removed: fork {found.id} (`snapkafka fork drop {found.id}`)")
