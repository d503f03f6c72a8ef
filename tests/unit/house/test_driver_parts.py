"""The parts of the drivers reach what they share through a narrow host, and each other by their constructors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

DRIVERS: Final = Path(__file__).resolve().parents[3] / "snapkafka" / "drivers"
FAUST: Final = DRIVERS / "faust"
#: Here the parts of each driver are made and wired, and nowhere else.
WIRING: Final = FAUST / "driver.py"
WIRINGS: Final = (WIRING, DRIVERS / "plain" / "participant.py")
#: Names under which parts know their host, or the whole driver.
HOSTS: Final = frozenset({"host", "_host", "driver", "_driver"})
MACHINES: Final = frozenset({"machine", "_machine"})


def name_of(node: ast.expr) -> str:
    """The last name of `host`, `self._host`, `self._host.machine`; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def parts_in(wiring: str) -> frozenset[str]:
    """The attributes of the driver that hold its parts: `self.x = X(...)`, `self.x: X`."""
    (driver,) = (node for node in ast.parse(wiring).body if isinstance(node, ast.ClassDef))
    return frozenset(
        target.attr
        for node in ast.walk(driver)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and name_of(target.value) == "self"
        if isinstance(node.value, ast.Call) or isinstance(node, ast.AnnAssign)
        if not target.attr.startswith("_")
    )


def siblings_reached(source: str, parts: frozenset[str]) -> Iterator[str]:
    """Yield where a part is reached through the host."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and name_of(node.value) in HOSTS and node.attr in parts:
            yield f"line {node.lineno}: {ast.unparse(node)}"


def machine_set(source: str) -> Iterator[str]:
    """Yield where an attribute of a machine is set from outside, or one of its parts."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store | ast.Del):
            continue
        owner = node.value
        while isinstance(owner, ast.Attribute) and name_of(owner) not in MACHINES:
            owner = owner.value
        if name_of(owner) in MACHINES:
            yield f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("self._host.events.cause()", "line 1: self._host.events"),
        ("host.events = Events()", "line 1: host.events"),
        ("def f(driver):\n    return driver.tables", "line 2: driver.tables"),
        ("self._events.cause()", ""),
        ("host.machine.event_started(cause)", ""),
    ],
)
def test_who_reaches_a_sibling_through_the_host_is_found(source: str, found: str) -> None:
    assert "".join(siblings_reached(source, frozenset({"events", "tables"}))) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("host.machine.marks = False", "line 1: host.machine.marks"),
        ("self._machine.process, actions = None, ()", "line 1: self._machine.process"),
        ("self.machine.ledger.end += 1", "line 1: self.machine.ledger.end"),
        ("self.machine = machine", ""),
        ("ended = machine.event_ended(cause)", ""),
    ],
)
def test_who_sets_what_is_the_machines_is_found(source: str, found: str) -> None:
    assert "".join(machine_set(source)) == found


def test_parts_are_those_that_the_driver_makes() -> None:
    parts = parts_in(WIRING.read_text("utf-8"))
    assert {"events", "reads", "tables", "outgoing", "waiting", "ledger_tasks", "membership"} <= parts
    assert not parts & {"machine", "metrics", "app", "config"}, "these are the host's"


def test_no_part_reaches_a_sibling_through_the_host() -> None:
    parts = parts_in(WIRING.read_text("utf-8"))
    found = [
        f"{path.relative_to(DRIVERS)}, {where}"
        for path in sorted(DRIVERS.rglob("*.py"))
        if path not in WIRINGS
        for where in siblings_reached(path.read_text("utf-8"), parts)
    ]
    assert not found, "make it an argument of the constructor"


def test_nobody_sets_what_is_the_machines() -> None:
    found = [
        f"{path.relative_to(DRIVERS)}, {where}"
        for path in sorted(DRIVERS.rglob("*.py"))
        for where in machine_set(path.read_text("utf-8"))
    ]
    assert not found, "feed it an event, or call a method of it"
