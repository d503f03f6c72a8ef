"""The commands."""

from __future__ import annotations

import runpy
import sys
from typing import Annotated, TypeVar

import typer

from snapkafka import __version__, ops
from snapkafka.errors import EXIT_NOT_GOOD
from snapkafka.units import moment_ms, wall_ms

from .commands import (
    audit,
    drill,
    fork,
    invariants,
    keep,
    query,
    restore,
    serve,
    switches,
    topics,
    trace,
    verdicts,
    watch,
)
from .commands import doctor as doctor_modes
from .commands import storage as stored_files
from .helps import SNAPKAFKA, START, command, group
from .job_options import READING, Spec, job_options
from .options import (
    Align,
    AlignTimeout,
    AsJson,
    Bootstrap,
    Namespace,
    Ttl,
    align_ms_of,
    names_in,
    ttl_ms_of,
)
from .present.printed import print_assembled, print_details, print_list, print_triggered
from .progress import job_log, progress_lines
from .running import connect, console, print_json, run, who

T = TypeVar("T")

app = typer.Typer(
    name="snapkafka",
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
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    snapshot_id: Annotated[
        str,
        typer.Option(
            "--id", metavar="ID", help="Name of the snapshot. Asking again with it returns the same."
        ),
    ] = "",
    type_: Annotated[str, typer.Option("--type", metavar="TYPE", help="`full` or `incremental`.")] = "full",
    parent: Annotated[
        str,
        typer.Option(
            "--parent", metavar="ID", help="Parent of an incremental snapshot. Default: latest verified."
        ),
    ] = "",
    storage: Annotated[
        str, typer.Option("--storage", metavar="URI", help="Directory or URI for the tables.")
    ] = "",
    apps: Annotated[
        list[str] | None,
        typer.Option("--apps", metavar="APP", help="Only these apps, comma-separated. Repeatable."),
    ] = None,
    ttl: Ttl = "5s",
    knowing: Annotated[
        list[str] | None,
        typer.Option(
            "--knows-markers", metavar="GROUP", help="Consumer group that accepts markers. Repeatable."
        ),
    ] = None,
    align: Align = False,
    align_timeout: AlignTimeout = "",
    retries: Annotated[
        int, typer.Option("--retries", metavar="N", help="Retry a failed snapshot up to N times.")
    ] = 0,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the snapshot is captured.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take a snapshot. Services keep running."""
    running: list[str] = []
    with progress_lines(printed=wait and not as_json) as show_progress:

        def progress(found: ops.CaptureProgress) -> None:
            running[:] = [found.id]
            if show_progress is not None:
                show_progress(found)

        found = run(
            lambda: ops.trigger(
                connect(bootstrap),
                namespace,
                snapshot_id=snapshot_id,
                type=type_,
                parent=parent,
                storage=storage,
                who=who(),
                apps=names_in(apps or ()),
                ttl_ms=ttl_ms_of(ttl),
                knowing=knowing or (),
                align=align,
                align_timeout_ms=align_ms_of(align_timeout),
                retries=retries,
                wait=wait,
                progress=progress,
            ),
            as_json=as_json,
            continues=lambda: "".join(f"Snapshot {it} continues: `snapkafka show {it}`." for it in running),
        )
    if as_json:
        print_json(found)
    else:
        print_triggered(console, found)


@command(app, "list")
def list_(bootstrap: Bootstrap = None, namespace: Namespace = "", as_json: AsJson = False) -> None:
    """List snapshots and their states."""
    found = run(lambda: ops.list_snapshots(connect(bootstrap), namespace), as_json=as_json)
    if as_json:
        print_json({"snapshots": found})
    else:
        print_list(console, found, wall_ms())


@command(app, "show")
def show(
    snapshot: Annotated[str, typer.Argument(metavar="ID", help="Id, epoch or `latest` (newest).")] = "",
    at: Annotated[
        str,
        typer.Option(
            "--at", metavar="TIME", help="Last snapshot captured by TIME (ISO 8601, local time zone)."
        ),
    ] = "",
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    as_json: AsJson = False,
) -> None:
    """Show one snapshot.

    While it runs: what it waits for. Once captured: each process and each input.
    """
    found = run(
        lambda: ops.show(connect(bootstrap), namespace, snapshot, at_ms=moment_ms(at) if at else None),
        as_json=as_json,
    )
    if as_json:
        print_json(found)
    else:
        print_details(console, found)


command(app, "watch")(watch.watch)
command(app, "keep")(keep.keep)
command(app, "query")(query.query)
command(app, "diff")(query.diff)
command(app, "draw")(query.draw)
command(app, "trace")(trace.trace)


@command(app, "assemble")
@job_options("storage", "invariants", "parameters", *READING)
def assemble(
    snapshots: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Ids, epochs or `latest` (newest captured).")
    ],
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    spec: Spec = ops.JobSpec,
    as_json: AsJson = False,
) -> None:
    """Build the tables of captured snapshots, and verify."""
    with job_log(printed=not as_json) as log:
        found = run(
            lambda: ops.assemble(
                connect(bootstrap),
                spec(namespace=namespace, snapshots=snapshots),
                notify=log.print_line,
                progress=log.progress,
            ),
            as_json=as_json,
        )
    _print_assembled(found, as_json=as_json)


@command(app, "verify")
@job_options("storage", "invariants", "parameters", *READING, "tables", "record")
def verify(
    snapshot: Annotated[
        str, typer.Argument(metavar="ID", help="Id, epoch or `latest` (newest assembled).")
    ] = "",
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    manifest: Annotated[
        str, typer.Option("--manifest", metavar="PATH", help="Manifest of the snapshot, instead of its id.")
    ] = "",
    spec: Spec = ops.JobSpec,
    offline: Annotated[
        bool, typer.Option("--offline", help="Compare the files with the manifest, without a broker.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify an assembled snapshot again.

    It needs the manifest and the log; with --offline the files alone.
    """

    async def asked() -> ops.JobSpec:
        found = spec(
            namespace=namespace,
            snapshots=(snapshot,) if snapshot else (),
            manifests=(manifest,) if manifest else (),
        )
        await doctor_modes.ask_one_way(
            {"an id": bool(snapshot), "--manifest": bool(manifest)},
            {"--offline": offline, "--record": found.record},
            {"--offline": offline, "--tables": found.tables},
            {"--offline": offline, "--invariants": bool(found.invariants)},
        )
        return found

    wanted = run(asked, as_json=as_json)
    if offline:
        stored_files.verify_offline(snapshot, namespace, manifest, wanted.storage, as_json=as_json)
        return
    with job_log(printed=not as_json) as log:
        found = run(
            lambda: ops.verify(connect(bootstrap), wanted, notify=log.print_line, progress=log.progress),
            as_json=as_json,
        )
    _print_assembled(found, as_json=as_json)


def _print_assembled(found: tuple[ops.JobResult, ...], *, as_json: bool) -> None:
    """Print the results; one that is not good also sets the exit status."""
    if as_json:
        print_json({"snapshots": found})
    else:
        print_assembled(console, found)
    if not all(item.good for item in found):
        raise typer.Exit(EXIT_NOT_GOOD)


command(app, "audit")(audit.audit)
command(app, "verdicts")(verdicts.verdicts)
command(app, "drill")(drill.drill)
command(app, "restore")(restore.restore)
group(app, "fork", fork.app)
group(app, "invariants", invariants.app)


@command(app, "doctor")
def doctor(
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    offline: Annotated[
        str, typer.Option("--offline", metavar="MODULE:APP", help="Check an app without a broker.")
    ] = "",
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="List each finding, with the commands that fix it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check whether anything would spoil a snapshot."""
    if offline:
        doctor_modes.look_offline(offline, verbose=verbose, as_json=as_json)
    else:
        doctor_modes.examine(lambda: connect(bootstrap), namespace, verbose=verbose, as_json=as_json)


command(app, "pause")(switches.pause)
command(app, "resume")(switches.resume)
command(app, "retire")(switches.retire)
command(app, "checkpoint")(switches.checkpoint)
command(app, "prune")(stored_files.prune)
group(app, "topics", topics.app)
command(app, "serve")(serve.serve)


@command(
    app,
    "demo",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def demo(context: typer.Context) -> None:
    """Run a demo on this machine: broker, services, snapshots."""
    sys.argv = ["snapkafka demo", *context.args]
    runpy.run_module("snapkafka.demo", run_name="__main__")
