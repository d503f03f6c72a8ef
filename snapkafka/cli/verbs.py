"""The commands."""

from __future__ import annotations

import runpy
import sys
from typing import Annotated, Any, Final

import typer

from snapkafka import __version__

from .build import app, command
from .commands import operate, recovery, snapshots, tables, trust
from .helps import HELPS, SNAPKAFKA

__all__ = ["app", "operate", "recovery", "snapshots", "tables", "trust"]


def _version_asked(asked: bool) -> None:
    if asked:
        print(f"snapkafka {__version__}")
        raise typer.Exit


@app.callback(help=SNAPKAFKA)
def _any(
    version: Annotated[
        bool,
        typer.Option(
            "--version", metavar="", callback=_version_asked, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Accept the options before the command."""


#: For a command whose own program parses its options.
ELSEWHERE: Final[dict[str, Any]] = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}


@command("broker", context_settings=ELSEWHERE)
def broker(context: typer.Context) -> None:
    """Run a Kafka on this machine until Ctrl-C."""
    _elsewhere("testing", context.args)


@command("demo", context_settings=ELSEWHERE)
def demo(context: typer.Context) -> None:
    """Run a demo on this machine: broker, services, snapshots."""
    _elsewhere("demo", context.args)


def _elsewhere(module: str, arguments: list[str]) -> None:
    sys.argv = [f"snapkafka {'broker' if module == 'testing' else module}", *arguments]
    runpy.run_module(f"snapkafka.{module}", run_name="__main__")


app.registered_commands.sort(key=lambda it: list(HELPS).index(it.name or ""))
