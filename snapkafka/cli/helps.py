"""The help of each command besides its docstring: its group, an example, and the exit statuses that it can return."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Annotated, Any, Final, TypeVar, get_origin, get_type_hints

import typer

from .running import console

F = TypeVar("F", bound=Callable[..., Any])

#: Exit statuses of every command: done, bad input, an extra that is missing, a full disk, a bug.
ALWAYS: Final = frozenset({0, 2, 12, 13, 70})
#: A command that needs a broker: none answers, the ledger cannot be used, it cannot log in.
BROKER: Final = frozenset({3, 4, 19, 20, 21})
#: A command that reads assembled snapshots: there is no such snapshot, or the storage cannot be read.
STORED: Final = frozenset({5, 8})
#: A command that assembles: besides these, the records were deleted, or something did not come in time.
ASSEMBLES: Final = BROKER | STORED | {1, 7, 9, 10}


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
    """The help of one command. `statuses`: exit statuses that it can return, besides those of every command."""

    panel: Panel
    example: str
    statuses: frozenset[int] = frozenset()

    @property
    def epilog(self) -> str:
        """The lines below the options."""
        statuses = _ranges(sorted(self.statuses | ALWAYS))
        return f"Example: {self.example}\n\nExit status: {statuses} (snapkafka help exit-status)"


SNAPKAFKA: Final = "Consistent global snapshots of running Faust services on Kafka, without stopping them."
START: Final = (
    "Example: snapkafka demo\n\nHelp: snapkafka COMMAND --help; exit statuses: snapkafka help exit-status"
)
HELPS: Final = {
    "trigger": Help(
        Panel.TAKE,
        "snapkafka trigger --wait --storage /data/snapshots",
        BROKER | {5, 6, 7, 10},
    ),
    "list": Help(Panel.TAKE, "snapkafka list", BROKER),
    "show": Help(
        Panel.TAKE,
        "snapkafka show latest",
        BROKER | {5},
    ),
    "watch": Help(
        Panel.TAKE,
        "snapkafka watch --until termination --set topics=jobs --storage DIR",
        ASSEMBLES | {6},
    ),
    "keep": Help(
        Panel.TAKE,
        "snapkafka keep --every 1h --keep-last 24 --storage /data/snapshots",
        ASSEMBLES | {6},
    ),
    "query": Help(
        Panel.INSPECT,
        "snapkafka query 'SELECT * FROM state' --storage /data/snapshots",
        BROKER | STORED | {10},
    ),
    "diff": Help(
        Panel.INSPECT,
        "snapkafka diff monday latest --storage /data/snapshots",
        BROKER | STORED | {10},
    ),
    "draw": Help(
        Panel.INSPECT,
        "snapkafka draw latest --storage /data/snapshots -o cut.svg",
        BROKER | STORED | {10},
    ),
    "trace": Help(
        Panel.INSPECT,
        "snapkafka trace payments 0 1042",
        BROKER | STORED,
    ),
    "assemble": Help(
        Panel.TRUST,
        "snapkafka assemble latest --storage /data/snapshots",
        ASSEMBLES,
    ),
    "verify": Help(
        Panel.TRUST,
        "snapkafka verify latest --storage /data/snapshots",
        ASSEMBLES,
    ),
    "audit": Help(
        Panel.TRUST,
        "snapkafka audit --storage /data/snapshots",
        ASSEMBLES | {6},
    ),
    "verdicts": Help(
        Panel.TRUST,
        "snapkafka verdicts --follow",
        BROKER,
    ),
    "invariants": Help(
        Panel.TRUST,
        "snapkafka invariants history money",
    ),
    "invariants list": Help(Panel.TRUST, "snapkafka invariants list", BROKER),
    "invariants history": Help(Panel.TRUST, "snapkafka invariants history money", BROKER | {8}),
    "drill": Help(
        Panel.TRUST,
        "snapkafka drill --app 'python -m faust -A shop worker'",
        BROKER | {1},
    ),
    "restore": Help(
        Panel.RECOVER,
        "snapkafka restore latest --dry-run",
        BROKER | STORED | {1, 6, 7, 10, 14, 15, 22, 23},
    ),
    "fork": Help(
        Panel.RECOVER,
        "snapkafka fork create staging --from latest",
    ),
    "fork create": Help(
        Panel.RECOVER,
        "snapkafka fork create staging --from friday --expires 2d",
        BROKER | STORED | {1, 7, 10, 14, 15, 16, 17, 22, 23},
    ),
    "fork list": Help(Panel.RECOVER, "snapkafka fork list", BROKER | {16}),
    "fork diff": Help(
        Panel.RECOVER,
        "snapkafka fork diff staging --keys 10",
        BROKER | STORED | {10, 16},
    ),
    "fork drop": Help(
        Panel.RECOVER,
        "snapkafka fork drop staging",
        BROKER | {1, 16, 17, 22, 23},
    ),
    "doctor": Help(
        Panel.OPERATE,
        "snapkafka doctor --offline shop:app",
        BROKER | {1},
    ),
    "pause": Help(
        Panel.OPERATE,
        "snapkafka pause",
        BROKER,
    ),
    "resume": Help(Panel.OPERATE, "snapkafka resume", BROKER),
    "retire": Help(
        Panel.OPERATE,
        "snapkafka retire --app old-shop",
        BROKER,
    ),
    "checkpoint": Help(
        Panel.OPERATE,
        "snapkafka checkpoint --keep 7d",
        BROKER,
    ),
    "prune": Help(
        Panel.OPERATE,
        "snapkafka prune --storage /data/snapshots --keep-last 24",
        BROKER | {1, 8},
    ),
    "namespaces": Help(Panel.OPERATE, "snapkafka namespaces", BROKER),
    "topics": Help(Panel.OPERATE, "snapkafka topics create orders --partitions 4"),
    "topics create": Help(Panel.OPERATE, "snapkafka topics create orders payments --partitions 4", BROKER),
    "metrics": Help(
        Panel.OPERATE,
        "snapkafka metrics --output /var/lib/node_exporter/snapkafka.prom",
        BROKER,
    ),
    "serve": Help(
        Panel.OPERATE,
        "snapkafka serve --storage-root /data/snapshots",
        BROKER | {8},
    ),
    "demo": Help(
        Panel.LEARN,
        "snapkafka demo --drill",
        BROKER | STORED | {1, 6, 7, 9, 10, 14, 15, 16, 17},
    ),
    "help": Help(
        Panel.LEARN,
        "snapkafka help exit-status",
    ),
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


def _ranges(numbers: Iterable[int]) -> str:
    """Return sorted numbers as text: `0-3, 12, 19-21`."""
    runs = groupby(enumerate(numbers), lambda item: item[1] - item[0])
    found = [[number for _, number in run] for _, run in runs]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found)
