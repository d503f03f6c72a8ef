"""`restore --check`: compare a stopped system with a snapshot, and print the result."""

from __future__ import annotations

import typer

from snapkafka import ops
from snapkafka.cli.present.layout import Table
from snapkafka.cli.running import connect, console, print_json, run
from snapkafka.errors import EXIT_NOT_GOOD


def check_restored(
    bootstrap: str | None,
    namespace: str,
    snapshot: str,
    *,
    storage: str,
    suppression: ops.Suppression | None,
    as_json: bool,
) -> None:
    """Run `snapkafka restore --check`; exit with status 30 if something differs."""
    checked = run(
        lambda: ops.check_restored(
            connect(bootstrap),
            namespace,
            snapshot,
            storage=storage,
            suppress=suppression,
        ),
        as_json=as_json,
    )
    if as_json:
        print_json({"checked": checked})
    else:
        _print(checked)
    if not checked.equal:
        raise typer.Exit(EXIT_NOT_GOOD)


def _print(checked: ops.CheckedRestore) -> None:
    rows = Table("table", "of app", "result")
    for it in checked.tables:
        result = (f"{it.differing:,} differ", "red") if it.differing else ("equal", "green")
        rows.add(it.table, it.app, result)
    console.table(rows)
    for it in checked.tables:
        for key in it.keys:
            console.print(("differs", "red"), f": table {it.table} of app {it.app}: {key}")
        if (more := it.differing - len(it.keys)) > 0:
            console.print(("differs", "red"), f": table {it.table} of app {it.app}: {more:,} more")
    for sentence in checked.misplaced:
        console.print(("differs", "red"), f": {sentence}")
    if checked.plan:
        console.print("last restored to ", (checked.restored, "bold"), f" (plan {checked.plan})")
    verdict = ("equals", "green") if checked.equal else ("differs from", "red")
    console.print(
        f"{', '.join(checked.apps)} ", verdict, " snapshot ", (checked.snapshot, "bold"),
        f", epoch {checked.epoch} ({checked.seconds:.1f} s)",
    )  # fmt: skip
