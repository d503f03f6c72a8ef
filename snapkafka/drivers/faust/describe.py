"""An app as it is defined: its agents, tables and types, without asking a broker.

Positions are kept by the names of agents, and state by tables; codecs and models give their bytes a meaning. A restore
compares them, to find out whether other code would read a snapshot's data. A model is described by its name and fields,
without its module: code that has merely moved reads the same.
"""

from __future__ import annotations

import types
import typing
import zlib
from collections.abc import Iterator
from typing import Any, Final

from snapkafka.kafka.login.connection import Connection
from snapkafka.protocol.records import Agent, Table

from ..hello import connection_to

#: The name of our own agent.
RECORDER: Final = "snapkafka.recorder"
#: A `Hello` is one record of at most 256 KB, and an app may have hundreds of tables: longer types end in a checksum.
TYPE_CHARS_MAX: Final = 300
#: Stores that drop keys without a word to Faust begin so.
EXPIRES_BY_ITSELF: Final = "aerospike"


def uncaptured(app: Any) -> Iterator[str]:
    """Name the parts of an app that no snapshot holds, as far as its definition shows."""
    for agent in app.agents.values():
        if agent.name != RECORDER and not hasattr(agent.channel, "topics"):
            yield f"agent {agent.name} reads an in-memory channel: no snapshot holds its messages"
    for table in app.tables.values():
        if str(getattr(table, "_store", None) or app.conf.store).startswith(EXPIRES_BY_ITSELF):
            yield (
                f"table {table.name} is stored in Aerospike, which expires keys by itself: no snapshot records which"
            )


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


def agents_of(app: Any) -> Iterator[Agent]:
    """Describe the agents of an app, by name, without our recorder."""
    from faust import Schema

    for name, agent in sorted(app.agents.items()):
        if name == RECORDER:
            continue
        channel = agent.channel
        schema: Any = getattr(channel, "schema", None)
        plain = type(schema) is Schema
        yield Agent(
            name=name,
            topics=tuple(sorted(getattr(channel, "topics", None) or ())),
            key_codec=codec_name(schema.key_serializer or app.conf.key_serializer or "raw") if plain else "",
            value_codec=codec_name(schema.value_serializer or app.conf.value_serializer) if plain else "",
            key_type=type_name(getattr(channel, "key_type", None)),
            value_type=type_name(getattr(channel, "value_type", None)),
        )


def codecs_of(app: Any, topic: str) -> tuple[str, str]:
    """Return the codecs of keys and of values by which agents read a topic; empty where they differ or are unknown."""
    read = {(agent.key_codec, agent.value_codec) for agent in agents_of(app) if topic in agent.topics}
    keys, values = ({codecs[n] for codecs in read} for n in (0, 1))
    return keys.pop() if len(keys) == 1 else "", values.pop() if len(values) == 1 else ""


def table_of(table: Any, topic: Any = None) -> Table:
    """Describe a table; `topic`: what the broker says of its changelog, if that is known."""
    return Table(
        name=table.name,
        changelog=table.changelog_topic_name,
        partitions=topic.partitions if topic else 0,
        key_codec=codec_name(table.key_serializer),
        value_codec=codec_name(table.value_serializer),
        topic_id=topic.topic_id if topic else "",
        expires_ms=round((getattr(table.window, "expires", None) or 0) * 1_000),
        sets=of_sets(table),
        windowed=table.window is not None,
        copartitioned=copartitioned(table),
        is_global=is_global(table),
        keyed=keyed(table),
        kind=type(table).__name__,
        key_type=type_name(table.key_type),
        value_type=type_name(table.value_type),
    )


def type_name(kind: Any) -> str:
    """Describe a type that keys or values are read as: `Order(id: str, total: float)`; empty: None was declared."""
    if kind is None:
        return ""
    try:
        text = _described(kind, ())
    except Exception:  # R15: whatever a service uses as a type, it starts
        return ""
    if len(text) <= TYPE_CHARS_MAX:
        return text
    tail = f"...#{zlib.crc32(text.encode()):08x}"
    return text[: TYPE_CHARS_MAX - len(tail)] + tail


def _described(kind: Any, within: tuple[Any, ...]) -> str:
    """Describe a type; a model that holds itself (`within`) is described once."""
    if kind is type(None):
        return "None"
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(sorted(_described(argument, within) for argument in arguments))
    if origin is not None:
        inner = ", ".join(_described(argument, within) for argument in arguments)
        return f"{_name(origin)}[{inner}]"
    options = getattr(kind, "_options", None)
    fields = getattr(options, "fields", None)
    if not fields or kind in within:
        return _name(kind)
    inner = ", ".join(f"{name}: {_described(of, (*within, kind))}" for name, of in sorted(fields.items()))
    return f"{_name(kind)}({inner})"


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)


def connection_of(app: Any) -> Connection:
    from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth, server_list

    security = dict(credentials_to_aiokafka_auth(app.conf.broker_credentials, app.conf.ssl_context))
    return connection_to(",".join(server_list(app.conf.broker, 9092)), security)
