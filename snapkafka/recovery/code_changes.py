"""Differences between the code that ran at a snapshot and the code that would run now.

Agents and tables are identified by name, so a renamed one is a missing one. An existing one may read the same bytes
differently: by another codec, into another model, as another kind of table. The facts come from the `Hello` of the
process that ran last.
"""

from __future__ import annotations

import dataclasses
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MissingInCode:
    """A part that the code of `app` lacks. `kind`: "table", "agent" or "input"; `topic`: changelog or input."""

    app: str
    kind: str
    name: str
    topic: str = ""

    def __str__(self) -> str:
        named = f" with changelog {self.topic}" if self.kind == "table" else ""
        return f"{self.kind} {self.name}{named} of app {self.app}"


def missing_parts(captured: Captured, hellos: Mapping[str, Hello]) -> tuple[MissingInCode, ...]:
    """List the tables, inputs and agents of the snapshot that the code lacks, except those of apps without a `Hello`.

    Agents are compared if both sides have announced them.
    """
    found: dict[MissingInCode, None] = {}
    announced = {code.app: {agent.name for agent in code.agents} for code in captured.code}
    for cut in captured.changelogs:
        hello = hellos.get(cut.app)
        if hello is not None and cut.topic not in {table.changelog for table in hello.tables}:
            found[MissingInCode(app=cut.app, kind="table", name=cut.table, topic=cut.topic)] = None
    for source in captured.inputs:
        hello = hellos.get(source.app)
        if hello is None:
            continue
        if source.topic not in {*(known.topic for known in hello.inputs), *hello.missing}:
            found[MissingInCode(app=source.app, kind="input", name=source.topic, topic=source.topic)] = None
        lost = {position.agent for position in source.agents} & announced.get(source.app, set())
        if hello.agents:
            lost -= {agent.name for agent in hello.agents}
            for name in sorted(lost):
                found[MissingInCode(app=source.app, kind="agent", name=name)] = None
    return tuple(sorted(found, key=lambda item: (item.app, item.kind, item.name)))


def changed_parts(captured: Captured, hellos: Mapping[str, Hello]) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, name with its app, difference) for each table and agent that reads its bytes differently."""
    changelogs = {(cut.app, cut.topic) for cut in captured.changelogs}
    agents = {(cut.app, position.agent) for cut in captured.inputs for position in cut.agents}
    for code in captured.code:
        hello = hellos.get(code.app)
        if hello is None or not hello.agents:
            continue
        tables_now = {table.changelog: table for table in hello.tables}
        for table in code.tables:
            now = tables_now.get(table.changelog)
            concerned = (code.app, table.changelog) in changelogs
            if now is not None and concerned and (what := _differences(table, now)):
                yield "table", f"table {table.name} of app {code.app}", what
        agents_now = {agent.name: agent for agent in hello.agents}
        for agent in code.agents:
            there = agents_now.get(agent.name)
            concerned = (code.app, agent.name) in agents
            if there is not None and concerned and (what := _differences(agent, there)):
                yield "agent", f"agent {agent.name} of app {code.app}", what


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
