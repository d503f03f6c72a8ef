"""Output about erased keys and masks: how much each rule matches, and which snapshots still hold an erased key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer
from rich.markup import escape

from snapkafka import ops
from snapkafka.errors import SnapkafkaError
from snapkafka.kafka.connection import Connection

from .running import console, notices
from .tables import table

__all__ = ["AllowUnmatched", "find_held", "print_held", "print_rules"]

AllowUnmatched = Annotated[
    bool,
    typer.Option("--allow-unmatched", help="Accept rules that match nothing; without it they are an error."),
]


def print_rules(rules: Iterable[ops.RuleCount]) -> None:
    """Print how many records and rows each rule matches."""
    rows = table("rule", "", "of", "matches", right=("matches",))
    for it in rules:
        rows.add_row(it.kind, escape(it.rule), escape(it.place), f"{it.items:,}")
    if rows.row_count:
        console.print(rows)


async def find_held(
    where: Connection | None,
    namespace: str,
    snapshot: str,
    suppression: ops.Suppression | None,
    *,
    storage: str,
) -> tuple[ops.StillHeld, ...] | None:
    """Find what still holds an erased key, after the work is done; None: that is not known.

    A failure is printed and ends nothing: what was asked for is done.
    """
    if suppression is None:
        return ()
    try:
        return await ops.still_held(where, namespace, snapshot, suppression, storage=storage)
    except SnapkafkaError as error:
        notices.print(f"what the storage still holds of erased keys is not known: {error}", markup=False)
        return None


def print_held(found: Iterable[ops.StillHeld] | None) -> None:
    """Print the snapshots that hold an erased key, and those that could not be examined."""
    for it in found or ():
        if it.tables:
            tables = ", ".join(it.tables)
            console.print(
                f"[yellow]still holds erased keys[/]: snapshot {escape(it.id)} ({tables}), until it is pruned",
                soft_wrap=True,
            )
        for problem in it.problems:
            console.print(
                f"[yellow]not examined[/]: snapshot {escape(it.id)}: {escape(problem)}", soft_wrap=True
            )
