"""`list`, `show` and `verdicts`: the snapshots of a namespace with their status, what a running one waits for, and
verdicts as they are appended, to start work when a snapshot is verified."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Final

from snapkafka.checks.verdict import GOOD
from snapkafka.errors import BadInputError
from snapkafka.kafka.cluster.restorable import restorable
from snapkafka.kafka.ledger.reading import (
    LedgerReading,
    Opened,
    find_captured_by,
    find_epoch,
    find_snapshot,
    opened,
    read_ledger,
)
from snapkafka.kafka.login.connection import Connection
from snapkafka.logs import about
from snapkafka.manifest import RestorableEntry
from snapkafka.ports import Cluster
from snapkafka.protocol.captured_snapshot import Captured, Uncaptured
from snapkafka.protocol.ledger_state import LedgerState, SnapshotView, Status, Unread, Waiting
from snapkafka.protocol.records import NOBODY, CheckResult, TopicPartition, Verdict
from snapkafka.units import wall_ms

logger = logging.getLogger("snapkafka")

Clock = Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A snapshot in one line. `capture_ms`: from the trigger to the record that completed it, by the ledger's clock.

    `failure_*` are empty unless it failed; `verdict` is empty until it was verified; `contaminated` gives the reason
    why it cannot be proved although it was captured (empty: there is none). `unread`: topics to which apps in scope
    subscribe and that no worker had: records that wait in them are in no channel.
    """

    id: str
    attempt: int
    epoch: int
    status: Status
    type: str
    who: str
    storage: str
    apps: tuple[str, ...]
    triggered_ms: int
    capture_ms: int | None
    ttl_ms: int
    failure_code: str = ""
    failure_reason: str = ""
    culprit: str = ""
    contaminated: str = ""
    verdict: str = ""
    manifest: str = ""
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitRow:
    """One thing that a running snapshot waits for: `what` is "input", "report", "alignment" or "closing"; for how
    long, by this clock. `rebalance`: it is an input that Kafka moves from one process to another."""

    what: str
    text: str
    process: int
    app: str
    topic: str
    partition: int
    waited_ms: int
    rebalance: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    """A process in a snapshot. `reported_ms`, `closed_ms`: after the trigger, by the ledger's clock; None: not yet."""

    process: int
    app: str
    host: str
    pid: int
    heard: str
    cut_us: int | None
    running: int
    reported_ms: int | None
    closed_ms: int | None
    left: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionRow:
    """The cut of an input. `unread`: the records between position and log end: in flight, or external."""

    app: str
    topic: str
    partition: int
    position: int
    log_end: int
    unread: int
    process: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """Everything about one snapshot. `captured` is the vector of offsets itself, None while it runs or if it failed;
    `restorable`: how long the log keeps those records, as of now. `uncaptured`: state of its apps that it does not
    hold."""

    summary: Summary
    age_ms: int
    processes: tuple[ProcessRow, ...]
    waits: tuple[WaitRow, ...]
    positions: tuple[PositionRow, ...]
    checks: tuple[CheckResult, ...]
    captured: Captured | None
    uncaptured: tuple[Uncaptured, ...] = ()
    restorable: RestorableEntry | None = None


async def list_snapshots(where: Connection | Cluster, namespace: str) -> tuple[Summary, ...]:
    """List every snapshot of the namespace, oldest first."""
    reading = await read_ledger(where, namespace)
    if lost := str(reading.state.tails):
        logger.warning("snapkafka: %s: snapshots recorded there are not listed", lost, extra=about())
    return summaries(reading)


def summaries(reading: LedgerReading) -> tuple[Summary, ...]:
    """List the snapshots of a ledger that was read, oldest first."""
    return tuple(summary(reading, view) for _, view in sorted(reading.state.snapshots.items()))


