"""The code of an app, described so that a restore can find out whether other code would read a snapshot's data.

Positions are kept by the names of agents, and state by tables; codecs and models give their bytes a meaning. A model
is described by its name and fields, without its module: code that has merely moved reads the same.
"""

from __future__ import annotations

import types
import typing
import zlib
from collections.abc import Iterator
from typing import Any, Final

from snapkafka.protocol.records import Agent

from .describe import codec_name

#: A `Hello` is one record of at most 256 KB, and an app may have hundreds of tables: longer types end in a checksum.
TYPE_CHARS_MAX: Final = 300


def agents_of(app: Any, ours: Any = None) -> Iterator[Agent]:
    """Describe the agents of an app, by name; `ours`: the recording agent, which is left out."""
    for _, agent in sorted(app.agents.items()):
        if agent is not ours:
            yield _agent(app, agent)


def _agent(app: Any, agent: Any) -> Agent:
    from faust import Schema

    channel = agent.channel
    schema: Any = getattr(channel, "schema", None)
    plain = type(schema) is Schema
    return Agent(
        name=agent.name,
        topics=tuple(sorted(getattr(channel, "topics", None) or ())),
        key_codec=codec_name(schema.key_serializer or app.conf.key_serializer or "raw") if plain else "",
        value_codec=codec_name(schema.value_serializer or app.conf.value_serializer) if plain else "",
        key_type=type_name(getattr(channel, "key_type", None)),
        value_type=type_name(getattr(channel, "value_type", None)),
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
