"""The SQL of the how-to about two services: it holds with what is in flight, and finds what is lost or doubled."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from snapkafka.assembly import Invariant, invariants
from tests.worlds.tables import in_files

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "reconcile.md"


@pytest.mark.parametrize(
    ("booked", "in_flight", "rows"),
    [
        (["3", "5"], 2, []),
        (["3", "5"], 1, [{"sent": 10, "booked": 8, "in_flight": 1}]),  # lost
        (["3", "6"], 2, [{"sent": 10, "booked": 9, "in_flight": 2}]),  # booked twice
        ([], 2, [{"sent": 10, "in_flight": 2}]),
    ],
)
def test_the_query_of_the_guide(
    tmp_path: Path, booked: list[str], in_flight: int, rows: list[dict[str, int]]
) -> None:
    (sql,) = re.findall(r"```sql\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    state: list[dict[str, Any]] = [{"app": "billing", "table_name": "sent", "key": "a", "value": "10"}]
    state += [
        {"app": "ledger", "table_name": "booked", "key": str(n), "value": it} for n, it in enumerate(booked)
    ]
    messages: list[dict[str, Any]] = [
        {"topic": "invoices", "partition": 0, "offset": n, "receiver_app": app}
        for n in range(in_flight)
        for app in ("ledger", "audit")
    ]
    tables = in_files(tmp_path, {"state": state, "messages": messages})
    (found,) = invariants.check([Invariant(name="invoices", sql=sql)], tables)
    assert [json.loads(row.what) for row in found.witnesses] == rows
