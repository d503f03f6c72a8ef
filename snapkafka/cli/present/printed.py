"""The output for people: snapshots, one snapshot, progress."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rich.markup import escape

from snapkafka.checks.coverage import NOTHING_SEEN
from snapkafka.checks.coverage import in_words as examined_in_words
from snapkafka.checks.kinds import OF_STATE
from snapkafka.cli.screen import Screen
from snapkafka.kafka.cluster.external_groups import assumptions, open_topics, outside_paths, unseen_paths
from snapkafka.kafka.cluster.restorable import in_words
from snapkafka.manifest import CheckEntry, WitnessEntry, saw_nothing
from snapkafka.ops import Checkpointed, Details, JobResult, Summary
from snapkafka.ops.listing import ProcessRow, WaitRow
from snapkafka.ops.pausing import Switched
from snapkafka.protocol.captured_snapshot import Uncaptured
from snapkafka.protocol.records import CheckResult
from snapkafka.units import local_time, rounded_ms, wall_ms

from .layout import Table

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
#: So many inputs that an aligned snapshot held back are printed, the longest first.
HELD_SHOWN: Final = 5
#: As many findings of V5 are printed: events that ran twice must not hide behind a replay.
NOTES_SHOWN: Final = 5


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number of things: `1 topic`, `2 topics`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def coloured(word: str) -> str:
    """Return the word for an outcome, in its colour."""
    return f"[{COLOURS.get(word, 'white')}]{escape(word)}[/]"


def print_list(console: Screen, snapshots: tuple[Summary, ...], now_ms: int) -> None:
    """Print one line for each snapshot, oldest first."""
    if not snapshots:
        console.print("No snapshots yet. Take one: `snapkafka trigger --wait`")
        return
    rows = Table(
        "snapshot", "epoch", "when", "status", "captured in", "verdict",
        right=("epoch", "captured in"), ids=("snapshot",),
    )  # fmt: skip
    for item in snapshots:
        rows.add(
            escape(item.id) + (f" (attempt {item.attempt})" if item.attempt > 1 else ""),
            str(item.epoch),
            f"{rounded_ms(max(0, now_ms - item.triggered_ms))} ago",
            coloured(item.status.value),
            "" if item.capture_ms is None else rounded_ms(item.capture_ms),
            coloured(item.verdict) if item.verdict else "",
            notes=_problems(item),
        )
    console.print(rows)


def _problems(item: Summary) -> Iterator[str]:
    if item.failure_reason:
        yield f"[red]failed[/] ({escape(item.failure_code)}): {escape(item.failure_reason)}"
    if item.contaminated:
        yield f"[yellow]not verifiable[/]: {escape(item.contaminated)}"


def print_triggered(console: Screen, item: Summary) -> None:
    """Print the result of `trigger`."""
    head = f"snapshot [bold]{escape(item.id)}[/]  epoch {item.epoch}  {coloured(item.status.value)}"
    if item.capture_ms is None:
        console.print(f"{head}\nProgress: `snapkafka show {escape(item.id)}`")
    else:
        console.print(f"{head} in {rounded_ms(item.capture_ms)}. The services were not stopped.")
        storage = "" if item.storage else " --storage DIR"
        console.print(f"Next: `snapkafka assemble {escape(item.id)}{storage}` builds its tables.")
    _print_unread(console, item)


def _print_unread(console: Screen, item: Summary) -> None:
    for unread in item.unread:
        console.print(f"[yellow]warning:[/] {escape(str(unread))}")


def print_switched(console: Screen, found: Switched) -> None:
    """Print the result of `pause`, `resume` and `retire`."""
    state = "[bold]paused[/]; `snapkafka resume` allows snapshots again" if found.paused else "not paused"
    console.print(f"{escape(found.namespace)} is {state}" + ("" if found.changed else " (unchanged)"))
    if found.aborted:
        console.print(f"aborted: {escape(', '.join(found.aborted))}")
    if found.retired:
        console.print(f"retired: {escape(', '.join(found.retired))}")


def print_checkpointed(console: Screen, found: Checkpointed) -> None:
    """Print the result of `checkpoint`."""
    if not found.records:
        console.print("Nothing to trim: no record is that old.")
        return
    console.print(
        f"The ledger now begins at offset {found.upto:,}. {found.kept:,} of {found.records:,} records still matter;"
        f" a checkpoint of {found.chunks} records at its end replaces them."
    )


def print_details(console: Screen, found: Details, *, everything: bool = False) -> None:
    """Print one snapshot.

    Args:
        everything: also processes that had left before it, and every position.
    """
    item = found.summary
    console.print(
        f"snapshot [bold]{escape(item.id)}[/]  attempt {item.attempt}  epoch {item.epoch}"
        f"  {coloured(item.status.value)}" + (f"  {coloured(item.verdict)}" if item.verdict else "")
    )
    when = local_time(item.triggered_ms)
    by = f" by {escape(item.who)}" if item.who else ""
    console.print(f"triggered {when}{by}, {rounded_ms(found.age_ms)} ago; {escape(item.type)}")
    if item.capture_ms is not None:
        console.print(f"captured in {rounded_ms(item.capture_ms)}")
    _print_alignment(console, found)
    for line in _problems(item):
        console.print(line)
    if item.culprit and item.culprit not in item.failure_reason:
        console.print(f"culprit: {escape(item.culprit)}")
    _print_unread(console, item)
    if item.storage:
        console.print(f"storage: {escape(item.storage)}")
    if item.manifest:
        console.print(f"manifest: {escape(item.manifest)}")
    if found.restorable is not None:
        console.print(escape(in_words(found.restorable, wall_ms())))
    if found.waits:
        _print_waits(console, found.waits, item.ttl_ms)
    if found.processes:
        _print_processes(console, found.processes, everything=everything)
    if found.positions:
        _print_positions(console, found, None if everything else POSITIONS_SHOWN)
    print_uncaptured(console, found.uncaptured)
    if found.checks:
        console.print("checks: " + ", ".join(map(_went, found.checks)))
        if {check.records for check in found.checks if check.records >= 0} == {0}:
            console.print(f"[yellow]note:[/] {NOTHING_SEEN}")
        for remark in (remark for check in found.checks for remark in check.remarks):
            console.print(f"[yellow]note:[/] {escape(remark)}")


def _print_alignment(console: Screen, found: Details) -> None:
    """Print whether an aligned snapshot has no message in flight, and what that has cost."""
    alignment = None if found.captured is None else found.captured.alignment
    if alignment is None:
        return
    if alignment.aligned:
        console.print("aligned: no message between its processes was in flight")
    else:
        console.print(f"[yellow]not aligned:[/] {escape(alignment.why)}")
    for row in sorted(found.held, key=lambda row: -row.held_us)[:HELD_SHOWN]:
        where = escape(f"{row.app} {row.topic}[{row.partition}]")
        console.print(f"held back {rounded_ms(row.held_us // 1_000)}: {where}, process {row.process}")


def _went(check: CheckResult) -> str:
    seen = examined_in_words(check.records)
    return f"{check.name} {check.status}" + (f" ({seen})" if seen else "")


def _print_waits(console: Screen, waits: tuple[WaitRow, ...], ttl_ms: int) -> None:
    console.print(f"[bold]waiting for[/] (fails {rounded_ms(ttl_ms)} after the trigger):")
    rows = Table("since", "for", right=("since",))
    for wait in waits:
        rows.add(rounded_ms(wait.waited_ms), escape(wait.text))
    console.print(rows)


def _print_processes(console: Screen, processes: tuple[ProcessRow, ...], *, everything: bool) -> None:
    """Print the processes: those that had left before the snapshot have no part in it."""
    rows = Table(
        "process", "app", "host", "pid", "learned from", "cut took", "running", "reported after", "finished after",
        right=("process", "pid", "cut took", "running", "reported after", "finished after"),
    )  # fmt: skip
    shown = [row for row in processes if everything or not row.left]
    for row in shown:
        rows.add(
            str(row.process),
            escape(row.app),
            escape(row.host),
            str(row.pid),
            "left earlier" if row.left else row.heard,
            "" if row.cut_us is None else f"{row.cut_us} us",
            "" if row.reported_ms is None else str(row.running),
            "" if row.reported_ms is None else rounded_ms(row.reported_ms),
            "" if row.closed_ms is None else rounded_ms(row.closed_ms),
        )
    console.print(rows)
    if hidden := len(processes) - len(shown):
        console.print(
            f"Not shown: {count(hidden, 'process', 'processes')} that left earlier (--all).", style="dim"
        )


def _print_positions(console: Screen, found: Details, most: int | None) -> None:
    rows = Table(
        "app", "input", "position", "log end", "unread", "process",
        right=("position", "log end", "unread", "process"),
    )  # fmt: skip
    for row in found.positions[:most]:
        rows.add(
            escape(row.app),
            escape(f"{row.topic}[{row.partition}]"),
            str(row.position),
            str(row.log_end),
            str(row.unread),
            str(row.process),
        )
    console.print(rows)
    if most is not None and (hidden := len(found.positions) - most) > 0:
        console.print(f"Not shown: {count(hidden, 'more position')} (--all).", style="dim")


def print_assembled(console: Screen, found: tuple[JobResult, ...]) -> None:
    """Print the result of assembly or verification."""
    for item in found:
        console.print(f"snapshot [bold]{escape(item.id)}[/]  epoch {item.epoch}  {coloured(item.verdict)}")
        if item.contaminated:
            console.print(f"[yellow]not verifiable:[/] {escape(item.contaminated)}")
        console.print(_checks(item.checks))
        for line in _caveats(item):
            console.print(line)
        print_uncaptured(console, item.uncaptured)
        for line in _facts(item):
            console.print(line)
        console.print(f"manifest: {escape(item.manifest)}")


def _checks(checks: Iterable[CheckEntry]) -> Table:
    rows = Table("check", "status", "read", "found", right=("found",))
    for check in checks:
        notes = (note for note in check.notes if note.kind not in OF_STATE)  # these have lines of their own
        findings = (*check.witnesses[:1], *notes)  # of whole topics first
        rows.add(
            escape(check.name),
            coloured(check.status if check.run else "not run"),
            examined_in_words(check.records, check.partitions, check.channels),
            str(check.found or check.noted or ""),
            notes=(escape(witness_line(it)) for it in findings[: NOTES_SHOWN if check.name == "V5" else 1]),
        )
    return rows


def _caveats(item: JobResult) -> Iterator[str]:
    """Yield what the verdict leaves open, and what it assumes."""
    if saw_nothing(item.checks):
        yield f"[yellow]note:[/] {NOTHING_SEEN}"
    for note in (note for check in item.checks for note in check.notes if note.kind in OF_STATE):
        yield f"[yellow]note:[/] {escape(note.what)}"
    yield from (f"[yellow]warning:[/] {escape(str(unread))}" for unread in item.unread)
    paths = (
        unseen_paths(item.open),
        open_topics(item.external, strict=item.strict),
        outside_paths(item.outsiders),
    )
    yield from (f"[yellow]open:[/] {escape(line)}" for lines in paths for line in lines)
    yield from (f"assumed: {escape(line)}" for line in assumptions(item.external, strict=item.strict))


def _facts(item: JobResult) -> Iterator[str]:
    """Yield what was written, and what was not done."""
    if item.why_full:
        yield f"[yellow]note:[/] whole state stored: {escape(item.why_full)}"
    yield from (f"[yellow]note:[/] {escape(line)}" for line in item.not_compared)
    if item.tables:
        yield "tables: " + ", ".join(f"{name} {rows:,}" for name, rows in item.tables.items())
        if not item.positions_committed:
            yield f"positions not committed: {escape(item.positions_why_not)}"
    if item.restorable is not None:
        yield escape(in_words(item.restorable, wall_ms()))


def print_uncaptured(console: Screen, uncaptured: Iterable[Uncaptured]) -> None:
    """Print the state of the apps that a snapshot does not hold."""
    for item in uncaptured:
        console.print(f"[yellow]not included:[/] app {escape(item.app)}: {escape(item.what)}")


def witness_line(witness: WitnessEntry) -> str:
    """Format the place of a record and what is wrong with it, or a row of an invariant."""
    where = f"{witness.topic}[{witness.partition}] offset {witness.offset}: " if witness.offset >= 0 else ""
    return where + witness.what
