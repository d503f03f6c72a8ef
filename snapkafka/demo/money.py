"""The money in a snapshot, read with DuckDB from its Parquet tables, without any of our own code."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from snapkafka.demo.settings import CREDITS, TRANSFERS


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
