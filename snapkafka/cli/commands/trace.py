"""`snapkafka trace`: the causes of a message."""

from __future__ import annotations

from typing import Annotated

import typer

from snapkafka import ops
from snapkafka.cli.options import AsJson, Bootstrap, Namespace
from snapkafka.cli.running import connect, console, print_json, run


def trace(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic of the message.")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", help="Its partition.")],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", help="Its offset.")],
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    as_json: AsJson = False,
) -> None:
    """Follow the causes of a message.

    Which event sent it, which message that event was for, and so on.
    """
    found = run(
        lambda: ops.trace(connect(bootstrap), namespace, topic, partition, offset),
        as_json=as_json,
    )
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
    what = "marker of" if step.marker else "sent by"
    return f"{place}, {what} {step.app or 'an unknown app'} (process {step.process}, seq {step.seq}), {_when(step)}"


def _when(step: ops.TraceStep) -> str:
    return f"after snapshot {step.after or f'of epoch {step.epoch}'}" if step.epoch else "before any snapshot"
