"""The statement of a worker about itself when it joins: inputs, tables, and the code that reads them (R11)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from snapkafka.errors import BrokerUnavailableError, SnapkafkaError
from snapkafka.protocol import Hello, Retention, Unread
from snapkafka.topic_config import promised_by
from snapkafka.until import Tries

from ..hello import hello_from_here, input_of
from ..process import Process
from .describe import agents_of, codecs_of, internal_topics, runs_no_agents, table_of, uncaptured

#: A start waits no longer than this for topics that do not show, and looks so often.
SEEN_WITHIN_S: Final = 1.0
#: The broker has answered already. Without its answer about a changelog by then, no snapshot can be proved (V3).
PROMISED_WITHIN_S: Final = 5.0
LOOK_AGAIN_S: Final = 0.05
#: A process that runs no agents joins as an app of its own, named after its app.
OF_CLIENTS: Final = ":client"


def process_hello(host: Process, **more: Any) -> Hello:
    """Return the `Hello` of this process. A process that runs no agents is an app of its own without inputs: a sender
    that closes at once.

    Under the name of its app it would stand for workers that do not run, and no process would cut their inputs.
    """
    name = host.app.conf.id + (OF_CLIENTS if runs_no_agents(host.app) else "")
    return hello_from_here(name, mode=host.config.mode, **more)


async def hello_of(host: Process, topics: Any) -> Hello:
    """Return a `Hello` with what this worker reads: its subscription without Faust's own topics (changelogs, leader,
    replies)."""
    app = host.app
    if runs_no_agents(app):
        return process_hello(host)  # it reads without a group, and nothing that it could go back to
    tables = list(app.tables.values())
    changelogs = {table.changelog_topic_name for table in tables}
    inputs = sorted(set(topics) - changelogs - internal_topics(app))
    described = await _described(host, [*inputs, *sorted(changelogs)])
    return process_hello(
        host,
        inputs=tuple(
            input_of(topic, described[topic], *codecs_of(app, topic))
            for topic in inputs
            if topic in described
        ),
        tables=tuple(table_of(table, described.get(table.changelog_topic_name)) for table in tables),
        uncaptured=tuple(uncaptured(app)),
        sources=host.config.sources,
        retention=await _retention(host, sorted(changelogs & described.keys())),
        reset=app.conf.consumer_auto_offset_reset,
        missing=tuple(t for t in inputs if t not in described and not _declared_by_faust(app, t)),
        agents=tuple(agents_of(app)),
        session_ms=round(1_000 * app.conf.broker_session_timeout),
    )


def _declared_by_faust(app: Any, topic: str) -> bool:
    """Return whether Faust itself creates a topic that does not exist yet: one of a `group_by`, or state."""
    channels = [channel for channel in app.topics if topic in channel.topics]
    return bool(app.conf.topic_allow_declare and channels and all(channel.internal for channel in channels))


async def _retention(host: Process, changelogs: list[str]) -> tuple[Retention, ...]:
    """Return the retention settings of changelogs, as far as this worker may read them: V3 believes no later settings
    alone."""

    async def promised(changelog: str) -> Retention | None:
        with contextlib.suppress(SnapkafkaError, TimeoutError):  # it may not see it
            async with asyncio.timeout(PROMISED_WITHIN_S):
                async for _ in Tries(PROMISED_WITHIN_S, LOOK_AGAIN_S):
                    with contextlib.suppress(BrokerUnavailableError):
                        return promised_by(changelog, (await host.admin.topic_settings(changelog))[0])
        return None

    return tuple(filter(None, await asyncio.gather(*map(promised, changelogs))))


async def _described(host: Process, topics: list[str]) -> dict[str, Any]:
    """Describe topics. Faust has just created some of them, and the broker may take a moment to show them; others may
    never exist."""
    async for _ in Tries(SEEN_WITHIN_S, LOOK_AGAIN_S):
        described: dict[str, Any] = dict(await host.admin.describe_topics(topics))
        if len(described) == len(topics):
            break
    return described


def report_lacks(host: Process, hello: Hello) -> None:
    """Log what no snapshot of this app holds, and the inputs that this worker will not consume, even if they are
    created soon: Faust itself logs one line for them."""
    for what in (*hello.uncaptured, *(Unread(app=hello.app, topic=topic) for topic in hello.missing)):
        host.log("%s", what)
