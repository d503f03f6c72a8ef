"""`snapkafka keep`: snapshots by a schedule, a line for each round."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from snapkafka import ops
from snapkafka.cli.job_options import READING, Spec, job_options
from snapkafka.cli.options import AsJson, Bootstrap, KeepLast, Namespace, Ttl, ttl_ms_of
from snapkafka.cli.progress import print_line
from snapkafka.cli.running import connect, console, print_json, run, who
from snapkafka.errors import EXIT_NOT_GOOD, all_errors
from snapkafka.ops import KeptRound, Outcome
from snapkafka.units import duration_ms

#: How many rows of a violated invariant are printed: rounds are frequent.
ROWS_SHOWN = 5
COLOURS = {
    Outcome.VERIFIED: "green",
    Outcome.NOT_GOOD: "bold red",
    Outcome.FAILED: "red",
}


@job_options(*READING, "invariants", "parameters")
def keep(
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="Interval between snapshots: 10min, 1h.")
    ],
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    storage: Annotated[
        str,
        typer.Option(
            "--storage", metavar="URI", envvar="SNAPKAFKA_STORAGE", help="Directory or URI of the tables."
        ),
    ] = "",
    incremental: Annotated[
        bool,
        typer.Option("--incremental", help="Take incremental snapshots, each on the latest verified one."),
    ] = False,
    keep_last: KeepLast = None,
    once: Annotated[
        bool, typer.Option("--once", help="Run the current round, or finish it, then exit.")
    ] = False,
    ttl: Ttl = "5s",
    spec: Spec = ops.JobSpec,
    as_json: AsJson = False,
) -> None:
    """Take, assemble, verify and prune snapshots on a schedule.

    `--once` is for timers and CronJobs. `--invariants` evaluates SQL on each snapshot: a standing watch.
    """
    found = run(
        lambda: ops.keep(
            connect(bootstrap),
            namespace,
            ops.Schedule(
                every_ms=duration_ms(every, "--every"),
                incremental=incremental,
                keep_last=keep_last,
                ttl_ms=ttl_ms_of(ttl),
            ),
            storage=storage,
            once=once,
            who=who(),
            spec=spec(),
            report=partial(print_json, in_lines=True) if as_json else _print_round,
            notify=None if as_json else print_line,
        ),
        as_json=as_json,
        in_lines=True,
    )
    if found.outcome is Outcome.NOT_GOOD:
        raise typer.Exit(EXIT_NOT_GOOD)
    if found.outcome is Outcome.FAILED:
        raise typer.Exit({cls.code: cls.exit_status for cls in all_errors()}[found.code])


def _print_round(item: KeptRound) -> None:
    parts = [item.type, item.verdict, item.why, item.manifest]
    parts += [f"whole state: {item.why_full}"] if item.why_full else []
    parts += [f"pruned: {len(item.removed)}"] if item.removed else []
    if item.checkpoint_due:
        parts.append(f"{item.checkpoint_due:,} old records in the ledger: run snapkafka checkpoint")
    more = "  ".join(part for part in parts if part)
    console.print(f"{item.id}  ", (item.outcome, COLOURS[item.outcome]), f"  {more}")
    for violation in item.violated:
        name = violation.name
        where = "" if violation.id == item.id else f" in {violation.id}"
        console.print("  invariant ", (name, "bold red"), f" is violated{where}, rows: {violation.found:,}")
        for row in violation.rows[:ROWS_SHOWN]:
            console.print(f"    {row.what}")
        if violation.found > ROWS_SHOWN:
            console.print(f"    all of them: snapkafka invariants history {name}")
