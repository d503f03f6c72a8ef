"""The money, counted twice, and the final report of the demo for a person; `--json` prints the same as data.

`count_money` reads a snapshot with DuckDB from its Parquet tables, without any code of ours. `read_naively` has no
snapshot: it reads tables and lag one after the other, while the system runs, and adds up. Each number is true at its
own moment, and the sum is not: a transfer may be seen in two places or in none.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from snapkafka.cli.screen import standard
from snapkafka.demo.settings import CREDITS, PARTITIONS, TOTAL, TRANSFERS, changelog
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.kafka.records.read import records_to_end
from snapkafka.protocol.records import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """The money of a snapshot; `transfers` and `credits` are in flight, in either direction of the cycle."""

    in_tables: int
    in_flight: int
    transfers: int
    credits: int
    messages: int

    @property
    def total(self) -> int:
        return self.in_tables + self.in_flight


def count_money(manifest: Path) -> Money:
    """Add up a snapshot by the files that its manifest names."""
    import duckdb

    tables = json.loads(manifest.read_text("utf-8"))["tables"]
    files = {
        table["name"]: [str(manifest.parent / file["path"]) for file in table["files"]] for table in tables
    }

    with duckdb.connect() as database:
        (in_tables,) = database.execute(
            "SELECT COALESCE(SUM(CAST(value AS BIGINT)), 0) FROM read_parquet(?) WHERE table_name = 'balances'",
            [files["state"]],
        ).fetchall()[0]
        rows = database.execute(
            "SELECT topic, COUNT(*), SUM(CAST(json_extract_string(value, '$.amount') AS BIGINT))"
            " FROM read_parquet(?) GROUP BY topic",
            [files["messages"]],
        ).fetchall()
    amounts = {topic: int(amount) for topic, _, amount in rows}
    return Money(
        in_tables=int(in_tables),
        in_flight=sum(amounts.values()),
        transfers=amounts.get(TRANSFERS, 0),
        credits=amounts.get(CREDITS, 0),
        messages=sum(int(count) for _, count, _ in rows),
    )


async def read_naively(connection: Connection) -> int:
    """Add up the balances as their changelogs end now, and the messages between committed offsets and ends."""
    balances: dict[bytes, int] = {}
    async for _, record in records_to_end(connection, _starts(changelog("accounts", "balances"))):
        balances[record.key] = 0 if record.value is None else json.loads(record.value)
    in_flight = 0
    async with KafkaTopicAdmin(connection) as admin:
        for topic, group in ((TRANSFERS, "clearing"), (CREDITS, "accounts")):
            committed = {
                tp: at for tp, (at, _) in (await admin.committed(group)).items() if tp.topic == topic
            }
            async for _, record in records_to_end(connection, _starts(topic) | committed):
                if record.value is not None:
                    in_flight += json.loads(record.value)["amount"]
    return sum(balances.values()) + in_flight


def _starts(topic: str) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, partition): 0 for partition in range(PARTITIONS)}


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
    """Print a short report for a person; `engine` assembled and verified, as `run_story` has it."""
    screen, (first, *_, last) = standard(), found.snapshots
    screen.print("Three snapshots of a system that never stopped", style="bold")
    screen.table(
        found.snapshots,
        "snapshot=snapshot_id",
        "asked_by=initiated_by_node_id",
        "captured=capture_ms",
        ("longest cut", lambda it: f"{max(it.cut_us):,} us"),
        "events=events_running",
        "verdict",
    )
    screen.print("No event waits for a cut: those that ran then finish as part of the snapshot.")
    screen.print()
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
    screen.print()
    screen.print(f"Tables   {short(first.tables)}")
    screen.print(f"Manifest {short(first.checkpoint_manifest_uri)}")
    screen.print()
    screen.print("Next:")
    storage = f"--storage {short(Path(first.checkpoint_manifest_uri).parent)}"
    sql = f"'SELECT topic, key, value FROM messages' --snapshot {first.snapshot_id}"
    command = command_here("snapkafka")
    screen.command(f"{command} query {sql} {storage}", indent=2)
    screen.command(f"{command} diff {first.snapshot_id} {last.snapshot_id} {storage}", indent=2)
    screen.command(f"{command} demo --keep    # to practise on the running system", indent=2)


def command_here(name: str) -> str:
    """Return the command of this environment, as short as it can be typed here."""
    found = Path(sys.executable).with_name(name)
    return short(found) if found.is_file() else name


def short(path: str | Path) -> str:
    """Return a path as it can be typed here."""
    here, absolute = Path.cwd(), Path(path).resolve()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(path)
