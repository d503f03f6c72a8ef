"""Global tables, and what each worker's copy of them holds."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.features.apps.common import new_app, saw, source, target

app = new_app(table_standby_replicas=1)
COPIES = Path(os.environ["SNAPKAFKA_DEMO_DATA"], "copies.json")
OPTIONS: dict[str, Any] = {"key_type": str, "value_type": int, "partitions": 1}
ALIKE: dict[str, Any] = OPTIONS | {"recovery_buffer_size": 1, "use_partitioner": True}

by_one = app.GlobalTable("by-one", default=int, **ALIKE)
by_all = app.GlobalTable("by-all", default=int, **ALIKE)
by_others = app.GlobalTable("by-others", default=int, recovery_buffer_size=2, **OPTIONS)
by_one_out = target(app, "by-one-out")
by_all_out = target(app, "by-all-out")


@app.agent(source(app, "by-one"), name="by-one")
async def writes_alone(stream: Any) -> None:
    async for event in stream.events():
        by_one[event.value["key"]] = event.value["n"]
        await by_one_out.send(**saw("by-one", event))


@app.agent(source(app, "by-all"), name="by-all")
async def writes_with_others(stream: Any) -> None:
    """Each worker keys of its own."""
    async for event in stream.events():
        by_all[f"{event.message.partition}-{event.value['key']}"] = event.value["n"]
        await by_all_out.send(**saw("by-all", event))


@app.timer(0.2)
async def reports() -> None:
    """Not by the table: nobody is to hear of it."""
    report({table.name: table.data.data for table in (by_one, by_all, by_others)})


def report(copies: dict[str, Any]) -> None:
    new = COPIES.with_suffix(".new")
    new.write_text(json.dumps(copies))
    new.replace(COPIES)
