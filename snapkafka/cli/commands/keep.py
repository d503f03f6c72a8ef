"""`snapkafka keep`: snapshots by a schedule, a line for each round."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from snapkafka import ops
from snapkafka.cli.build import AsJson
from snapkafka.cli.present.printed import coloured, witness_line
from snapkafka.cli.progress import print_line
from snapkafka.cli.running import connect, console, print_json, run, who
from snapkafka.errors import EXIT_NOT_GOOD, all_errors
from snapkafka.ops import KeptRound, Outcome
from snapkafka.units import local_time
from snapkafka.verbs import Keep, Where

#: How many rows of a violated invariant are printed: rounds are frequent.
ROWS_SHOWN = 5


def keep(
    at: Where,
    asked: Keep,
    spec: Annotated[ops.JobSpec, ("unpickle", "engine", "invariants", "parameters")],
    as_json: AsJson = False,
) -> None:
    found = run(
        lambda: ops.keep(
            connect(at.bootstrap),
            at.namespace,
            asked,
            who=who(),
            spec=spec,
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
    if item.answer is not None:
        _print_answer(item)
        return
    parts = [item.type, item.verdict, item.why, item.manifest]
    parts += [f"whole state: {item.why_full}"] if item.why_full else []
    parts += [f"pruned: {len(item.removed)}"] if item.removed else []
    if item.checkpoint_due:
        parts.append(f"{item.checkpoint_due:,} old records in the ledger: run snapkafka checkpoint")
    more = "  ".join(part for part in parts if part)
    console.print(f"{item.id}  ", coloured(item.outcome), f"  {more}")
    for violation in item.violated:
        name = violation.name
        where = "" if violation.id == item.id else f" in {violation.id}"
        console.print("  invariant ", (name, "bold red"), f" is violated{where}, rows: {violation.found:,}")
        for row in violation.rows[:ROWS_SHOWN]:
            console.print(f"    {row.what}")
        if violation.found > ROWS_SHOWN:
            console.print(f"    all of them: snapkafka invariants {name}")


def _print_answer(item: KeptRound) -> None:
    assert item.answer is not None
    more = item.why or item.verdict
    if item.witnesses:
        more = f"{item.found:,} rows, first: {witness_line(item.witnesses[0])}"
    console.print(f"{item.id}  ", coloured(item.answer), f"  {more}")
    if item.holds_ms is not None:
        held = f"It has held since {local_time(item.holds_ms, 'milliseconds')} at the latest"
        if item.not_yet_ms is not None:
            held += f"; at {local_time(item.not_yet_ms, 'milliseconds')} it did not hold"
        console.print(held)
        console.print(f"manifest: {item.manifest}")
