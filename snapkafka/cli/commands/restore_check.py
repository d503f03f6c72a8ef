"""`restore --check`: compare a stopped system with a snapshot, and print the result."""

from __future__ import annotations

import typer

from snapkafka import ops
from snapkafka.cli.present.layout import Part, Table
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
    rows = Table("compared", "of app", "with the snapshot", "result", right=("with the snapshot",))
    for it in checked.compared.tables:
        differing = it.missing + it.unexpected + it.different
        rows.add(f"table {it.table}", it.app, f"{it.rows:,} rows", _result(differing, it.equal))
    for item in checked.compared.inputs:
        what = f"{item.messages:,} messages, {item.positions:,} positions"
        differing = item.differing + len(item.misplaced)
        rows.add(f"input {item.topic}", "", what, _result(differing, item.equal))
    console.table(rows)
    for difference in checked.compared.differences():
        console.print(("differs", "red"), f": {difference}")
    for note in checked.compared.notes:
        console.print(("note", "yellow"), f": {note}")
    if checked.plan:
        console.print("last restored to ", (checked.restored, "bold"), f" (plan {checked.plan})")
    verdict = ("equals", "green") if checked.equal else ("differs from", "red")
    console.print(
        f"{', '.join(checked.apps)} ",
        verdict,
        " snapshot ",
        (checked.snapshot, "bold"),
        f", epoch {checked.epoch} ({checked.seconds:.1f} s)",
    )


def _result(differing: int, equal: bool) -> Part:
    return ("equal", "green") if equal else (f"{differing:,} differ", "red")
