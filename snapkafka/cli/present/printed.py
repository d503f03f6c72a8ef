"""The output for people: snapshots, one snapshot, progress."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from snapkafka.checks.coverage import NOTHING_SEEN
from snapkafka.checks.coverage import in_words as examined_in_words
from snapkafka.checks.kinds import OF_STATE
from snapkafka.cli.screen import Screen
from snapkafka.kafka.cluster.external_groups import assumptions, open_topics, outside_paths, unseen_paths
from snapkafka.kafka.cluster.restorable import in_words
from snapkafka.manifest import CheckEntry, WitnessEntry, saw_nothing
from snapkafka.ops import Checkpointed, Details, JobResult, Summary
from snapkafka.ops.listing import ProcessRow, WaitRow
from snapkafka.ops.snapshots import Switched
from snapkafka.protocol.captured_snapshot import Uncaptured
from snapkafka.protocol.records import CheckResult
from snapkafka.units import local_time, rounded_ms, wall_ms

from .layout import Part, Table

COLOURS: Final = {
    "INITIATED": "cyan",
    "CAPTURING": "cyan",
    "CAPTURED": "yellow",
    "COMPLETED": "green",
    "FAILED": "red",
    "VERIFIED": "green",
    "VERIFIED_WITH_REPLAYS": "green",
    "VERIFIED_OPEN": "green",
    "INCONSISTENT": "bold red",
    "UNVERIFIABLE": "yellow",
    "passed": "green",
    "failed": "bold red",
    "unverifiable": "yellow",
    "not run": "dim",
}
#: Where a list of positions stops; `--json` has them all.
POSITIONS_SHOWN: Final = 40
#: As many findings of V5 are printed: events that ran twice must not hide behind a replay.
NOTES_SHOWN: Final = 5


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number of things: `1 topic`, `2 topics`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def coloured(word: str) -> Part:
    """Return the word for an outcome, in its colour."""
    return (word, COLOURS.get(word, "white"))


def print_list(console: Screen, snapshots: tuple[Summary, ...], now_ms: int) -> None:
    """Print one line for each snapshot, oldest first."""
    if not snapshots:
        console.print("No snapshots yet. Take one: `snapkafka trigger --wait`")
        return
    rows = Table(
        "snapshot", "epoch", "when", "status", "captured in", "verdict",
        right=("epoch", "captured in"),
    )  # fmt: skip
    for item in snapshots:
        rows.add(
            item.id + (f" (attempt {item.attempt})" if item.attempt > 1 else ""),
            str(item.epoch),
            f"{rounded_ms(max(0, now_ms - item.triggered_ms))} ago",
            coloured(item.status.value),
            "" if item.capture_ms is None else rounded_ms(item.capture_ms),
            coloured(item.verdict) if item.verdict else "",
            notes=_problems(item),
        )
    console.table(rows)


def _problems(item: Summary) -> Iterator[list[Part]]:
    if item.failure_reason:
        yield [("failed", "red"), f" ({item.failure_code}): {item.failure_reason}"]
    if item.contaminated:
        yield [("not verifiable", "yellow"), f": {item.contaminated}"]


def print_triggered(console: Screen, item: Summary) -> None:
    """Print the result of `trigger`."""
    head: list[Part] = [
        "snapshot ",
        (item.id, "bold"),
        f"  epoch {item.epoch}  ",
        coloured(item.status.value),
    ]
    if item.capture_ms is None:
        console.print(*head)
        console.print(f"Progress: `snapkafka show {item.id}`")
    else:
        console.print(*head, f" in {rounded_ms(item.capture_ms)}. The services were not stopped.")
        storage = "" if item.storage else " --storage DIR"
        console.print(f"Next: `snapkafka assemble {item.id}{storage}` builds its tables.")
    _print_unread(console, item)


def _print_unread(console: Screen, item: Summary) -> None:
    for unread in item.unread:
        console.print(("warning:", "yellow"), f" {unread}")


def print_switched(console: Screen, found: Switched) -> None:
    """Print the result of `pause`, `resume` and `retire`."""
    state: list[Part] = [("paused", "bold"), "; `snapkafka resume` allows snapshots again"]
    console.print(
        f"{found.namespace} is ",
        *(state if found.paused else ["not paused"]),
        "" if found.changed else " (unchanged)",
    )
    if found.aborted:
        console.print(f"aborted: {', '.join(found.aborted)}")
    if found.retired:
        console.print(f"retired: {', '.join(found.retired)}")


def print_checkpointed(console: Screen, found: Checkpointed) -> None:
    """Print the result of `checkpoint`."""
    if not found.records:
        console.print("Nothing to trim: no record is that old.")
        return
    console.print(
        f"The ledger now begins at offset {found.upto:,}. {found.kept:,} of {found.records:,} records still matter;"
        f" a checkpoint of {found.chunks} records at its end replaces them."
    )


def print_details(console: Screen, found: Details) -> None:
    """Print one snapshot."""
    item = found.summary
    console.print(
        "snapshot ",
        (item.id, "bold"),
        f"  attempt {item.attempt}  epoch {item.epoch}  ",
        coloured(item.status.value),
        *(("  ", coloured(item.verdict)) if item.verdict else ()),
    )
    when = local_time(item.triggered_ms)
    by = f" by {item.who}" if item.who else ""
    console.print(f"triggered {when}{by}, {rounded_ms(found.age_ms)} ago; {item.type}")
    if item.capture_ms is not None:
        console.print(f"captured in {rounded_ms(item.capture_ms)}")
    _print_alignment(console, found)
    for line in _problems(item):
        console.print(*line)
    if item.culprit and item.culprit not in item.failure_reason:
        console.print(f"culprit: {item.culprit}")
    _print_unread(console, item)
    if item.storage:
        console.print(f"storage: {item.storage}")
    if item.manifest:
        console.print(f"manifest: {item.manifest}")
    if found.restorable is not None:
        console.print(in_words(found.restorable, wall_ms()))
    if found.waits:
        _print_waits(console, found.waits, item.ttl_ms)
    if found.processes:
        _print_processes(console, found.processes)
    if found.positions:
        _print_positions(console, found)
    print_uncaptured(console, found.uncaptured)
    for passed in found.captured.never_read if found.captured is not None else ():
        console.print(("note:", "yellow"), f" {passed}")
    if found.checks:
        console.print("checks: " + ", ".join(map(_went, found.checks)))
        if {check.records for check in found.checks if check.records >= 0} == {0}:
            console.print(("note:", "yellow"), f" {NOTHING_SEEN}")
        for remark in (remark for check in found.checks for remark in check.remarks):
            console.print(("note:", "yellow"), f" {remark}")


def _print_alignment(console: Screen, found: Details) -> None:
    """Print whether an aligned snapshot has no message in flight."""
    alignment = None if found.captured is None else found.captured.alignment
    if alignment is None:
        return
    if alignment.aligned:
        console.print("aligned: no message between its processes was in flight")
    else:
        console.print(("not aligned:", "yellow"), f" {alignment.why}")


def _went(check: CheckResult) -> str:
    seen = examined_in_words(check.records)
    return f"{check.name} {check.status}" + (f" ({seen})" if seen else "")


def _print_waits(console: Screen, waits: tuple[WaitRow, ...], ttl_ms: int) -> None:
    console.print(("waiting for", "bold"), f" (fails {rounded_ms(ttl_ms)} after the trigger):")
    rows = Table("since", "for", right=("since",))
    for wait in waits:
        rows.add(rounded_ms(wait.waited_ms), wait.text)
    console.table(rows)


def _print_processes(console: Screen, processes: tuple[ProcessRow, ...]) -> None:
    """Print the processes: those that had left before the snapshot have no part in it."""
    rows = Table(
        "process", "app", "host", "pid", "learned from", "cut took", "running", "reported after", "finished after",
        right=("process", "pid", "cut took", "running", "reported after", "finished after"),
    )  # fmt: skip
    shown = [row for row in processes if not row.left]
    for row in shown:
        rows.add(
            str(row.process),
            row.app,
            row.host,
            str(row.pid),
            row.heard,
            "" if row.cut_us is None else f"{row.cut_us} us",
            "" if row.reported_ms is None else str(row.running),
            "" if row.reported_ms is None else rounded_ms(row.reported_ms),
            "" if row.closed_ms is None else rounded_ms(row.closed_ms),
        )
    console.table(rows)
    if hidden := len(processes) - len(shown):
        console.print(
            f"Not shown: {count(hidden, 'process', 'processes')} that left earlier (--json).", style="dim"
        )


def _print_positions(console: Screen, found: Details) -> None:
    rows = Table(
        "app", "input", "position", "log end", "unread", "process",
        right=("position", "log end", "unread", "process"),
    )  # fmt: skip
    for row in found.positions[:POSITIONS_SHOWN]:
        rows.add(
            row.app,
            f"{row.topic}[{row.partition}]",
            str(row.position),
            str(row.log_end),
            str(row.unread),
            str(row.process),
        )
    console.table(rows)
    if (hidden := len(found.positions) - POSITIONS_SHOWN) > 0:
        console.print(f"Not shown: {count(hidden, 'more position')} (--json).", style="dim")


def print_assembled(console: Screen, found: tuple[JobResult, ...]) -> None:
    """Print the result of assembly or verification."""
    for item in found:
        console.print("snapshot ", (item.id, "bold"), f"  epoch {item.epoch}  ", coloured(item.verdict))
        if item.contaminated:
            console.print(("not verifiable:", "yellow"), f" {item.contaminated}")
        console.table(_checks(item.checks))
        for line in _caveats(item):
            console.print(*line)
        print_uncaptured(console, item.uncaptured)
        for line in _facts(item):
            console.print(*line)
        console.print(f"manifest: {item.manifest}")


def _checks(checks: Iterable[CheckEntry]) -> Table:
    rows = Table("check", "status", "read", "found", right=("found",))
    for check in checks:
        notes = (note for note in check.notes if note.kind not in OF_STATE)  # these have lines of their own
        findings = (*check.witnesses[:1], *notes)  # of whole topics first
        rows.add(
            check.name,
            coloured(check.status if check.run else "not run"),
            examined_in_words(check.records, check.partitions, check.channels),
            str(check.found or check.noted or ""),
            notes=(witness_line(it) for it in findings[: NOTES_SHOWN if check.name == "V5" else 1]),
        )
    return rows


def _caveats(item: JobResult) -> Iterator[list[Part]]:
    """Yield what the verdict leaves open, and what it assumes."""
    if saw_nothing(item.checks):
        yield [("note:", "yellow"), f" {NOTHING_SEEN}"]
    for note in (note for check in item.checks for note in check.notes if note.kind in OF_STATE):
        yield [("note:", "yellow"), f" {note.what}"]
    yield from (_noted("warning:", f" {unread}") for unread in item.unread)
    paths = (
        unseen_paths(item.open),
        open_topics(item.external, strict=item.strict),
        outside_paths(item.outsiders),
    )
    yield from (_noted("open:", f" {line}") for lines in paths for line in lines)
    yield from (_noted("assumed:", f" {line}", "") for line in assumptions(item.external, strict=item.strict))


def _noted(head: str, text: str, style: str = "yellow") -> list[Part]:
    return [(head, style), text]


def _facts(item: JobResult) -> Iterator[list[Part]]:
    """Yield what was written, and what was not done."""
    if item.why_full:
        yield [("note:", "yellow"), f" whole state stored: {item.why_full}"]
    yield from (_noted("note:", f" {line}") for line in item.not_compared)
    if item.tables:
        yield ["tables: ", ", ".join(f"{name} {rows:,}" for name, rows in item.tables.items())]
        if not item.positions_committed:
            yield [f"positions not committed: {item.positions_why_not}"]
    if item.restorable is not None:
        yield [in_words(item.restorable, wall_ms())]


def print_uncaptured(console: Screen, uncaptured: Iterable[Uncaptured]) -> None:
    """Print the state of the apps that a snapshot does not hold."""
    for item in uncaptured:
        console.print(("not included:", "yellow"), f" app {item.app}: {item.what}")


def witness_line(witness: WitnessEntry) -> str:
    """Format the place of a record and what is wrong with it, or a row of an invariant."""
    where = f"{witness.topic}[{witness.partition}] offset {witness.offset}: " if witness.offset >= 0 else ""
    return where + witness.what
