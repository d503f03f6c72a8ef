"""Differences between the code that ran at a snapshot and the code that would run now.

Agents and tables are identified by name, so a renamed one is a missing one. An existing one may read the same bytes
differently: by another codec, into another model, as another kind of table. The facts come from the `Hello` of the
process that ran last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.records import Agent, Hello, Table

#: What makes a table or an agent read otherwise, and what to call it.
READS: Final = {
    "kind": "kind of table",
    "key_codec": "key codec",
    "value_codec": "value codec",
    "key_type": "key type",
    "value_type": "value type",
    "windowed": "windows",
}


def code_changes(captured: Captured, hellos: Mapping[str, Hello]) -> Iterator[tuple[str, str]]:
    """Yield what the code of the last run lacks of a snapshot, or reads differently, except of apps without a `Hello`:
    a code, and the difference in words. Agents are compared if both sides have announced them."""
    yield from sorted(set(_missing(captured, hellos)))
    changelogs = {(cut.app, cut.topic) for cut in captured.changelogs}
    agents = {(cut.app, position.agent) for cut in captured.inputs for position in cut.agents}
    for code in captured.code:
        hello = hellos.get(code.app)
        if hello is None or not hello.agents:
            continue
        tables_now = {table.changelog: table for table in hello.tables}
        for table in (it for it in code.tables if (code.app, it.changelog) in changelogs):
            now = tables_now.get(table.changelog)
            if now is not None and (what := _differences(table, now)):
                yield "table-changed", f"table {table.name} of app {code.app} has changed: {what}"
        agents_now = {agent.name: agent for agent in hello.agents}
        for agent in (it for it in code.agents if (code.app, it.name) in agents):
            there = agents_now.get(agent.name)
            if there is not None and (what := _differences(agent, there)):
                yield "agent-changed", f"agent {agent.name} of app {code.app} has changed: {what}"


def _missing(captured: Captured, hellos: Mapping[str, Hello]) -> Iterator[tuple[str, str]]:
    announced = {code.app: {agent.name for agent in code.agents} for code in captured.code}
    for cut in captured.changelogs:
        hello = hellos.get(cut.app)
        if hello is not None and cut.topic not in {table.changelog for table in hello.tables}:
            yield (
                "table-missing",
                f"table {cut.table} of app {cut.app} with changelog {cut.topic} is not in the code",
            )
    for source in captured.inputs:
        hello = hellos.get(source.app)
        if hello is None:
            continue
        if source.topic not in {*(known.topic for known in hello.inputs), *hello.missing}:
            yield "input-missing", f"input {source.topic} of app {source.app} is not in the code"
        lost = {position.agent for position in source.agents} & announced.get(source.app, set())
        for name in lost - {agent.name for agent in hello.agents} if hello.agents else ():
            yield "agent-missing", f"agent {name} of app {source.app} is not in the code"


def _differences(before: Table | Agent, now: Table | Agent) -> str:
    found = [
        f"its {words} was {_value(before, name)} and is {_value(now, name)}"
        for name, words in READS.items()
        if getattr(before, name, "") != getattr(now, name, "")
    ]
    return ", ".join(found)


def _value(of: Table | Agent, name: str) -> str:
    value = getattr(of, name)
    return str(value).lower() if isinstance(value, bool) else value or "not declared"
