"""The views that the fold in `ledger_state` keeps: one process, and one snapshot, as the ledger shows them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ._dataclass import value
from .readers import Input, Reader
from .records import Closed, CutReport, Hello, TopicPartition, Trigger, Verdict


class Status(StrEnum):
    """The status of a snapshot (design, section 9)."""

    INITIATED = "INITIATED"
    CAPTURING = "CAPTURING"
    CAPTURED = "CAPTURED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@value
class Failure:
    """The reason why a snapshot failed: a stable code, a sentence, and the culprit."""

    code: str
    reason: str
    culprit: str = ""


@value
class Unread:
    """A topic to which an app subscribes and that none of its processes has: it did not exist when they started."""

    app: str
    topic: str

    def __str__(self) -> str:
        return f"topic {self.topic} did not exist when {self.app} started: create it and restart {self.app}"


@value
class Waiting:
    """One process for which a running snapshot still waits."""

    what: str  # "report", "alignment" or "closing"
    process: int
    app: str

    def __str__(self) -> str:
        who = f"process {self.process} of app {self.app}"
        match self.what:
            case "report":
                return f"{who} to report its cut"
            case "alignment":
                return f"{who} to read what is in flight to it"
            case _:
                return f"{who} to finish events that began before the cut"


@dataclass(slots=True, kw_only=True)
class ProcessView:
    """One process, as the ledger shows it. `assigned`, `inputs`:
    ledger offset of its latest `Assigned` (-1: none) and the inputs in it that were its own then; `inputs_read_by` has
    those that still are. `member`: its id in its consumer group then."""

    process: int
    hello: Hello
    assigned: int = -1
    inputs: tuple[TopicPartition, ...] = ()
    member: str = ""
    left: int | None = None  # ledger offset of its Bye or Dead
    dead: bool = False
    hidden: bool = False  # another process has had its number, and was lost with a tail of the ledger
    goes_on: bool = False  # without taking part, since it left
    why: str = ""  # it goes on so

    @property
    def name(self) -> str:
        return f"process {self.process} ({self.hello.app} on {self.hello.host}, pid {self.hello.pid})"

    @property
    def withdrawal(self) -> str:
        """A sentence on a process that stood down, with the reason (R15)."""
        because = f", because it {self.why}" if self.why else ""
        return f"{self.name} runs without snapshots{because}"


@value
class Part:
    """A report that counts, and the `Closed` that makes it count, with the ledger offsets of both; or, of a stopped
    `app`, what the trigger states in place of these."""

    process: int
    at: int
    report: CutReport
    closed_at: int
    closed: Closed
    app: str = ""


@dataclass(slots=True, kw_only=True)
class SnapshotView:
    """One snapshot, as the ledger shows it so far.

    `reports`, `closed`: of the processes that turned red for it, one each. `unread`: topics in scope that
    no process had when the snapshot was triggered. `beside`: processes of apps out of scope that turned red for it in
    time. `aligning`: of an aligned snapshot (R16), the topics to which each process sends, as it has stated.
    `unaligned`: the first process that did not wait, and why; empty: none.
    """

    epoch: int
    trigger: Trigger
    required: frozenset[int]
    left: frozenset[int]  # processes in scope that had left before the trigger
    expected: set[Input]
    apps: dict[str, frozenset[str]]  # in scope, with the topics that each reads
    markers: frozenset[str] = frozenset()  # topics that markers may go to
    reports: dict[int, tuple[int, CutReport]] = field(default_factory=dict)
    closed: dict[int, tuple[int, Closed]] = field(default_factory=dict)
    stopped: tuple[Part, ...] = ()  # apps that did not run
    earlier: dict[Input, tuple[Reader, ...]] = field(default_factory=dict)  # once captured: who had it before
    captured_at: int | None = None  # ledger offset of the record that completed it
    failure: Failure | None = None
    failed_at: int | None = None
    contaminated: str = ""  # why nobody can prove it any more, though it was captured
    verdict: Verdict | None = None
    unread: tuple[Unread, ...] = ()
    beside: set[int] = field(default_factory=set)
    aligning: dict[int, tuple[str, ...]] = field(default_factory=dict)
    unaligned: str = ""
    forgotten: bool = False  # how it was decided, see `forget`

    def forget(self) -> None:
        """Keep what became of a decided snapshot, and drop how: its reports hold a hundred times as much."""
        self.forgotten = True
        self.trigger, self.stopped = replace(self.trigger, ends=(), stopped=()), ()
        self.expected.clear()
        self.reports.clear()
        self.closed.clear()
        self.earlier.clear()

    def stage(self, process: int) -> str:
        """Return the kind of wait (see `Waiting`) for a process that has not closed."""
        if process in self.reports:
            return "closing"
        return "alignment" if process in self.aligning else "report"

    @property
    def open(self) -> bool:
        """Whether it is neither captured nor failed yet."""
        return self.captured_at is None and self.failure is None

    @property
    def status(self) -> Status:
        if self.failure is not None:
            return Status.FAILED
        if self.captured_at is not None:
            return Status.CAPTURED if self.verdict is None else Status.COMPLETED
        return Status.CAPTURING if self.reports else Status.INITIATED

    def parts(self) -> Iterator[Part]:
        """Yield every report that has its `Closed`, in the order of processes, then the apps that did not run."""
        for process, (closed_at, closed) in sorted(self.closed.items()):
            at, report = self.reports[process]
            yield Part(process=process, at=at, report=report, closed_at=closed_at, closed=closed)
        yield from self.stopped
