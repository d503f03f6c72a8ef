"""The content of an app's snapshots, derived from the app alone: no broker is asked.

A worker reports at its start which parts of its app no snapshot holds; `snapkafka doctor --offline` reports the same,
and more, before the app is ever started. Both use this module.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from snapkafka.advice import Advice, Weight, worst_first
from snapkafka.errors import BadInputError
from snapkafka.logs import about

from .factories import at_start
from .support import not_as_expected, refusal

logger = logging.getLogger("snapkafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTopic:
    """A topic that the app reads, and the agents that read it."""

    name: str
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTable:
    """A table. `kind`: Faust's class; `expires_ms`: after how long its windows expire, 0 where it has none or they
    never do."""

    name: str
    kind: str
    changelog: str
    partitions: int | None
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedAgent:
    """An agent, and the topics that it reads; none: it reads a channel in memory."""

    name: str
    topics: tuple[str, ...]
    concurrency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedApp:
    """An app as it is defined. `found`: the findings, the worst first."""

    app: str
    topics: tuple[DescribedTopic, ...]
    tables: tuple[DescribedTable, ...]
    agents: tuple[DescribedAgent, ...]
    found: tuple[Advice, ...]

    @property
    def well(self) -> bool:
        """Whether snapshots of this app work and hold all of it."""
        return not any(advice.weight is Weight.PROBLEM for advice in self.found)


def describe_app_at(path: str) -> DescribedApp:
    """Import an app and describe it.

    Args:
        path: as Faust's `-A` takes it, `module:app`; modules in the current folder are found.

    Raises:
        BadInputError: there is no such app, or it cannot be imported.
    """
    return describe_app(_imported(path))


def describe_app(app: Any) -> DescribedApp:
    """Describe an app that is defined; this finalises it."""
    driver = getattr(app, "snapkafka", None)
    ours = getattr(getattr(driver, "recorder", None), "agent", None)
    agents = tuple(
        DescribedAgent(
            name=agent.name,
            topics=tuple(sorted(getattr(agent.channel, "topics", None) or ())),
            concurrency=agent.concurrency,
        )
        for agent in app.agents.values()
        if agent is not ours
    )
    tables = tuple(
        DescribedTable(
            name=table.name,
            kind=type(table).__name__,
            changelog=table.changelog_topic_name,
            partitions=table.partitions,
            expires_ms=expires_ms(table),
        )
        for table in app.tables.values()
    )
    topics = tuple(
        DescribedTopic(name=topic, agents=tuple(agent.name for agent in agents if topic in agent.topics))
        for topic in sorted({topic for agent in agents for topic in agent.topics})
    )
    found = [*_about_joining(app, driver, topics), *_about_tables(app)]
    found += [
        Advice(
            code="not-captured",
            weight=Weight.PROBLEM,
            what=what,
            do="give it a topic, or send nothing through it that a restore needs (docs/reference/features.md)",
        )
        for what in uncaptured(app, ours)
    ]
    return DescribedApp(
        app=app.conf.id, topics=topics, tables=tables, agents=agents, found=worst_first(found)
    )


def describe_when_started(app: Any) -> None:
    """Log what a snapshot would hold, and what none would, when the app starts (the mode "observe"); leave the app as
    it is."""

    async def started() -> None:
        try:
            _log(describe_app(app))
        except Exception as error:  # R15: what goes wrong here is ours
            logger.error("snapkafka: could not examine this app: %r", error, extra=about(), exc_info=True)

    at_start(app, after=started)


def _log(seen: DescribedApp) -> None:
    """Log the findings as warnings: anyone who chooses this mode wants to read them, whatever the log's level."""
    logger.warning(
        "snapkafka observes: a snapshot of %s would hold the positions of %s and the tables %s",
        seen.app,
        ", ".join(topic.name for topic in seen.topics) or "no topic",
        ", ".join(table.name for table in seen.tables) or "(none)",
        extra=about(),
    )
    for advice in seen.found:
        if advice.code != "not-installed":
            logger.warning("snapkafka observes: %s; %s", advice.what, advice.do, extra=about())


#: Stores that drop keys without a word to Faust begin so.
EXPIRES_BY_ITSELF: Final = "aerospike"


def uncaptured(app: Any, ours: Any = None) -> Iterator[str]:
    """Name the parts of an app that no snapshot holds, as far as its definition shows; `ours`: the recording agent."""
    for agent in app.agents.values():
        if agent is not ours and not hasattr(agent.channel, "topics"):
            yield (f"agent {agent.name} reads an in-memory channel: no snapshot holds its messages")
    for table in app.tables.values():
        if str(getattr(table, "_store", None) or app.conf.store).startswith(EXPIRES_BY_ITSELF):
            yield (
                f"table {table.name} is stored in Aerospike, which expires keys by itself: no snapshot records which"
            )


def expires_ms(table: Any) -> int:
    """Return after how long the windows of a table expire, 0 where it has none or they never do."""
    return round((getattr(table.window, "expires", None) or 0) * 1_000)


def of_sets(table: Any) -> bool:
    """Return whether the values are sets, which change by records of their own."""
    return hasattr(table.data, "send_changelog_event")


