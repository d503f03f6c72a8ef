"""Restores and forks as the command does them: wait, plan, and do that plan."""

from __future__ import annotations

import asyncio
from typing import Any

from snapkafka import ops
from snapkafka.kafka.login.connection import Connection

__all__ = ["forked", "restored"]


def restored(
    connection: Connection,
    namespace: str,
    name: str,
    *,
    wait_s: float = 0.0,
    safety: bool = True,
    **options: Any,
) -> ops.Recovered:
    """Wait for the workers to leave, plan a restore, and do it.

    Args:
        options: of `ops.plan_restore`.
    """

    async def work() -> ops.Recovered:
        if wait_s:
            of = {key: options[key] for key in ("storage", "selection") if key in options}
            await ops.await_workers(connection, namespace, name, wait_s=wait_s, safety=safety, **of)
        return await ops.restore(connection, await ops.plan_restore(connection, namespace, name, **options))

    return asyncio.run(work())


def forked(connection: Connection, namespace: str, fork: str, **options: Any) -> ops.Recovered:
    """Plan a fork, and create it.

    Args:
        options: of `ops.plan_fork`.
    """

    async def work() -> ops.Recovered:
        plan = await ops.plan_fork(connection, namespace, fork, **options)
        return await ops.create_fork(connection, plan)

    return asyncio.run(work())
