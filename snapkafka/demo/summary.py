"""The final report of `make demo`: for a person, or as data."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from snapkafka.demo.settings import TOTAL
from snapkafka.demo.story import DemoSnapshot

#: Who proved it, by the engine.
PROVED_BY: Final = {
    "both": "by the embedded engine, the first by Spark as well",
    "embedded": "by the embedded engine",
    "spark": "by Spark",
}


def print_report(console: Console, taken: list[DemoSnapshot], engine: str) -> None:
    """Print a short report for a person.

    Args:
        engine: what assembled and verified, as `run_story` has it.
    """
    console.print()
    console.print("Three snapshots of a system that never stopped", style="bold")
    console.print(_times(taken))
    console.print(_positions(taken[0]))
    console.print(_money(taken))
    checks = ", ".join(check.name for check in taken[0].manifest.checks if check.run)
    console.print(
        f"Proved from the log {PROVED_BY[engine]} ({checks}); the money counted by DuckDB from the Parquet alone."
    )
    console.print("Each naive number is true, but of a different moment; a snapshot shows one.")
    console.print()
    first = taken[0]
    tables = ",".join(table.name for table in first.manifest.tables if table.files)
    console.print(f"Tables   {short(first.tables_path)}/{{{tables}}}", soft_wrap=True)
    console.print(f"Manifest {short(first.manifest_path)}")
    console.print()
    console.print("Next:")
    command = ".venv/bin/snapkafka"
    storage = f"--storage {short(str(Path(first.manifest_path).parent))}"
    sql = f"'SELECT topic, key, value FROM messages' --snapshot {first.id}"
    console.print(f"  {command} query {sql} {storage}", soft_wrap=True)
    console.print(f"  {command} diff {first.id} {taken[-1].id} {storage}", soft_wrap=True)
    console.print(
        "  make demo ARGS=--keep    leaves the system running, and reports how to use the command on it"
    )
    console.print("  README.md                your own Faust app: two lines")


def _times(taken: list[DemoSnapshot]) -> Table:
    table = Table(title="How long it took", title_justify="left", box=None, pad_edge=False)
    for name in ("snapshot", "asked by", "captured in", "each cut took", "events running", "verdict"):
        table.add_column(
            name, justify="right" if name in ("captured in", "each cut took", "events running") else "left"
        )
    for one in taken:
        cuts = [us / 1000 for us in one.cut_us]
        table.add_row(
            one.id,
            one.summary.who,
            f"{one.summary.capture_ms} ms",
            f"{min(cuts):.2f}-{max(cuts):.2f} ms",
            str(one.running),
            one.manifest.verdict,
        )
    table.caption = "No event waits for a cut: those that were running finish as part of the snapshot."
    table.caption_justify = "left"
    return table


def _positions(one: DemoSnapshot) -> Table:
    table = Table(
        title=f"\n{one.id}: positions, + what was in flight",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    partitions = sorted({source.partition for source in one.manifest.captured.inputs})
    table.add_column("input")
    for partition in partitions:
        table.add_column(f"[{partition}]", justify="right")
    cells = {(s.app, s.topic, s.partition): s for s in one.manifest.captured.inputs}
    for app, topic in sorted({(app, topic) for app, topic, _ in cells}):
        row = [cells[app, topic, partition] for partition in partitions]
        texts = [
            f"{s.position}" + (f" +{s.log_end - s.position}" if s.log_end > s.position else "") for s in row
        ]
        table.add_row(f"{topic} -> {app}", *texts)
    return table


def _money(taken: list[DemoSnapshot]) -> Table:
    table = Table(
        title=f"\nThe money, which must be {TOTAL:,}", title_justify="left", box=None, pad_edge=False
    )
    table.add_column("snapshot")
    for name in ("in tables", "in flight", "", "together", "", "naive reading", "is off by"):
        table.add_column(name, justify="right")
    for one in taken:
        off = one.naive.total - TOTAL
        table.add_row(
            one.id,
            f"{one.money.in_tables:,}",
            f"{one.money.in_flight:,}",
            f"({one.money.messages} messages)",
            Text(f"{one.money.total:,}", "bold"),
            Text("correct", "green") if one.adds_up else Text("WRONG", "red"),
            f"{one.naive.total:,}",
            Text(f"{off:+,}", "red") if off else "nothing, by luck",
        )
    return table


def as_data(taken: list[DemoSnapshot]) -> dict[str, Any]:
    """Return the report as data; all else of a snapshot is in its manifest."""
    return {
        "must_be": TOTAL,
        "snapshots": [
            {
                "snapshot_id": one.id,
                "initiated_by_node_id": one.summary.who,
                "capture_ms": one.summary.capture_ms,
                "cut_us": one.cut_us,
                "events_running": one.running,
                "verdict": one.manifest.verdict,
                "money": {
                    **asdict(one.money),
                    "in_flight": one.money.in_flight,
                    "total": one.money.total,
                    "naive_total": one.naive.total,
                },
                "checkpoint_manifest_uri": one.manifest_path,
                "tables": one.tables_path,
            }
            for one in taken
        ],
    }


def short(path: str | Path) -> str:
    """Return a path as it can be typed here."""
    here, absolute = Path.cwd(), Path(path).resolve()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(path)
