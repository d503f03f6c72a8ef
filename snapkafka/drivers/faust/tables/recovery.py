"""The end offsets to which tables recover with `processing_guarantee="exactly_once"`.

Faust 0.15.3 uses the last stable offset that its consumer knows of each changelog. Before the first fetch that is
None, and Faust takes None for an empty changelog: most starts recover no table, or only some, and go on with empty
ones. After a rebalance it is the offset of the last fetch, which may lie below what was committed since. So the broker
is asked: for a consumer that reads committed records, the end offset is the last stable offset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ..describe import in_transactions


def recover_to_the_end(app: Any, consumer: Any) -> None:
    """Let tables recover to the ends that the broker reports.

    Args:
        app: whose tables recover.
        consumer: Faust's; its `highwaters` is patched.
    """
    highwaters = consumer.highwaters

    async def ends(*tps: Any) -> Mapping[Any, Any]:
        if not tps or not in_transactions(app):
            return await highwaters(*tps)  # type: ignore[no-any-return]
        thread = consumer._thread
        asked = asyncio.run_coroutine_threadsafe(
            thread._ensure_consumer().end_offsets(tps), thread.thread_loop
        )
        found: Mapping[Any, Any] = await asyncio.wrap_future(asked)
        return found

    consumer.highwaters = ends
