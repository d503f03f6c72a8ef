"""The command and its help: each of its commands is imported when it runs."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from snapkafka import __version__, verbs

SNAPKAFKA: Final = "Consistent global snapshots of running Faust services on Kafka."
START: Final = "Example: snapkafka demo"

#: Groups of commands, by what a user wants to do.
PANELS = TAKE, INSPECT, TRUST, RECOVER, OPERATE = "Take", "Inspect", "Trust", "Recover", "Operate"
#: Of commands that only this machine is needed for.
ELSEWHERE: Final = "snapkafka.demo.command"
STORED: Final = "--storage /data/snapshots"


class Help(NamedTuple):
    """A command, or a group of them. `module`: of `commands`, or another, imported when the command runs; empty: a
    group. `example`: of its arguments. `about`: the request that it is made from, or what it does. `run`: its function
    in `ops`, where that has another name. `offline`: it works without a broker."""

    panel: str
    module: str
    example: str
    about: type[verbs.Request] | str
    run: str = ""
    offline: bool = False


HELPS: Final = {
    "trigger": Help(TAKE, "snapshots", f"--wait {STORED}", verbs.Trigger),
    "list": Help(TAKE, "snapshots", "", "List snapshots and their states.", "list_snapshots"),
    "show": Help(TAKE, "snapshots", "latest", verbs.Show),
    "keep": Help(TAKE, "operate", f"--every 1h --keep-last 24 {STORED}", verbs.Keep),
    "query": Help(INSPECT, "tables", f"'SELECT * FROM state' {STORED}", verbs.Query),
    "diff": Help(INSPECT, "tables", f"monday latest {STORED}", verbs.Diff, offline=True),
    "draw": Help(INSPECT, "tables", f"latest {STORED} -o cut.svg", verbs.Draw),
    "trace": Help(INSPECT, "tables", "payments 0 1042", verbs.Trace),
    "assemble": Help(
        TRUST, "snapshots", f"latest {STORED}", "Build the tables of captured snapshots, and verify."
    ),
    "verify": Help(
        TRUST,
        "snapshots",
        f"latest {STORED}",
        "Verify an assembled snapshot again.\n\nIt reads manifest and log; with --offline the files alone.",
    ),
    "verdicts": Help(TRUST, "snapshots", "--follow", verbs.Verdicts),
    "drill": Help(TRUST, "trust", "--app 'python -m faust -A shop worker'", verbs.Drill),
    "restore": Help(RECOVER, "recovery", "latest --dry-run", verbs.Restore),
    "fork": Help(
        RECOVER, "", "create staging --from latest", "Run a snapshot as a second system beside production."
    ),
    "fork create": Help(RECOVER, "recovery", "staging --from friday --expires 2d", verbs.ForkCreate),
    "fork list": Help(RECOVER, "recovery", "", "List the forks of this cluster.", "list_forks"),
    "fork drop": Help(RECOVER, "recovery", "staging", verbs.ForkDrop),
    "invariants": Help(TRUST, "trust", "money", verbs.Invariants),
    "doctor": Help(OPERATE, "trust", "--offline shop:app", verbs.Doctor),
    "pause": Help(OPERATE, "snapshots", "", "Stop taking snapshots of any service until `resume`."),
    "resume": Help(OPERATE, "snapshots", "", "Allow snapshots again after `pause`."),
    "retire": Help(OPERATE, "snapshots", "--app old-shop", verbs.Retire),
    "checkpoint": Help(OPERATE, "snapshots", "--keep 7d", verbs.Checkpoint),
    "prune": Help(OPERATE, "operate", f"{STORED} --keep-last 24", verbs.Prune),
    "topics": Help(OPERATE, "", "create orders --partitions 4", "Create the topics of services."),
    "topics create": Help(OPERATE, "operate", "orders payments --partitions 4", verbs.TopicsCreate),
    "serve": Help(
        OPERATE,
        "operate",
        "--storage-root /data/snapshots",
        "Serve the REST API, gRPC and a web page.\n\nIt stores nothing, so any number can run.",
    ),
    "broker": Help(OPERATE, ELSEWHERE, "--port 9092", "Run a Kafka on this machine until Ctrl-C."),
    "demo": Help(OPERATE, ELSEWHERE, "--keep", "Run a demo on this machine: broker, services, snapshots."),
}


def settings(name: str) -> dict[str, Any]:
    """Return what help says of a command."""
    found = HELPS[name]
    return {
        "help": found.about if isinstance(found.about, str) else inspect.getdoc(found.about),
        "epilog": f"Example: snapkafka {name} {found.example}".rstrip(),
        "rich_help_panel": found.panel,
    }


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
        import_module(found.module if "." in found.module else f"{__package__}.commands.{found.module}")
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