def copartitioned(table: Any) -> bool:
    """Return whether a change goes to the partition of the event that makes it. A partitioner may choose any
    partition, and a global table is often written by another app and only read in this one."""
    return not (table.use_partitioner or is_global(table))


def keyed(table: Any) -> bool:
    """Return whether each key belongs in one partition: that of its events, which Faust's own partitioner chooses. A
    set is changed by operations, and a window often counts whatever comes to its partition."""
    plain = table.window is None and not of_sets(table) and table.app.conf.producer_partitioner is None
    return plain and copartitioned(table)


def is_global(table: Any) -> bool:
    """Return whether every worker has all of the table."""
    from faust.types.tables import GlobalTableT

    return bool(table.is_global) or isinstance(table, GlobalTableT)


def internal_topics(app: Any) -> set[str]:
    """Return the topics that are Faust's own, besides changelogs."""
    return {app.conf.reply_to, app._leader_assignor._leader_topic_name}


def runs_no_agents(app: Any) -> bool:
    """Return whether the app is client-only or producer-only: then it has no consumer group and reads no inputs."""
    return bool(app.client_only or app.producer_only)


def in_transactions(app: Any) -> bool:
    """Return whether the app sends in transactions. Faust caches `app.in_transaction`: asked too early, it would be
    wrong for good."""
    return str(getattr(app.conf.processing_guarantee, "value", "")) == "exactly_once"


def codec_name(codec: Any) -> str:
    """Return Faust's name of a codec; for one that is passed as an object, the names under which its parts are
    registered."""
    from faust.serializers.codecs import codecs

    if codec is None or isinstance(codec, str):
        return codec or "json"

    def parts_of(known: Any) -> tuple[type, ...]:
        return tuple(map(type, getattr(known, "nodes", (known,))))

    names = {parts_of(known): name for name, known in codecs.items()}
    parts = parts_of(codec)
    return names.get(parts) or "|".join(names.get((part,), part.__name__) for part in parts)


def codecs_of(app: Any, topic: str) -> tuple[str, str]:
    """Return the codecs of keys and of values by which agents read a topic; empty where they differ or are unknown."""
    from faust import Schema

    channels = [agent.channel for agent in app.agents.values()]
    schemas = [channel.schema for channel in channels if topic in (getattr(channel, "topics", None) or ())]
    if any(type(schema) is not Schema for schema in schemas):
        return "", ""
    keys = {codec_name(schema.key_serializer or app.conf.key_serializer or "raw") for schema in schemas}
    values = {codec_name(schema.value_serializer or app.conf.value_serializer) for schema in schemas}
    return keys.pop() if len(keys) == 1 else "", values.pop() if len(values) == 1 else ""


def _imported(path: str) -> Any:
    from faust.cli.base import find_app

    hint = "write module:app, as for `faust -A`, and run it where the module is found"
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what an app prints is no part of the result
            return find_app(path)
    except (Exception, SystemExit) as error:
        raise BadInputError(f"app {path} cannot be imported: {error!r}", hint=hint) from error


def _about_joining(app: Any, driver: Any, topics: tuple[DescribedTopic, ...]) -> Iterator[Advice]:
    if driver is None and os.environ.get("SNAPKAFKA") != "off":
        yield Advice(
            code="not-installed",
            weight=Weight.PROBLEM,
            what="snapkafka is not installed on this app: no snapshot holds it",
            do='call snapkafka.install(app, namespace="...") once, or leave enabled=False out',
        )
    if found := not_as_expected():
        yield Advice(
            code="faust-not-as-expected",
            weight=Weight.PROBLEM,
            what=f"this release of Faust is not supported: {', '.join(found)}",
            do="its workers run without snapshots; use a release of Faust that README names",
        )
    if why := refusal(app):
        yield Advice(
            code="setting-refused",
            weight=Weight.PROBLEM,
            what=why,
            do="take that setting out, kafka:// is Faust's default; its workers run without snapshots until then",
        )
    if not topics:
        yield Advice(
            code="nothing-to-cut",
            weight=Weight.PROBLEM,
            what="no agent reads a topic: there is nothing to snapshot",
            do="a process that only sends needs no snapkafka; what it sends is replayable input",
        )
    if "exactly_once" in str(app.conf.processing_guarantee).lower():
        yield Advice(
            code="transactions",
            weight=Weight.NOTE,
            what="processing_guarantee is exactly_once: a snapshot waits until earlier messages are committed",
            do=f"use a --ttl above broker_commit_interval ({app.conf.broker_commit_interval:g} s)",
        )


def _about_tables(app: Any) -> Iterator[Advice]:
    for table in app.tables.values():
        if expires := expires_ms(table):
            yield Advice(
                code="windows",
                weight=Weight.NOTE,
                what=f"table {table.name} has windows of {expires / 1_000:g} s and the same retention: too short"
                " for assembly",
                do="after the first start `snapkafka doctor -v` prints the command that raises it",
            )
        elif of_sets(table):
            yield Advice(
                code="sets",
                weight=Weight.NOTE,
                what=f"table {table.name} holds sets: those that do not change within the cluster's retention are lost",
                do="after the first start `snapkafka doctor -v` prints the command that removes the limit",
            )