async def show(
    where: Connection | Cluster,
    namespace: str,
    name: str = "",
    *,
    epoch: int | None = None,
    at_ms: int | None = None,
    clock: Clock = wall_ms,
) -> Details:
    """Describe one snapshot.

    Args:
        name: its id, its epoch, or `latest`, the last one triggered, whatever its status.
        epoch: its epoch, even if there is such an id.
        at_ms: a moment: the last snapshot that was captured by then, by the ledger's clock.

    Raises:
        UnknownSnapshotError: there is no such snapshot.
        BadInputError: not exactly one of the three is given.
    """
    if [bool(name), epoch is not None, at_ms is not None].count(True) != 1:
        raise BadInputError(
            "name one snapshot: an id, `latest`, --epoch or --at",
            hint="`snapkafka show latest` shows the latest",
        )
    async with opened(where, namespace) as work:
        reading, now_ms = work.reading, clock()
        if at_ms is not None:
            view = find_captured_by(reading, at_ms)
        else:
            view = find_snapshot(reading.state, name) if epoch is None else find_epoch(reading.state, epoch)
        found = details(reading, view, now_ms)
        return replace(found, restorable=await _restorable(work, found, clock))


async def _restorable(work: Opened, found: Details, clock: Clock) -> RestorableEntry | None:
    if found.captured is None:
        return None
    return await restorable(work.admin, found.captured, cut_ms=found.summary.triggered_ms, now=clock)


def summary(reading: LedgerReading, view: SnapshotView) -> Summary:
    """Summarise a snapshot in one line."""
    trigger, failure, verdict = view.trigger, view.failure, view.verdict
    return Summary(
        id=trigger.id,
        attempt=trigger.attempt,
        epoch=view.epoch,
        status=view.status,
        type=trigger.type,
        who=trigger.who,
        storage=trigger.storage,
        apps=trigger.apps,
        triggered_ms=reading.times_ms[view.epoch - 1],
        capture_ms=reading.capture_ms(view),
        ttl_ms=trigger.ttl_ms,
        failure_code=failure.code if failure else "",
        failure_reason=failure.reason if failure else "",
        culprit=failure.culprit if failure else "",
        contaminated=view.contaminated if failure is None else "",
        verdict=verdict.verdict if verdict else "",
        manifest=verdict.manifest if verdict else "",
        unread=view.unread,
    )


def details(reading: LedgerReading, view: SnapshotView, now_ms: int) -> Details:
    """Describe a snapshot, as of `now_ms`."""
    line = summary(reading, view)
    waits = reading.state.waiting(view.epoch) if view.open else []
    captured = reading.state.captured(view.epoch) if view.captured_at is not None else None
    return Details(
        summary=line,
        age_ms=max(0, now_ms - line.triggered_ms),
        processes=tuple(_process(reading, view, process) for process in sorted(view.required | view.left)),
        waits=tuple(_wait(reading, view, wait, now_ms) for wait in waits),
        positions=_positions(captured) if captured else (),
        checks=view.verdict.checks if view.verdict else (),
        captured=captured,
        uncaptured=captured.uncaptured if captured else (),
    )


#: What a process that has not cut yet is shown to have learned it by.
NOT_YET: Final = ""


def _process(reading: LedgerReading, view: SnapshotView, process: int) -> ProcessRow:
    hello = reading.state.processes[process].hello
    start = reading.times_ms[view.epoch - 1]
    report, closed = view.reports.get(process), view.closed.get(process)
    return ProcessRow(
        process=process,
        app=hello.app,
        host=hello.host,
        pid=hello.pid,
        heard=report[1].heard if report else NOT_YET,
        cut_us=closed[1].cut_us if closed else None,
        running=len(report[1].running) if report else 0,
        reported_ms=reading.times_ms[report[0]] - start if report else None,
        closed_ms=reading.times_ms[closed[0]] - start if closed else None,
        left=process in view.left,
    )


