"""Snapshots as every interface has them: `--json`, REST and Airflow encode the same structs, by the names of the
contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from operator import attrgetter

import msgspec

from snapkafka.checks.kinds import CHECKS
from snapkafka.kafka.ledger.reading import LedgerReading
from snapkafka.manifest import CheckEntry, RestorableEntry, WitnessEntry, file_stem
from snapkafka.protocol import CheckResult, InputCut, NeverRead, Outcome, Uncaptured
from snapkafka.protocol.gather import contaminated
from snapkafka.protocol.ledger_state import SnapshotView, Status
from snapkafka.query.locate import StoredFiles
from snapkafka.units import utc_time, wall_ms
from snapkafka.verbs import CONTRACT, Result


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a snapshot failed."""

    code: str
    reason: str
    culprit: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.code})"


class SnapshotInfo(
    Result,
    frozen=True,
    kw_only=True,
    rename=CONTRACT
    | {
        "bytes": "total_size_bytes",
        "reported": "nodes_completed",
        "failed": "nodes_failed",
        "required": "nodes_total",
        "in_flight": "in_flight_messages",
        "unread": "unread_topics",
    },
):
    """A snapshot in one line.

    `duration_ms`: from the trigger to its capture or failure, or until now; `capture_ms`: to its capture, by the
    ledger's clock. `required`, `reported` count processes; `failed` those that had not reported when it failed.
    `manifest`: where that lies or will lie. `waits_for`: a sentence for each thing that it waits for. `contaminated`:
    why it cannot be proved although it was captured. `unread`: topics to which apps in scope subscribe and that no
    worker had: records that wait in them are in no channel. `bytes`, `assembled`, `in_flight` and `restorable` are of
    its manifest.
    """

    id: str
    status: Status
    duration_ms: int
    bytes: int = 0
    reported: int
    failed: int
    manifest: str
    attempt: int
    epoch: int
    type: str
    parent: str | None
    who: str
    initiated_at: str
    triggered_ms: int
    capture_ms: int | None
    storage: str
    apps: tuple[str, ...]
    ttl_ms: int
    required: int
    waits_for: tuple[str, ...]
    failure: Failure | None
    contaminated: str | None
    verdict: str | None
    latest_good: bool = False
    assembled: bool = False
    in_flight: int | None = None
    restorable: RestorableEntry | None = None
    unread: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitRow:
    """A process whose report a running snapshot waits for; for how long, by this clock."""

    text: str
    process: int
    app: str
    waited_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    """A process in a snapshot. `reported_ms`: after the trigger, by the ledger's clock; None: not yet."""

    process: int
    app: str
    host: str
    pid: int
    heard: str
    cut_us: int | None
    running: int
    reported_ms: int | None
    left: bool


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds after the trigger, by the ledger's clock; None: not yet."""

    first_reported_ms: int | None
    last_reported_ms: int | None
    decided_ms: int | None


class CheckInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A check as the ledger or, with its witnesses, the manifest has it. `title`, `says`: its name for people, and what
    it proves; empty for one of a later release."""

    name: str
    title: str
    says: str
    run: bool
    status: str
    found: int
    witnesses: tuple[WitnessEntry, ...] = ()
    noted: int = 0
    notes: tuple[WitnessEntry, ...] = ()
    records: int | None
    partitions: int | None = None
    channels: int | None = None
    replayed: int | None = None
    remarks: tuple[str, ...] = ()


class Details(SnapshotInfo, frozen=True, kw_only=True):
    """Everything about one snapshot. `uncaptured`: state of its apps that it does not hold. `tables`, `ancestors`,
    `left_open` and `assumptions` are of its manifest."""

    phases: Phases
    processes: tuple[ProcessRow, ...]
    waits: tuple[WaitRow, ...]
    positions: tuple[InputCut, ...]
    checks: tuple[CheckInfo, ...]
    alignment: Outcome | None
    never_read: tuple[NeverRead, ...]
    uncaptured: tuple[Uncaptured, ...]
    tables: Mapping[str, int] = {}
    ancestors: tuple[str, ...] = ()
    left_open: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()


def instant(ms: int) -> str:
    """Format milliseconds since 1970 as the contract has times: whole seconds, in UTC."""
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def summary(reading: LedgerReading, view: SnapshotView, now_ms: int | None = None) -> SnapshotInfo:
    """Summarise a snapshot in one line."""
    trigger, failure, verdict = view.trigger, view.failure, view.verdict
    triggered_ms, decided_ms = reading.times_ms[view.epoch - 1], _decided_ms(reading, view)
    now_ms = wall_ms() if now_ms is None else now_ms
    reported = len(view.required & view.reports.keys())
    written = f"{trigger.storage.rstrip('/')}/{file_stem(trigger.id)}.json" if trigger.storage else ""
    return SnapshotInfo(
        id=trigger.id,
        status=view.status,
        duration_ms=max(0, now_ms - triggered_ms) if decided_ms is None else decided_ms,
        reported=reported,
        failed=len(view.required) - reported if failure is not None else 0,
        manifest=(verdict.manifest if verdict else "") or written,
        attempt=trigger.attempt,
        epoch=view.epoch,
        type=trigger.type,
        parent=trigger.parent or None,
        who=trigger.who,
        initiated_at=instant(triggered_ms),
        triggered_ms=triggered_ms,
        capture_ms=reading.capture_ms(view),
        storage=trigger.storage,
        apps=trigger.apps,
        ttl_ms=trigger.ttl_ms,
        required=len(view.required),
        waits_for=tuple(wait.text for wait in _waits(reading, view, now_ms)),
        failure=Failure(**asdict(failure)) if failure else None,
        contaminated=(contaminated(reading.state, view) if view.captured_at is not None else "") or None,
        verdict=verdict.verdict if verdict else None,
        unread=tuple(map(str, view.unread)),
    )


def _decided_ms(reading: LedgerReading, view: SnapshotView) -> int | None:
    ended = view.failed_at if view.failure is not None else view.captured_at
    return None if ended is None else max(0, reading.times_ms[ended] - reading.times_ms[view.epoch - 1])


def details(reading: LedgerReading, view: SnapshotView, now_ms: int) -> Details:
    """Describe a snapshot, as of `now_ms`."""
    captured = reading.state.captured(view.epoch) if view.captured_at is not None else None
    processes = tuple(_process(reading, view, process) for process in sorted(view.required | view.left))
    reported = [row.reported_ms for row in processes if row.reported_ms is not None]
    return Details(
        **msgspec.structs.asdict(summary(reading, view, now_ms)),
        phases=Phases(
            first_reported_ms=min(reported, default=None),
            last_reported_ms=max(reported, default=None),
            decided_ms=_decided_ms(reading, view),
        ),
        processes=processes,
        waits=tuple(_waits(reading, view, now_ms)),
        positions=tuple(sorted(captured.inputs, key=attrgetter("app", "topic", "partition")))
        if captured
        else (),
        checks=tuple(map(check_info, view.verdict.checks)) if view.verdict else (),
        alignment=captured.alignment if captured else None,
        never_read=captured.never_read if captured else (),
        uncaptured=captured.uncaptured if captured else (),
    )


def with_files(found: Details, files: StoredFiles) -> Details:
    """Add what the manifest has: of a verdict that is not good, the reasons, unless later checks found other ones."""
    checks, judged = tuple(map(check_info, files.checks)), {it.name: it.status for it in found.checks}
    again = any(judged.get(it.name, it.status) != it.status for it in checks)
    return msgspec.structs.replace(
        found,
        assembled=True,
        contaminated=found.contaminated or files.contaminated or None,
        bytes=files.bytes,
        in_flight=files.in_flight,
        restorable=files.restorable,
        checks=found.checks if again else checks,
        tables=files.rows,
        ancestors=files.parents,
        left_open=files.left_open,
        assumptions=files.assumptions,
    )


def check_info(check: CheckResult | CheckEntry) -> CheckInfo:
    """Describe a check of the ledger or of a manifest."""
    kind, _, invariant = check.name.partition(" ")
    title, says = CHECKS.get(kind, ("", ""))
    known = {name: getattr(check, name) for name in CheckInfo.__struct_fields__ if hasattr(check, name)}
    more = {"title": f"invariant {invariant}" if invariant else title, "says": says}
    return CheckInfo(**{"run": check.status != "not-run"} | known | more)


def _process(reading: LedgerReading, view: SnapshotView, process: int) -> ProcessRow:
    hello = reading.state.processes[process].hello
    report = view.reports.get(process)
    return ProcessRow(
        process=process,
        app=hello.app,
        host=hello.host,
        pid=hello.pid,
        heard=report[1].heard if report else "",
        cut_us=report[1].cut_us if report else None,
        running=len(report[1].running) if report else 0,
        reported_ms=reading.times_ms[report[0]] - reading.times_ms[view.epoch - 1] if report else None,
        left=process in view.left,
    )


def _waits(reading: LedgerReading, view: SnapshotView, now_ms: int) -> Iterator[WaitRow]:
    """Describe what a snapshot waits for, since its trigger: reports, and processes that wait for inputs themselves."""
    waited_ms = max(0, now_ms - reading.times_ms[view.epoch - 1])
    for it in reading.state.waiting(view.epoch) if view.open else ():
        process, what = reading.state.processes[it.process], "to report its cut"
        if not reading.state.inputs_read_by(process) and reading.state.unassigned([it.app]):
            since_ms = reading.times_ms[max(process.process, process.assigned)]
            what = f"to be assigned inputs, since {utc_time(since_ms)}Z"
        yield WaitRow(text=f"{process.name} {what}", process=it.process, app=it.app, waited_ms=waited_ms)
