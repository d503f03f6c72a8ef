"""The final report of the demo for a person. `--json` prints the same as data."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from snapkafka.demo.money import Money
from snapkafka.demo.settings import TOTAL
from snapkafka.ops import Drill
from snapkafka.units import format_seconds

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
    drill: Drill | None = None


def print_report(console: Console, found: DemoResult, engine: str) -> None:
    """Print a short report for a person.

    Args:
        engine: what assembled and verified, as `run_story` has it.
    """
    taken = found.snapshots
    first, last = taken[0], taken[-1]
    console.print("\nThree snapshots of a system that never stopped", style="bold")
    console.print(_times(taken))
    console.print(_money(taken))
    console.print(
        f"Proved from the log {PROVED_BY[engine]} ({', '.join(first.checks)}); the money counted by DuckDB from the"
        " Parquet alone."
    )
    console.print("Naive: tables and lag, read one by one. Each is true, but of another moment.\n")
    console.print(f"Tables   {short(first.tables)}", soft_wrap=True)
    console.print(f"Manifest {short(first.checkpoint_manifest_uri)}")
    console.print("\nNext:")
    command = ".venv/bin/snapkafka"
    storage = f"--storage {short(Path(first.checkpoint_manifest_uri).parent)}"
    sql = f"'SELECT topic, key, value FROM messages' --snapshot {first.snapshot_id}"
    console.print(f"  {command} query {sql} {storage}", soft_wrap=True)
    console.print(f"  {command} diff {first.snapshot_id} {last.snapshot_id} {storage}", soft_wrap=True)
    console.print(
        "  make demo ARGS=--keep    leaves the system running, and reports how to use the command on it"
    )
    console.print("  README.md                your own Faust app: two lines")
    if (drill := found.drill) is not None:
        console.print(f"\n{'trusted' if drill.trusted else 'NOT trusted'}: snapshot {drill.snapshot}")
        for reason in drill.reasons:
            console.print(f"- {reason}")
        console.print(f"RPO {format_seconds(drill.rpo_s)}, RTO {format_seconds(drill.rto_s)}")


def _table(title: str, names: dict[str, str]) -> Table:
    """Create a table of columns, each with its alignment."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name, justify in names.items():
        table.add_column(name.strip(), justify=justify, no_wrap=name != "asked by")  # type: ignore[arg-type]
    return table


def _times(taken: list[DemoSnapshot]) -> Table:
    columns = {"snapshot": "left", "asked by": "left", "captured": "right", "each cut": "right"}
    table = _table("How long it took", columns | {"events": "right", "verdict": "left"})
    for number, one in enumerate(taken, 1):
        cuts = [us / 1000 for us in one.cut_us]
        table.add_row(
            f"{number} {one.snapshot_id}",
            one.initiated_by_node_id,
            f"{one.capture_ms} ms",
            f"{min(cuts):.2f}-{max(cuts):.2f} ms",
            str(one.events_running),
            one.verdict,
        )
    table.caption = "No event waits for a cut: those that ran then finish as part of the snapshot."
    table.caption_justify = "left"
    return table


def _money(taken: list[DemoSnapshot]) -> Table:
    names = ("in tables", "in flight", "messages", "together", " ", "naive", "is off by")
    table = _table(
        f"\nThe money, which must be {TOTAL:,}", {"snapshot": "left"} | dict.fromkeys(names, "right")
    )
    for number, one in enumerate(taken, 1):
        off = one.naive_total - TOTAL
        table.add_row(
            str(number),
            f"{one.money.in_tables:,}",
            f"{one.money.in_flight:,}",
            str(one.money.messages),
            Text(f"{one.total:,}", "bold"),
            Text("correct", "green") if one.total == TOTAL else Text("WRONG", "red"),
            f"{one.naive_total:,}",
            Text(f"{off:+,}", "red") if off else "nothing, by luck",
        )
    return table


def short(path: str | Path) -> str:
    """Return a path as it can be typed here."""
    here, absolute = Path.cwd(), Path(path).resolve()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(path)
