"""`snapkafka watch`: snapshots until a stable predicate holds, a line for each."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from snapkafka import ops
from snapkafka.cli.job_options import READING, Spec, job_options
from snapkafka.cli.options import AsJson, Bootstrap, Namespace, Parameters, Ttl, ttl_ms_of
from snapkafka.cli.present.printed import witness_line
from snapkafka.cli.progress import print_line
from snapkafka.cli.running import connect, console, print_json, run, who
from snapkafka.ops import Answer, Round
from snapkafka.units import duration_ms, local_time

COLOURS = {
    Answer.HOLDS: "green",
    Answer.NOT_YET: "cyan",
    Answer.UNPROVEN: "yellow",
    Answer.FAILED: "red",
}


@job_options(*READING)
def watch(
    until: Annotated[
        str,
        typer.Option(
            "--until", metavar="FILE.sql", help="Condition: SQL that returns no rows once it holds."
        ),
    ],
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    storage: Annotated[
        str, typer.Option("--storage", metavar="URI", help="Directory or URI of the tables.")
    ] = "",
    parameters: Parameters = None,
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="Interval between snapshots: 10s, 5min.")
    ] = "10s",
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="TIME", help="Give up after TIME. Default: never.")
    ] = "",
    keep_last: Annotated[
        int | None,
        typer.Option(
            "--keep-last", metavar="N", min=0, help="Keep only the newest N of this run. Default: keep all."
        ),
    ] = None,
    ttl: Ttl = "5s",
    spec: Spec = ops.JobSpec,
    as_json: AsJson = False,
) -> None:
    """Take snapshots until a condition holds.

    The condition has to be stable: once true, it stays true. For example: a computation has ended.
    """
    run(
        lambda: ops.watch(
            connect(bootstrap),
            namespace,
            ops.WatchRequest(
                until=until,
                storage=storage,
                parameters=parameters or (),
                every_ms=duration_ms(every, "--every"),
                timeout_ms=duration_ms(timeout, "--timeout") if timeout else None,
                keep_last=keep_last,
                ttl_ms=ttl_ms_of(ttl),
            ),
            who=who(),
            spec=spec(),
            report=partial(print_json, in_lines=True) if as_json else _print_round,
            notify=None if as_json else print_line,
        ),
        as_json=as_json,
        in_lines=True,
    )


def _print_round(item: Round) -> None:
    console.print(f"{item.number}  {item.id}  ", (item.answer, COLOURS[item.answer]), f"  {_more(item)}")
    if item.holds_ms is not None:
        held = f"It has held since {local_time(item.holds_ms, 'milliseconds')} at the latest"
        if item.not_yet_ms is not None:
            held += f"; at {local_time(item.not_yet_ms, 'milliseconds')} it did not hold"
        console.print(held)
        console.print(f"manifest: {item.manifest}")


def _more(item: Round) -> str:
    if item.witnesses:
        return f"{item.found:,} rows, first: {witness_line(item.witnesses[0])}"
    return item.why or item.verdict
