"""Answers of commands that ask once."""

from __future__ import annotations

from collections.abc import Sequence

from snapkafka import ops
from snapkafka.cli.running import console
from snapkafka.units import utc_time


def print_trace(found: ops.Trace) -> None:
    """Print the chain of causes."""
    for number, step in enumerate(found.steps):
        console.print(f"{'  because of ' if number else ''}{step_line(step)}")
    console.print(found.end)


def step_line(step: ops.TraceStep) -> str:
    place = f"{step.topic}[{step.partition}] offset {step.offset}"
    if step.process < 0:
        return f"{place}, external"
    what = "marker of" if step.marker else "sent by"
    when = f"after snapshot {step.after or f'of epoch {step.epoch}'}" if step.epoch else "before any snapshot"
    return f"{place}, {what} {step.app or 'an unknown app'} (process {step.process}, seq {step.seq}), {when}"


def print_forks(found: Sequence[ops.Fork]) -> None:
    """Print one line for each fork."""
    if not found:
        console.print("No forks.")
    console.table(
        found,
        "fork",
        "of=source",
        "snapshot",
        "state=stage",
        ("created", lambda it: moment(it.created_ms)),
        ("expires", lambda it: moment(it.expires_ms) if it.expires_ms else "never"),
        ("topics", lambda it: len(it.topics)),
        "by=who",
    )


def moment(at_ms: int) -> str:
    return f"{utc_time(at_ms)}Z" if at_ms else "unknown"
