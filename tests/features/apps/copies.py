"""Global tables, and what each worker's copy of them holds."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.features.apps.common import each, new_app

app = new_app(table_standby_replicas=1)
COPIES = Path(os.environ["SNAPKAFKA_DEMO_DATA"], "copies.json")
OPTIONS: dict[str, Any] = {"key_type": str, "value_type": int, "partitions": 1}
ALIKE: dict[str, Any] = OPTIONS | {"recovery_buffer_size": 1, "use_partitioner": True}

by_one = app.GlobalTable("by-one", default=int, **ALIKE)
by_all = app.GlobalTable("by-all", default=int, **ALIKE)
by_others = app.GlobalTable("by-others", default=int, recovery_buffer_size=2, **OPTIONS)


@each(app, "by-one")
async def writes_alone(event: Any) -> dict[str, Any]:
    by_one[event.value["key"]] = event.value["n"]
    return {}


@each(app, "by-all")
async def writes_with_others(event: Any) -> dict[str, Any]:
    """Each worker keys of its own."""
    by_all[f"{event.message.partition}-{event.value['key']}"] = event.value["n"]
    return {}


@app.timer(0.2)
async def reports() -> None:
    """Not by the table: nobody is to hear of it."""
    report({table.name: table.data.data for table in (by_one, by_all, by_others)})


def report(copies: dict[str, Any]) -> None:
    new = COPIES.with_suffix(".new")
    new.write_text(json.dumps(copies))
    new.replace(COPIES)
