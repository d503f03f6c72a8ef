"""Snapshots and verdicts: `trigger`, `list`, `show`, `assemble`, `verify`, and what stops and retires."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import typer
from msgspec.structs import asdict

from snapkafka import ops
from snapkafka.checks.coverage import NOTHING_SEEN
from snapkafka.checks.coverage import in_words as examined_in_words
from snapkafka.checks.kinds import OF_STATE
from snapkafka.cli.build import ask_one_way, command, question
from snapkafka.cli.layout import COLOURS, Line, Part
from snapkafka.cli.progress import progress_lines
from snapkafka.cli.running import connect, console, notifier, print_json, who
from snapkafka.errors import EXIT_NOT_GOOD, EXIT_OK
from snapkafka.kafka.cluster.external_groups import assumptions, open_topics, outside_paths, unseen_paths
from snapkafka.kafka.cluster.restorable import in_words
from snapkafka.manifest import CheckEntry, WitnessEntry, saw_nothing
from snapkafka.ops import Checkpointed, Details, JobResult, SnapshotInfo
from snapkafka.ops.snapshots import Switched
from snapkafka.units import format_bytes, local_time, rounded_ms, wall_ms
from snapkafka.verbs import Trigger, Verdicts, Where

#: Where a list of positions stops; `--json` has them all.
POSITIONS_SHOWN = 40
#: As many findings of V5 are printed: events that ran twice must not hide behind a replay.
NOTES_SHOWN = 5


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number of things: `1 topic`, `2 topics`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def coloured(word: str) -> Part:
    """Return the word for an outcome, in its colour."""
    return (word, COLOURS.get(word, ""))


def headline(name: str, epoch: int, *words: str) -> list[Part]:
    """Return the parts of a line about a snapshot."""
    return [
        "snapshot ",
        (name, "bold"),
        f"  epoch {epoch}",
        *(it for w in words if w for it in ("  ", coloured(w))),
    ]


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
        yield [("failed", "red"), f" ({item.failure.code}): {item.failure.reason}"]
    if item.contaminated:
        yield [("not verifiable", "yellow"), f": {item.contaminated}"]


def print_triggered(item: SnapshotInfo) -> None:
    """Print the result of `trigger`."""
    console.print(*headline(item.id, item.epoch, item.status.value))
    if item.capture_ms is None:
        console.print(f"Progress: `snapkafka show {item.id}`")
    else:
        storage = "" if item.storage else " --storage DIR"
        console.print(f"captured in {rounded_ms(item.capture_ms)}; the services were not stopped")
        console.print(f"Next: `snapkafka assemble {item.id}{storage}` builds its tables.")
    console.note("warning", item.unread)


def print_switched(found: Switched) -> None:
    """Print the result of `pause`, `resume` and `retire`."""
    state = "paused; `snapkafka resume` allows snapshots again" if found.paused else "not paused"
    console.print(f"{found.namespace} is {state}{'' if found.changed else ' (unchanged)'}")
    console.note("aborted", found.aborted, "")
    console.note("retired", found.retired, "")


def print_checkpointed(found: Checkpointed) -> None:
    """Print the result of `checkpoint`."""
    if not found.records:
        console.print("Nothing to trim: no record is that old.")
        return
    console.print(
        f"The ledger now begins at offset {found.upto:,}. {found.kept:,} of {found.records:,} records still matter;"
        f" a checkpoint of {found.chunks} records at its end replaces them."
    )


def print_details(found: Details) -> None:
    """Print one snapshot."""
    attempt = f"attempt {found.attempt}"
    console.print(*headline(found.id, found.epoch, attempt, found.status.value, found.verdict or ""))
    by = f" by {found.who}" if found.who else ""
    when, age_ms = local_time(found.triggered_ms), max(0, wall_ms() - found.triggered_ms)
    console.print(f"triggered {when}{by}, {rounded_ms(age_ms)} ago; {found.type}")
    if found.capture_ms is not None:
        console.print(f"captured in {rounded_ms(found.capture_ms)}")
    if found.alignment is not None:
        console.print("aligned" if found.alignment.aligned else f"not aligned: {found.alignment.why}")
    for line in _problems(found):
        console.print(*line)
    failure = found.failure
    culprit = failure.culprit if failure and failure.culprit not in failure.reason else ""
    manifest = found.manifest if found.verdict else ""
    for head, text in (("culprit", culprit), ("storage", found.storage), ("manifest", manifest)):
        if text:
            console.print(f"{head}: {text}")
    console.note("warning", found.unread)
    if found.restorable is not None:
        console.print(in_words(found.restorable, wall_ms()))
    if found.waits:
        console.print(f"waiting for (fails {rounded_ms(found.ttl_ms)} after the trigger):")
    console.table(found.waits, "since=waited_ms", "for=text")
    _print_processes(found)
    console.table(
        found.positions[:POSITIONS_SHOWN],
        "app",
        ("input", lambda it: f"{it.topic}[{it.partition}]"),
        "position",
        "log_end",
        ("unread", lambda it: max(0, it.log_end - it.position)),
        "process=receiver",
    )
    if (hidden := len(found.positions) - POSITIONS_SHOWN) > 0:
        console.print(f"Not shown: {count(hidden, 'more position')} (--json).", style="dim")
    print_uncaptured(found)
    console.note("note", found.never_read)
    if found.checks:
        read = {check.records for check in found.checks}
        console.print("checks: " + ", ".join(f"{check.name} {check.status}" for check in found.checks))
        console.note("note", [NOTHING_SEEN] if read - {-1} == {0} else [])
        console.note("note", (remark for check in found.checks for remark in check.remarks))


def _print_processes(found: Details) -> None:
    """Print the processes: those that had left before the snapshot have no part in it."""
    shown = [row for row in found.processes if not row.left]
    console.table(
        shown,
        "process",
        "app",
        "host",
        "pid",
        "learned from=heard",
        "cut took=cut_us",
        ("running", lambda it: "" if it.reported_ms is None else it.running),
        "reported after=reported_ms",
    )
    if hidden := len(found.processes) - len(shown):
        left = count(hidden, "process", "processes")
        console.print(f"Not shown: {left} that left earlier (--json).", style="dim")


def print_assembled(found: tuple[JobResult, ...]) -> None:
    """Print the result of assembly or verification."""
    for item in found:
        console.print(*headline(item.id, item.epoch, item.verdict))
        console.note("not verifiable", [item.contaminated] if item.contaminated else [])
        console.table(
            item.checks,
            "check=name",
            ("status", lambda it: it.status if it.run else "not run"),
            ("read", lambda it: examined_in_words(it.records, it.partitions, it.channels)),
            ("found", lambda it: it.found or it.noted or ""),
            notes=_findings,
        )
        _print_caveats(item)
        print_uncaptured(item)
        _print_facts(item)
        console.print(f"manifest: {item.manifest}")


def _findings(check: CheckEntry) -> Iterable[Line]:
    notes = (note for note in check.notes if note.kind not in OF_STATE)  # these have lines of their own
    found = (*check.witnesses[:1], *notes)  # of whole topics first
    return map(witness_line, found[: NOTES_SHOWN if check.name == "V5" else 1])


def _print_caveats(item: JobResult) -> None:
    """Print what the verdict leaves open, and what it assumes."""
    console.note("note", [NOTHING_SEEN] if saw_nothing(item.checks) else [])
    console.note("note", (it.what for check in item.checks for it in check.notes if it.kind in OF_STATE))
    console.note("warning", item.unread)
    console.note("open", unseen_paths(item.open))
    console.note("open", open_topics(item.external, strict=item.strict))
    console.note("open", outside_paths(item.outsiders))
    console.note("assumed", assumptions(item.external, strict=item.strict), "")


def _print_facts(item: JobResult) -> None:
    """Print what was written, and what was not done."""
    console.note("note", [f"whole state stored: {item.why_full}"] if item.why_full else [])
    console.note("note", item.not_compared)
    if item.tables:
        console.print("tables: ", ", ".join(f"{name} {rows:,}" for name, rows in item.tables.items()))
        if not item.positions_committed:
            console.print(f"positions not committed: {item.positions_why_not}")
    if item.restorable is not None:
        console.print(in_words(item.restorable, wall_ms()))


def print_uncaptured(found: Details | JobResult) -> None:
    """Print the state of the apps that a snapshot does not hold."""
    console.note("not included", (f"app {item.app}: {item.what}" for item in found.uncaptured))


def witness_line(witness: WitnessEntry) -> str:
    """Format the place of a record and what is wrong with it, or a row of an invariant."""
    where = f"{witness.topic}[{witness.partition}] offset {witness.offset}: " if witness.offset >= 0 else ""
    return where + witness.what


# -- the commands ---------------------------------------------------------------------------------------------


@command("trigger", print_triggered)
async def trigger(
    at: Where,
    asked: Trigger,
    wait: Annotated[
        bool, typer.Option("--wait", metavar="", help="Wait until the snapshot is captured.")
    ] = False,
) -> SnapshotInfo:
    with progress_lines(wanted=wait) as show_progress:

        def progress(found: ops.CaptureProgress) -> None:
            console.continues = f"Snapshot {found.id} continues: `snapkafka show {found.id}`."
            if show_progress is not None:
                show_progress(found)

        more = asdict(asked) | {"who": who()}
        return await ops.trigger(connect(at.bootstrap), at.namespace, **more, wait=wait, progress=progress)


def _print_judged(found: ops.ExaminedFiles | tuple[JobResult, ...]) -> None:
    if isinstance(found, tuple):
        print_assembled(found)
        return
    console.note("damaged", (f"{damage.file}: {damage.what}" for damage in found.damage), "red")
    if not found.damage:
        console.print(*headline(found.id, found.epoch, found.verdict))
        console.print(f"{found.files} files, {format_bytes(found.bytes)}, unaltered")
    console.print(f"manifest: {found.manifest}")


def _judged(found: ops.ExaminedFiles | tuple[JobResult, ...]) -> int:
    items = found if isinstance(found, tuple) else (found,)
    return EXIT_OK if all(item.good for item in items) else EXIT_NOT_GOOD


JUDGING: Final = ("storage", "invariants", "parameters", "unpickle", "engine")


@command("assemble", _print_judged, key="snapshots", status=_judged)
async def assemble(
    snapshots: Annotated[
        list[str], typer.Argument(metavar="ID", help="Ids, epochs or `latest` (newest captured).")
    ],
    at: Where,
    spec: Annotated[ops.JobSpec, JUDGING],
) -> tuple[JobResult, ...]:
    wanted = ops.changed(spec, namespace=at.namespace, snapshots=snapshots)
    with progress_lines() as progress:
        return await ops.assemble(connect(at.bootstrap), wanted, notify=notifier(), progress=progress)


@command("verify", _print_judged, key="snapshots", status=_judged)
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
    await ask_one_way(
        {"--offline": offline, "--record": spec.record},
        {"--offline": offline, "--tables": spec.tables},
    )
    if offline:
        return await ops.verify_offline(snapshot, namespace=at.namespace, storage=spec.storage)
    wanted = ops.changed(spec, namespace=at.namespace, snapshots=(snapshot,) if snapshot else ())
    with progress_lines() as progress:
        return await ops.verify(connect(at.bootstrap), wanted, notify=notifier(), progress=progress)


@command("verdicts", in_lines=True)
async def verdicts(at: Where, asked: Verdicts) -> None:
    async for found in ops.verdicts(connect(at.bootstrap), at.namespace, **asdict(asked)):
        print_json(found)


question("list", print_list, key="snapshots")
question("show", print_details)
for name in ("pause", "resume", "retire"):
    question(name, print_switched)
question("checkpoint", print_checkpointed)
