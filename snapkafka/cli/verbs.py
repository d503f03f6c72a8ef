"""The commands."""

from __future__ import annotations

import runpy
import sys
from functools import partial
from typing import Annotated, Any, Final

import msgspec
import typer

from snapkafka import __version__, ops
from snapkafka.units import wall_ms
from snapkafka.verbs import Trigger, Verdicts, Where

from .build import AsJson, Group, command, group, printed, question
from .commands import operate, recovery, snapshots, tables, trust
from .helps import HELPS, SNAPKAFKA, START
from .progress import progress_lines
from .running import connect, console, print_json, run, who

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


@command(app, "trigger")
def trigger(
    at: Where,
    asked: Trigger,
    wait: Annotated[
        bool, typer.Option("--wait", metavar="", help="Wait until the snapshot is captured.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    running: list[str] = []
    with progress_lines(printed=wait and not as_json) as show_progress:

        def progress(found: ops.CaptureProgress) -> None:
            running[:] = [found.id]
            if show_progress is not None:
                show_progress(found)

        found = run(
            lambda: ops.trigger(
                connect(at.bootstrap),
                at.namespace,
                **msgspec.structs.asdict(asked) | {"who": who()},
                wait=wait,
                progress=progress,
            ),
            as_json=as_json,
            continues=lambda: "".join(f"Snapshot {it} continues: `snapkafka show {it}`." for it in running),
        )
    printed(found, partial(snapshots.print_triggered, console), as_json=as_json)


@command(app, "verdicts")
def verdicts(at: Where, asked: Verdicts) -> None:
    async def lines() -> None:
        async for found in ops.verdicts(connect(at.bootstrap), at.namespace, **msgspec.structs.asdict(asked)):
            print_json(found, in_lines=True)

    run(lines, as_json=True, in_lines=True)


#: For a command whose own program parses its options.
ELSEWHERE: Final[dict[str, Any]] = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}


@command(app, "broker", context_settings=ELSEWHERE)
def broker(context: typer.Context) -> None:
    """Run a Kafka on this machine until Ctrl-C."""
    sys.argv = ["snapkafka broker", *context.args]
    runpy.run_module("snapkafka.testing", run_name="__main__")


@command(app, "demo", context_settings=ELSEWHERE)
def demo(context: typer.Context) -> None:
    """Run a demo on this machine: broker, services, snapshots."""
    sys.argv = ["snapkafka demo", *context.args]
    runpy.run_module("snapkafka.demo", run_name="__main__")


question(
    app,
    "list",
    lambda found: snapshots.print_list(console, found, wall_ms()),
    data=lambda found: {"snapshots": found},
)
question(app, "show", partial(snapshots.print_details, console))
question(app, "diff", tables.print_difference)
question(app, "trace", tables.print_trace)
for name in ("pause", "resume", "retire"):
    question(app, name, partial(snapshots.print_switched, console))
question(app, "checkpoint", partial(snapshots.print_checkpointed, console))
command(app, "keep")(operate.keep)
command(app, "query")(tables.query)
command(app, "draw")(tables.draw)
command(app, "assemble")(snapshots.assemble)
command(app, "verify")(snapshots.verify)
command(app, "audit")(trust.audit)
command(app, "drill")(trust.drill)
command(app, "invariants")(trust.invariants)
command(app, "restore")(recovery.restore)
command(app, "doctor")(trust.doctor)
command(app, "prune")(operate.prune)
command(app, "serve")(operate.serve)
forks = group(app, "fork", "Run a snapshot as a second system beside production.")
question(forks, "fork list", recovery.print_forks, data=lambda found: {"forks": found})
command(forks, "fork create")(recovery.create)
command(forks, "fork drop")(recovery.drop)
command(group(app, "topics", "Create topics of services."), "topics create")(operate.create_topics_of)
app.registered_commands.sort(key=lambda it: list(HELPS).index(it.name or ""))
