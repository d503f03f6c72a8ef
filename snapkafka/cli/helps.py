"""The help of each command besides its docstring: its group, and an example."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar, get_origin, get_type_hints

import typer

from .running import console

F = TypeVar("F", bound=Callable[..., Any])


class Panel(StrEnum):
    """A group of commands, by what a user wants to do."""

    TAKE = "Take"
    INSPECT = "Inspect"
    TRUST = "Trust"
    RECOVER = "Recover"
    OPERATE = "Operate"
    LEARN = "Learn"


@dataclass(frozen=True, slots=True)
class Help:
    """The help of one command besides its options."""

    panel: Panel
    example: str

    @property
    def epilog(self) -> str:
        """The line below the options."""
        return f"Example: {self.example}"


SNAPKAFKA: Final = "Consistent global snapshots of running Faust services on Kafka, without stopping them."
START: Final = "Example: snapkafka demo\n\nHelp: snapkafka COMMAND --help"
HELPS: Final = {
    "trigger": Help(Panel.TAKE, "snapkafka trigger --wait --storage /data/snapshots"),
    "list": Help(Panel.TAKE, "snapkafka list"),
    "show": Help(Panel.TAKE, "snapkafka show latest"),
    "watch": Help(Panel.TAKE, "snapkafka watch --until termination --set topics=jobs --storage DIR"),
    "keep": Help(Panel.TAKE, "snapkafka keep --every 1h --keep-last 24 --storage /data/snapshots"),
    "query": Help(Panel.INSPECT, "snapkafka query 'SELECT * FROM state' --storage /data/snapshots"),
    "diff": Help(Panel.INSPECT, "snapkafka diff monday latest --storage /data/snapshots"),
    "draw": Help(Panel.INSPECT, "snapkafka draw latest --storage /data/snapshots -o cut.svg"),
    "trace": Help(Panel.INSPECT, "snapkafka trace payments 0 1042"),
    "assemble": Help(Panel.TRUST, "snapkafka assemble latest --storage /data/snapshots"),
    "verify": Help(Panel.TRUST, "snapkafka verify latest --storage /data/snapshots"),
    "audit": Help(Panel.TRUST, "snapkafka audit --storage /data/snapshots"),
    "verdicts": Help(Panel.TRUST, "snapkafka verdicts --follow"),
    "invariants": Help(
        Panel.TRUST,
        "snapkafka invariants history money",
    ),
    "invariants list": Help(Panel.TRUST, "snapkafka invariants list"),
    "invariants history": Help(Panel.TRUST, "snapkafka invariants history money"),
    "drill": Help(Panel.TRUST, "snapkafka drill --app 'python -m faust -A shop worker'"),
    "restore": Help(Panel.RECOVER, "snapkafka restore latest --dry-run"),
    "fork": Help(
        Panel.RECOVER,
        "snapkafka fork create staging --from latest",
    ),
    "fork create": Help(Panel.RECOVER, "snapkafka fork create staging --from friday --expires 2d"),
    "fork list": Help(Panel.RECOVER, "snapkafka fork list"),
    "fork diff": Help(Panel.RECOVER, "snapkafka fork diff staging --keys 10"),
    "fork drop": Help(Panel.RECOVER, "snapkafka fork drop staging"),
    "doctor": Help(Panel.OPERATE, "snapkafka doctor --offline shop:app"),
    "pause": Help(Panel.OPERATE, "snapkafka pause"),
    "resume": Help(Panel.OPERATE, "snapkafka resume"),
    "retire": Help(Panel.OPERATE, "snapkafka retire --app old-shop"),
    "checkpoint": Help(Panel.OPERATE, "snapkafka checkpoint --keep 7d"),
    "prune": Help(Panel.OPERATE, "snapkafka prune --storage /data/snapshots --keep-last 24"),
    "topics": Help(Panel.OPERATE, "snapkafka topics create orders --partitions 4"),
    "topics create": Help(Panel.OPERATE, "snapkafka topics create orders payments --partitions 4"),
    "serve": Help(Panel.OPERATE, "snapkafka serve --storage-root /data/snapshots"),
    "demo": Help(Panel.LEARN, "snapkafka demo --drill"),
}


def command(app: typer.Typer, name: str, **settings: Any) -> Callable[[F], F]:
    """Register a command; its docstring is what its help begins with.

    Args:
        name: as in `HELPS`; the last word is what `app` has it by.
        settings: more for typer.
    """
    found = HELPS[name]
    register = app.command(
        name=name.split()[-1], epilog=found.epilog, rich_help_panel=found.panel, **settings
    )

    def registered(function: F) -> F:
        begun = _begun(name, function)
        annotations: dict[str, Any] = begun.__annotations__
        for hint in annotations.values():
            if get_origin(hint) is Annotated and hint.__origin__ is bool:
                _take_no_value(hint.__metadata__)
        register(begun)
        return function

    return registered


def group(app: typer.Typer, name: str, commands: typer.Typer) -> None:
    """Register a group of commands."""
    found = HELPS[name]
    app.add_typer(commands, name=name, epilog=f"Example: {found.example}", rich_help_panel=found.panel)


def _begun(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that begins its output."""

    @functools.wraps(function)
    def command(**given: Any) -> Any:
        console.begin(name)
        return function(**given)

    command.__annotations__ = get_type_hints(function, include_extras=True)
    return command


def _take_no_value(options: Iterable[Any]) -> None:
    """Let help show a flag without a value: typer would show its type, `<bool>`."""
    for option in options:
        option.metavar = ""