def _wait(reading: LedgerReading, view: SnapshotView, wait: Waiting, now_ms: int) -> WaitRow:
    """Describe a wait. A closing is waited for since its report, a reader since the last one left, everything else
    since the trigger."""
    since = view.epoch - 1
    if wait.what == "closing" and wait.process in view.reports:
        since = view.reports[wait.process][0]
    text, rebalance = str(wait), _in_rebalance(reading.state, view, wait)
    left = reading.state.processes[wait.process].left if wait.left else None
    if left is not None:
        since = left
        if wait.static_ms:
            until = time.localtime((reading.times_ms[left] + wait.static_ms) / 1_000)
            text += f", until {time.strftime('%H:%M:%S', until)}"
    if wait.process != NOBODY:
        text = text.replace(
            f"process {wait.process} of app {wait.app}", reading.state.processes[wait.process].name, 1
        )
    return WaitRow(
        what=wait.what,
        text=f"{text} (rebalance)" if rebalance else text,
        process=wait.process,
        app=wait.app,
        topic=wait.topic,
        partition=wait.partition,
        waited_ms=max(0, now_ms - reading.times_ms[since]),
        rebalance=rebalance,
    )


def _in_rebalance(state: LedgerState, view: SnapshotView, wait: Waiting) -> bool:
    """Return whether an input is waited for because it moves: none of the processes of its app has it, or one that
    joined after the trigger, or that had cut before it was assigned the input. That of a static member moves only when
    its session is over."""
    if (
        wait.what != "input"
        or wait.static_ms * wait.left
        or not any(other.hello.app == wait.app for other in state.living())
    ):
        return False
    item = (wait.app, TopicPartition(wait.topic, wait.partition))
    return (
        wait.left
        or wait.process not in view.required
        or (wait.process in view.reports and item not in view.claims)
    )


def _positions(captured: Captured) -> tuple[PositionRow, ...]:
    return tuple(
        PositionRow(
            app=cut.app,
            topic=cut.topic,
            partition=cut.partition,
            position=cut.position,
            log_end=cut.log_end,
            unread=max(0, cut.log_end - cut.position),
            process=cut.receiver,
        )
        for cut in sorted(captured.inputs, key=lambda cut: (cut.app, cut.topic, cut.partition))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A verdict and its snapshot.

    `offset`: of the verdict in the ledger; reading may continue at the next one. `triggered_ms`: the instant that the
    tables show, `verified_ms`: when the verdict was appended, both by the ledger's clock (milliseconds since 1970).
    `good`: the snapshot may be relied on.
    """

    offset: int
    id: str
    epoch: int
    verdict: str
    good: bool
    manifest: str
    triggered_ms: int
    verified_ms: int


async def verdicts(
    where: Connection | Cluster, namespace: str, *, start: int | None = None, live: bool = True
) -> AsyncIterator[Verified]:
    """Yield the verdicts of a ledger in its order.

    Args:
        start: the first offset of interest; None: only verdicts from now on.
        live: wait for later ones; False: end at the present end of the ledger.

    Raises:
        LedgerUnusableError, BrokerUnavailableError: the ledger cannot be read.
    """
    async with opened(where, namespace, remember=True) as work:
        reading = work.reading
        known = reading.entries or []
        first = reading.state.end if start is None else start
        past = [entry for entry in known if entry.offset >= first]
        reading.entries = None
        for entry in past:
            if isinstance(entry.record, Verdict) and (
                found := _verified(work.reading, entry.offset, entry.record)
            ):
                yield found
        if not live:
            return
        async for entry in work.ledger.read(reading.state.end):
            reading.apply(entry)
            if isinstance(entry.record, Verdict) and (
                found := _verified(reading, entry.offset, entry.record)
            ):
                yield found


def _verified(reading: LedgerReading, offset: int, record: Verdict) -> Verified | None:
    """Return the verdict with its snapshot; None if the ledger no longer knows that."""
    view = reading.state.snapshots.get(record.epoch)
    if view is None:
        return None
    return Verified(
        offset=offset,
        id=view.trigger.id,
        epoch=record.epoch,
        verdict=record.verdict,
        good=record.verdict in GOOD,
        manifest=record.manifest,
        triggered_ms=reading.times_ms[record.epoch - 1],
        verified_ms=reading.times_ms[offset],
    )
