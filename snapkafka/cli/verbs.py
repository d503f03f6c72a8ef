"""The command and its help: each of its commands is imported when it runs."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from snapkafka import __version__

from .helps import HELPS, SNAPKAFKA, START, settings

#: Those that were imported, by their names in `HELPS`.
COMMANDS: Final[dict[str, Any]] = {}


class WithoutType:
    """A command whose help shows no type beside `--help`."""

    def get_help_option(self, ctx: Any) -> Any:
        found = super().get_help_option(ctx)  # type: ignore[misc]  # of the command
        if found is not None:
            found.metavar = ""
        return found


class Command(WithoutType, TyperCommand): ...


class Group(WithoutType, TyperGroup):
    """Commands by `HELPS`."""

    _listing = False

    @property
    def commands(self) -> Any:
        """All of them, imported."""
        return {name: self.get_command(None, name) for name in self.list_commands(None)}

    @commands.setter
    def commands(self, given: Any) -> None:
        """Leave out what typer has, which is nothing."""

    def list_commands(self, ctx: Any) -> list[str]:
        above = self.name if self.name in HELPS else ""
        found = [name.rpartition(" ") for name in HELPS]
        return [last for parent, _, last in found if parent == above]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        full = f"{self.name} {cmd_name}" if self.name in HELPS else cmd_name
        if full not in HELPS:
            return None
        found = HELPS[full]
        if self._listing or not found.module:
            kind = Command if found.module else Group
            more = {} if found.module else {"no_args_is_help": True, "rich_markup_mode": "rich"}
            return kind(name=cmd_name, **more, **settings(full))  # type: ignore[arg-type]
        import_module(f".commands.{found.module}", __package__)
        return COMMANDS[full]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the commands without importing them."""
        self._listing = True
        super().format_help(ctx, formatter)
        self._listing = False


app = typer.Typer(
    name="snapkafka",
    cls=Group,
    epilog=START,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


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
