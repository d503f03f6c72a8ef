"""`snapkafka assemble` and `verify`: tables and verdicts."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

import typer

from snapkafka import ops
from snapkafka.cli.build import AsJson, printed
from snapkafka.cli.present.printed import headline, print_assembled
from snapkafka.cli.progress import print_line, progress_lines
from snapkafka.cli.running import connect, console, run
from snapkafka.units import format_bytes
from snapkafka.verbs import Where

from .doctor import ask_one_way

JUDGING: Final = ("storage", "invariants", "parameters", "unpickle", "engine")


def assemble(
    snapshots: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Ids, epochs or `latest` (newest captured).")
    ],
    at: Where,
    spec: Annotated[ops.JobSpec, JUDGING],
    as_json: AsJson = False,
) -> None:
    """Build the tables of captured snapshots, and verify."""
    _judge("assemble", at, ops.changed(spec, snapshots=snapshots), as_json=as_json)


def verify(
    at: Where,
    spec: Annotated[ops.JobSpec, (*JUDGING, "tables", "record")],
    snapshot: Annotated[
        str, typer.Argument(metavar="ID", help="Id, epoch or `latest` (newest assembled).")
    ] = "",
    manifest: Annotated[
        str, typer.Option("--manifest", metavar="PATH", help="Manifest of the snapshot, instead of its id.")
    ] = "",
    offline: Annotated[
        bool,
        typer.Option("--offline", metavar="", help="Compare the files with the manifest, without a broker."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify an assembled snapshot again.

    It needs the manifest and the log; with --offline the files alone.
    """

    async def check() -> None:
        await ask_one_way(
            {"an id": bool(snapshot), "--manifest": bool(manifest)},
            {"--offline": offline, "--record": spec.record},
            {"--offline": offline, "--tables": spec.tables},
        )

    run(check, as_json=as_json)
    if offline:
        found = run(
            lambda: ops.verify_offline(
                snapshot, namespace=at.namespace, manifest=manifest, storage=spec.storage
            ),
            as_json=as_json,
        )
        printed(found, _print_examined, as_json=as_json, good=found.good)
        return
    names = {"snapshots": (snapshot,) if snapshot else (), "manifests": (manifest,) if manifest else ()}
    _judge("verify", at, ops.changed(spec, **names), as_json=as_json)


def _judge(verb: str, at: Where, spec: ops.JobSpec, *, as_json: bool) -> None:
    """Run the job, and print its results; one that is not good also sets the exit status."""
    wanted = ops.changed(spec, namespace=at.namespace)
    with progress_lines(printed=not as_json) as progress:
        found: tuple[ops.JobResult, ...] = run(
            lambda: getattr(ops, verb)(
                connect(at.bootstrap), wanted, notify=None if as_json else print_line, progress=progress
            ),
            as_json=as_json,
        )
    printed(
        found,
        partial(print_assembled, console),
        as_json=as_json,
        data=lambda found: {"snapshots": found},
        good=all(item.good for item in found),
    )


def _print_examined(found: ops.ExaminedFiles) -> None:
    """Print the damage, file by file."""
    console.note("damaged", (f"{damage.file}: {damage.what}" for damage in found.damage), "red")
    if not found.damage:
        console.print(*headline(found.id, found.epoch, found.verdict))
        console.print(f"{found.files} files, {format_bytes(found.bytes)}, unaltered")
    console.print(f"manifest: {found.manifest}")
