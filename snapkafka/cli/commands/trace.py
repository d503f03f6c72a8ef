"""`snapkafka trace`: the causes of a message."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from snapkafka import ops
from snapkafka.cli.options import AsJson, Bootstrap, Namespace, Stored
from snapkafka.cli.running import connect, console, print_json, run

#: Where a record lies, by its colour.
SIDES: Final = {"white": "before", "red": "after"}


def trace(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic of the message.")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", help="Its partition.")],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", help="Its offset.")],
    steps: Annotated[
        int, typer.Option("--steps", metavar="N", help="Follow at most N causes.")
    ] = ops.STEPS_MAX,
    snapshot: Annotated[
        str,
        typer.Option(
            "--snapshot", metavar="ID", help="Read the records kept with this snapshot, not the log."
        ),
    ] = "",
    storage: Stored = "",
    manifest: Annotated[
        str,
        typer.Option("--manifest", metavar="PATH", help="Manifest of the snapshot, instead of --snapshot."),
    ] = "",
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    as_json: AsJson = False,
) -> None:
    """Follow the causes of a message.

    Which event sent it, which message that event was for, and so on.
    """

    async def work() -> ops.Trace:
        if not (snapshot or manifest):
            return await ops.trace(connect(bootstrap), namespace, topic, partition, offset, most=steps)
        where = connect(bootstrap) if bootstrap or not (manifest or storage) else None
        return await ops.trace_stored(
            where,
            namespace,
            topic,
            partition,
            offset,
            name=snapshot,
            manifest=manifest,
            storage=storage,
            most=steps,
        )

    found = run(work, as_json=as_json)
    if as_json:
        print_json(found)
        return
    for number, step in enumerate(found.steps):
        console.print(f"{'  because of ' if number else ''}{step_line(step)}")
    console.print(found.end)


def step_line(step: ops.TraceStep) -> str:
    place = f"{step.topic}[{step.partition}] offset {step.offset}"
    if step.process < 0:
        return f"{place}, external"
    when = f"{SIDES[step.side]} the cut of {step.after}" if step.side else _when(step)
    what = "marker of" if step.marker else "sent by"
    return f"{place}, {what} {step.app or 'an unknown app'} (process {step.process}, seq {step.seq}), {when}"


def _when(step: ops.TraceStep) -> str:
    return f"after snapshot {step.after or f'of epoch {step.epoch}'}" if step.epoch else "before any snapshot"
