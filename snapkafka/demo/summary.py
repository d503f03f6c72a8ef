"""The final report of the demo for a person. `--json` prints the same as data."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from snapkafka.cli.screen import standard
from snapkafka.demo.money import Money
from snapkafka.demo.settings import TOTAL

#: Who proved it, by the engine.
PROVED_BY: Final = {
    "both": "by the embedded engine, the first by Spark as well",
    "embedded": "by the embedded engine",
    "spark": "by Spark",
}


class DemoSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot of the demo: how it was taken, its result, and the sum of a naive reading."""

    snapshot_id: str
    initiated_by_node_id: str
    capture_ms: int | None
    cut_us: list[int]
    events_running: int
    verdict: str
    checks: list[str]
    money: Money
    total: int
    naive_total: int
    checkpoint_manifest_uri: str
    tables: str

    @property
    def good(self) -> bool:
        return self.total == TOTAL and self.verdict.startswith("VERIFIED")


class DemoResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the demo has shown."""

    must_be: int = TOTAL
    snapshots: list[DemoSnapshot]


def print_report(found: DemoResult, engine: str) -> None:
    """Print a short report for a person.

    Args:
        engine: what assembled and verified, as `run_story` has it.
    """
    screen, (first, *_, last) = standard(), found.snapshots
    screen.print("Three snapshots of a system that never stopped", style="bold")
    screen.table(
        found.snapshots,
        "snapshot=snapshot_id",
        "asked_by=initiated_by_node_id",
        "captured=capture_ms",
        ("longest cut", lambda it: f"{max(it.cut_us)} us"),
        "events=events_running",
        "verdict",
    )
    screen.print("No event waits for a cut: those that ran then finish as part of the snapshot.")
    screen.print(f"The money, which must be {TOTAL:,}", style="bold")
    screen.table(
        found.snapshots,
        "snapshot=snapshot_id",
        ("in tables", lambda it: f"{it.money.in_tables:,}"),
        ("in flight", lambda it: f"{it.money.in_flight:,}"),
        "together=total:,",
        ("naive", lambda it: f"{it.naive_total:,}"),
        ("is off by", lambda it: f"{it.naive_total - TOTAL:+,}"),
    )
    screen.print(
        f"Proved from the log {PROVED_BY[engine]} ({', '.join(first.checks)}); the money counted by DuckDB from the"
        " Parquet alone. Naive: tables and lag, read one by one; each is true, but of another moment."
    )
    screen.print(f"Tables   {short(first.tables)}")
    screen.print(f"Manifest {short(first.checkpoint_manifest_uri)}")
    screen.print("Next:")
    storage = f"--storage {short(Path(first.checkpoint_manifest_uri).parent)}"
    sql = f"'SELECT topic, key, value FROM messages' --snapshot {first.snapshot_id}"
    for command in (
        f".venv/bin/snapkafka query {sql} {storage}",
        f".venv/bin/snapkafka diff {first.snapshot_id} {last.snapshot_id} {storage}",
        "make demo ARGS=--keep    leaves the system running, and reports how to use the command on it",
        "README.md                your own Faust app: two lines",
    ):
        screen.command(command, indent=2)


def short(path: str | Path) -> str:
    """Return a path as it can be typed here."""
    here, absolute = Path.cwd(), Path(path).resolve()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(path)
