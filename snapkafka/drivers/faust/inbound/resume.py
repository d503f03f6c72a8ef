"""The end of a rebalance: the inputs resume only after they were sought and the streams' queues emptied.

Faust resumes the inputs, asks for the committed positions, seeks, then empties the queues of its streams and resumes
the flow. If tables were recovered, the flow is on meanwhile. Records fetched before the seek are then handed out, and
after the seek handed out again, or taken for done though no agent has run them. Records fetched after the seek are
handed out, and thrown away with the queues. This happens if one of Faust's fetches, of a second each, ends in between.
Our announcement (R9), for which Faust waits just before, shifts that moment and makes it likelier. So we remove the
moment altogether.

Nor may a fetch in flight take records of the inputs meanwhile: Faust would throw them away, and does not read them
again if nothing is committed. A fetch takes them if no partition is active at all, because to aiokafka that means all
partitions (robinhood/faust#69).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

StandDown = Callable[[str, Exception], None]


class ExactPartitions:
    """A set of partitions that means these and no other, also when it is empty."""

    def __init__(self, tps: set[Any]) -> None:
        self._tps = tps

    def __contains__(self, tp: Any) -> bool:
        return tp in self._tps


def resume_last(app: Any, consumer: Any, stand_down: StandDown = lambda what, error: None) -> None:
    """Let the inputs resume when all else has ended.

    Args:
        app, consumer: Faust's.
        stand_down: is called with a fault of ours.
    """
    recovery, fetch = app.tables.recovery, consumer._getmany

    async def resume(generation_id: int, standbys_ready: bool) -> None:
        """Do what both ends of `Recovery` of Faust 0.15.3 do, and resume the partitions behind the flow."""
        assignment = consumer.assignment()
        if app.consumer_generation_id != generation_id:
            recovery.log.warning("Recovery rebalancing again")
            return
        inputs = {tp for tp in assignment if not consumer._is_changelog_tp(tp)}
        if assignment:
            recovery.log.info("Seek stream partitions to committed offsets.")
            try:
                await recovery._wait(consumer.perform_seek(), timeout=app.conf.broker_request_timeout)
            except BaseException:
                consumer.resume_partitions(inputs & consumer.assignment())
                raise
        recovery.completed.set()
        recovery.log.info("Resuming flow...")
        app.flow_control.resume()
        consumer.resume_flow()
        consumer.resume_partitions(inputs & consumer.assignment())
        await app._fetcher.maybe_start()
        recovery.tables.on_actives_ready()
        if standbys_ready:
            recovery.tables.on_standbys_ready()
        app.on_rebalance_end()
        recovery.log.info("Worker ready")

    async def resume_streams(generation_id: int = 0) -> None:
        """Replace `Recovery._resume_streams`, for a worker that has no table to recover."""
        await app.on_rebalance_complete.send()
        await resume(generation_id, standbys_ready=True)

    async def on_recovery_completed(generation_id: int = 0) -> None:
        """Replace `Recovery.on_recovery_completed`, for a worker that has recovered its tables."""
        recovery.log.info("Restore complete!")
        await app.on_rebalance_complete.send()
        recovery._set_recovery_ended()
        actives, standbys = recovery.actives_for_table, recovery.standbys_for_table
        tables = recovery.tables.values()
        called = [
            asyncio.ensure_future(table.on_recovery_completed(actives[table], standbys[table]))
            for table in tables
        ]
        if called:
            await asyncio.wait(called)
        await resume(generation_id, standbys_ready=not app.assignor.assigned_standbys())

    async def getmany(active_partitions: set[Any] | None, **more: Any) -> Any:
        """Fetch as `Consumer._getmany` does. The active partitions may change while it waits."""
        only: Any = active_partitions
        try:
            only = None if active_partitions is None else ExactPartitions(active_partitions)
        except Exception as error:
            stand_down("to fetch from the active partitions alone", error)
        return await fetch(active_partitions=only, **more)

    recovery._resume_streams, recovery.on_recovery_completed = resume_streams, on_recovery_completed
    consumer._getmany = getmany
