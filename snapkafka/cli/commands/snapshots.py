"""Snapshots and verdicts: `trigger`, `list`, `show`, `assemble`, `verify`, and what stops and retires."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Annotated, Final

import typer
from msgspec.structs import asdict

from snapkafka import ops
from snapkafka.checks.coverage import NOTHING_SEEN
from snapkafka.checks.coverage import in_words as examined_in_words
from snapkafka.checks.kinds import OF_STATE
from snapkafka.cli.build import ask_one_way, command, good, question
from snapkafka.cli.running import connect, console, notifier, print_json, progress_lines, who
from snapkafka.cli.screen import ROWS_SHOWN, Part, headline, written
from snapkafka.kafka.cluster.external_groups import assumptions, left_open
from snapkafka.manifest import CheckEntry
from snapkafka.ops import JobResult, SnapshotInfo
from snapkafka.ops.info import CheckInfo
from snapkafka.units import rounded_ms, wall_ms
from snapkafka.verbs import Trigger, Verdicts, Where

#: As many findings of V5 are printed: events that ran twice must not hide behind a replay.
NOTES_SHOWN: Final = 5
#: What `show` leaves to `--json`: it is said by other fields.
OF_JSON: Final = (
    *("duration_ms", "bytes", "reported", "failed", "required", "initiated_at", "waits_for", "phases"),
    *("latest_good", "assembled", "apps", "checks", "positions"),
)


def print_list(snapshots: tuple[SnapshotInfo, ...]) -> None:
    """Print one line for each snapshot, oldest first."""
    if not snapshots:
        console.print("No snapshots yet. Take one: `snapkafka trigger --wait`")
    now_ms = wall_ms()
    console.table(
        snapshots,
        ("snapshot", lambda it: it.id + (f" (attempt {it.attempt})" if it.attempt > 1 else "")),
        "epoch",
        ("when", lambda it: f"{rounded_ms(max(0, now_ms - it.triggered_ms))} ago"),
        "status",
        "captured in=capture_ms",
        "verdict",
        notes=_problems,
    )


def _problems(item: SnapshotInfo) -> Iterator[list[Part]]:
    if item.failure is not None:
        yield [("failed", "red"), f": {item.failure}"]
    if item.contaminated:
        yield [("not verifiable", "yellow"), f": {item.contaminated}"]


def print_triggered(item: SnapshotInfo) -> None:
    """Print the result of `trigger`."""
    console.print(*headline(item))
    if item.capture_ms is None:
        console.print(f"Progress: `snapkafka show {item.id}`")
    else:
        storage = "" if item.storage else " --storage DIR"
        console.print(f"captured in {rounded_ms(item.capture_ms)}; the services were not stopped")
        console.print(f"Next: `snapkafka assemble {item.id}{storage}` builds its tables.")
    console.note("warning", item.unread)


def print_details(found: ops.Details) -> None:
    """Print one snapshot."""
    console.show(found, OF_JSON if found.verdict else (*OF_JSON, "manifest"))
    console.table(
        found.positions,
        "app",
        ("input", lambda it: f"{it.topic}[{it.partition}]"),
        "position",
        "log_end",
        ("unread", lambda it: max(0, it.log_end - it.position)),
        "process=receiver",
        most=ROWS_SHOWN,
    )
    _print_checks(found.checks)


def print_judged(found: SnapshotInfo | ops.ExaminedFiles | tuple[JobResult, ...]) -> None:
    """Print the result of a trigger, of assembly or of verification."""
    if not isinstance(found, tuple):
        print_triggered(found) if isinstance(found, SnapshotInfo) else console.show(found)
        return
    for item in found:
        console.show(item, ("checks", "positions_committed"))
        _print_checks(item.checks)
        console.note("open", left_open(item.open, item.external, item.outsiders, strict=item.strict))
        console.note("assumed", assumptions(item.external, strict=item.strict), "")


def _print_checks(checks: tuple[CheckInfo | CheckEntry, ...]) -> None:
    console.table(
        checks,
        "check=name",
        ("status", lambda it: it.status if it.run else "not run"),
        ("read", lambda it: examined_in_words(it.records, it.partitions, it.channels)),
        ("found", lambda it: it.found or it.noted or ""),
        notes=_findings,
    )
    counted = [it.records for it in checks if it.run and it.records is not None and it.records >= 0]
    console.note("note", [NOTHING_SEEN] if counted and not any(counted) else [])


def _findings(check: CheckInfo | CheckEntry) -> Iterator[str]:
    """Return the first findings, of whole topics first; each about the state counts for itself."""
    notes = [note for note in check.notes if note.kind not in OF_STATE]
    found = [*check.witnesses[:1], *notes][: NOTES_SHOWN if check.name == "V5" else 1]
    found += [note for note in check.notes if note.kind in OF_STATE]
    return chain((written("", it) for it in found), getattr(check, "remarks", ()))


# -- the commands ---------------------------------------------------------------------------------------------

JUDGING: Final = ("storage", "invariants", "parameters", "unpickle", "engine")
judging = partial(command, show=print_judged, key="snapshots", status=good("good"))


@judging("trigger")
async def trigger(
    at: Where,
    asked: Trigger,
    spec: Annotated[ops.JobSpec, JUDGING[1:]],
    wait: Annotated[
        bool, typer.Option("--wait", metavar="", help="Wait until the snapshot is captured.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", metavar="", help="Wait, then assemble and verify it.")
    ] = False,
) -> SnapshotInfo | tuple[JobResult, ...]:
    with progress_lines(wanted=wait or verify) as show_progress:

        def progress(found: ops.CaptureProgress) -> None:
            console.continues = f"Snapshot {found.id} continues: `snapkafka show {found.id}`."
            if show_progress is not None:
                show_progress(found)

        more = asdict(asked) | {"who": who(), "wait": wait or verify}
        taken = await ops.trigger(connect(at.bootstrap), at.namespace, **more, progress=progress)
    if not verify:
        return taken
    console.continues = ""
    wanted = ops.changed(spec, namespace=at.namespace, snapshots=[taken.id])
    return await ops.assemble(connect(at.bootstrap), wanted, notify=notifier())


@judging("assemble")
async def assemble(
    snapshots: Annotated[
        list[str], typer.Argument(metavar="ID", help="Ids, epochs or `latest` (newest captured).")
    ],
    at: Where,
    spec: Annotated[ops.JobSpec, JUDGING],
) -> tuple[JobResult, ...]:
    wanted = ops.changed(spec, namespace=at.namespace, snapshots=snapshots)
    return await ops.assemble(connect(at.bootstrap), wanted, notify=notifier())


@judging("verify")
async def verify(
    at: Where,
    spec: Annotated[ops.JobSpec, (*JUDGING, "tables", "record")],
    snapshot: Annotated[
        str, typer.Argument(metavar="ID", help="Id, epoch or `latest` (newest assembled).")
    ] = "",
    offline: Annotated[
        bool,
        typer.Option("--offline", metavar="", help="Compare the files with the manifest, without a broker."),
    ] = False,
) -> ops.ExaminedFiles | tuple[JobResult, ...]:
    ask_one_way(
        {"--offline": offline, "--record": spec.record}, {"--offline": offline, "--tables": spec.tables}
    )
    if offline:
        return await ops.verify_offline(snapshot, namespace=at.namespace, storage=spec.storage)
    wanted = ops.changed(spec, namespace=at.namespace, snapshots=(snapshot,) if snapshot else ())
    return await ops.verify(connect(at.bootstrap), wanted, notify=notifier())


@command("verdicts", in_lines=True)
async def verdicts(at: Where, asked: Verdicts) -> None:
    async for found in ops.verdicts(connect(at.bootstrap), at.namespace, **asdict(asked)):
        print_json(found)


question("list", print_list, key="snapshots")
question("show", print_details)
for name in ("pause", "resume", "retire", "checkpoint"):
    question(name)
