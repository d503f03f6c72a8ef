"""`snapkafka trace`: the causes of a message."""

from __future__ import annotations

from typing import Annotated

import typer

from snapkafka import ops

from .options import AsJson, Bootstrap, Namespace
from .running import connect, print_json, run

__all__ = ["trace"]


def trace(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION")],
    offset: Annotated[int, typer.Argument(metavar="OFFSET")],
    steps: Annotated[
        int, typer.Option("--steps", metavar="N", help="Follow at most so many causes.")
    ] = ops.STEPS_MAX,
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    as_json: AsJson = False,
) -> None:
    """Run `snapkafka trace`."""
    found = run(
        lambda: ops.trace(connect(bootstrap), namespace, topic, partition, offset, most=steps),
        as_json=as_json,
    )
    if as_json:
        print_json(found)
        return
    for number, step in enumerate(found.steps):
        print(f"{'  because of ' if number else ''}{_line(step)}")
    print(found.end)


def _line(step: ops.Step) -> str:
    place = f"{step.topic}[{step.partition}] offset {step.offset}"
    if step.process < 0:
        return f"{place}, external"
    colour = f"red for {step.after or f'epoch {step.epoch}'}" if step.epoch else "white for every snapshot"
    what = "marker of" if step.marker else "sent by"
    return (
        f"{place}, {what} {step.app or 'an unknown app'} (process {step.process}, seq {step.seq}), {colour}"
    )
