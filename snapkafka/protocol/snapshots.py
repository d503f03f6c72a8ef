"""The views that the fold in `ledger_state` keeps: one process, and one snapshot, as the ledger shows them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

from ._dataclass import value
from .records import (
    APP_RUNS_WITHOUT,
    INPUT_MOVED,
    NOBODY,
    SENT_BARE,
    TOPIC_RECREATED,
    Hello,
    Report,
    StoppedApp,
    TopicPartition,
    TornEvent,
    Trigger,
    Verdict,
)

#: An input, or a table partition: the app that has it, and where.
Input = tuple[str, TopicPartition]

#: Earlier readers of an input that are remembered: those whose work may still be found in front of a position. Where
#: there were more (a worker that crashes at one record again and again), the others are `UNKNOWN`, and any process may
#: have been one of them.
KEEP_EARLIER: Final = 64


class Reader(NamedTuple):
    """A process to which an input was assigned, the ledger offset of its latest `Assigned` with it, and the generation
    of its group then."""

    process: int
    offset: int
    generation: int


#: Stands for readers that nobody remembers.
UNKNOWN: Final = Reader(NOBODY, NOBODY, NOBODY)


def add_reader(readers: tuple[Reader, ...], latest: Reader) -> tuple[Reader, ...]:
    """Return the readers of an input with a new one: the present reader is the last of them."""
    earlier = tuple([reader for reader in readers if reader.process != latest.process])
    if len(earlier) > KEEP_EARLIER:
        earlier = (UNKNOWN, *earlier[1 - KEEP_EARLIER :])
    return (*earlier, latest)


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
    """A process whose report a running snapshot still waits for."""

    process: int
    app: str

    def __str__(self) -> str:
        return f"process {self.process} of app {self.app} to report its cut"


@dataclass(slots=True, kw_only=True)
class ProcessView:
    """One process, as the ledger shows it. `assigned`, `inputs`:
    ledger offset of its latest `Assigned` (-1: none) and the inputs in it that were its own then; `inputs_read_by` has
    those that still are. `member`: its id in its consumer group then."""

    process: int
    hello: Hello
    assigned: int = -1
    assigned_n: int = -1
    inputs: tuple[TopicPartition, ...] = ()
    member: str = ""
    left: int | None = None  # ledger offset of its Bye or Dead
    dead: bool = False
    goes_on: bool = False  # without taking part, since it left
    went_on: int = -1  # ledger offset of the latest `Bye` about that
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
    """A report, with its ledger offset; or, of a stopped `app`, what the trigger states in place of one."""

    process: int
    at: int
    report: Report
    app: str = ""

    def torn(self, epoch: int) -> tuple[TornEvent, ...]:
        """Return the torn events that crossed this snapshot: one cut may serve several."""
        return tuple(torn for torn in self.report.torn if torn.was < epoch <= torn.met)


@dataclass(slots=True, kw_only=True)
class SnapshotView:
    """One snapshot, as the ledger shows it so far.

    `reports`: of the processes that turned red for it, one each. `unread`: topics in scope that no process had when the
    snapshot was triggered. `beside`: processes of apps out of scope that turned red for it in time.
    """

    epoch: int
    trigger: Trigger
    required: frozenset[int]
    left: frozenset[int]  # processes in scope that had left before the trigger
    expected: set[Input]
    apps: dict[str, frozenset[str]]  # in scope, with the topics that each reads
    markers: frozenset[str] = frozenset()  # topics that markers may go to
    reports: dict[int, tuple[int, Report]] = field(default_factory=dict)
    stopped: tuple[Part, ...] = ()  # apps that did not run
    earlier: dict[Input, tuple[Reader, ...]] = field(default_factory=dict)  # once captured: who had it before
    captured_at: int | None = None  # ledger offset of the record that completed it
    failure: Failure | None = None
    failed_at: int | None = None
    contaminated: str = ""  # why nobody can prove it any more, though it was captured
    verdict: Verdict | None = None
    unread: tuple[Unread, ...] = ()
    beside: set[int] = field(default_factory=set)
    forgotten: bool = False  # how it was decided, see `forget`

    def forget(self) -> None:
        """Keep what became of a decided snapshot, and drop how: its reports hold a hundred times as much."""
        self.forgotten = True
        self.trigger, self.stopped = replace(self.trigger, ends=(), stopped=()), ()
        self.expected.clear()
        self.reports.clear()
        self.earlier.clear()

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
        """Yield every report, in the order of processes, then the apps that did not run."""
        for process, (at, report) in sorted(self.reports.items()):
            yield Part(process=process, at=at, report=report)
        yield from self.stopped


def input_moved(view: ProcessView, inputs: Collection[TopicPartition]) -> Failure:
    """Return the failure of snapshots during which inputs are assigned, or whose reports do not have the inputs that
    their processes have (R9)."""
    which = f"input {min(inputs)}" if inputs else "inputs"
    reason = f"a rebalance moved {which} of {view.name} while the snapshot was taken"
    return Failure(code=INPUT_MOVED, reason=reason, culprit=str(min(inputs, default=view.hello.app)))


def runs_without(view: ProcessView) -> Failure:
    """Return the failure of the snapshots of an app that runs without taking part (R10)."""
    return Failure(
        code=APP_RUNS_WITHOUT,
        reason=f"{view.withdrawal}: restart it, its log has the error",
        culprit=f"app {view.hello.app}",
    )


def recreated_since(processes: Iterable[ProcessView]) -> Failure | None:
    """Return the failure if two of these processes, in order, know a topic by two ids: it was recreated while the first
    one ran, whose positions and state belong to a deleted topic (R11)."""
    processes = list(processes)
    latest = {topic: topic_id for view in processes for topic, topic_id in view.hello.topic_ids()}
    for view in processes:
        for topic, topic_id in view.hello.topic_ids():
            if topic_id != latest[topic]:
                reason = f"topic {topic} was recreated after {view.name} joined: restart it"
                return Failure(code=TOPIC_RECREATED, reason=reason, culprit=f"topic {topic}")
    return None


def unlike_counts(hello: Hello, counts: Mapping[str, int] | None = None) -> Iterator[tuple[str, str, int]]:
    """Yield a sentence for each table that Faust cannot write, and the topic that can grow to which number: a change
    goes to the partition of the event that makes it, and no input of the app has as many partitions as the changelog
    (robinhood/faust#137).

    Args:
        counts: partitions by topic, as far as they are known; None: as the process found them when it joined.
    """
    if counts is None:
        counts = {table.changelog: table.partitions for table in hello.tables if table.partitions}
        counts |= {source.topic: source.partitions for source in hello.inputs}
    inputs = {source.topic: counts[source.topic] for source in hello.inputs if source.topic in counts}
    for table in hello.tables:
        count = counts.get(table.changelog)
        if table.copartitioned and count is not None and inputs and count not in inputs.values():
            counted = ", ".join(f"{topic} has {number}" for topic, number in sorted(inputs.items()))
            most, topic = max((number, topic) for topic, number in inputs.items())
            what = (
                f"partition counts of table {table.name} of app {hello.app} differ: its changelog {table.changelog} has"
                f" {count}, of the inputs {counted}"
            )
            yield what, *((topic, count) if most < count else (table.changelog, most))


def unstamped_in_flight(snapshot: SnapshotView, processes: Mapping[int, ProcessView]) -> Failure | None:
    """Return the failure if an unstamped record lies where a reader has not got to. To be called when every input is
    cut and every sender has reported.

    Our header must not make a record fail that fits without it, so such a record leaves unstamped (R15). To every
    reader it is external: no colour, no seq, no cause. Its sender aborts the snapshots that are open then; for later
    ones it is white, but where it was not received no log shows that it is a part of the channel's state.
    """
    ends = {
        TopicPartition(last.topic, last.partition): (last.end, process)
        for process, (_, report) in snapshot.reports.items()
        for last in report.unstamped
    }
    for part in snapshot.parts() if ends else ():
        app = part.app or processes[part.process].hello.app
        for position in part.report.positions:
            tp = TopicPartition(position.topic, position.partition)
            end, process = ends.get(tp, (0, NOBODY))
            if position.offset < end:
                name = processes[process].name
                what = f"a record that {name} had sent to {tp} without its header was in flight to {app}"
                return Failure(code=SENT_BARE, reason=what, culprit=str(tp))
    return None


def stopped_part(epoch: int, item: StoppedApp) -> Part:
    """Return what stands for the report of an app that does not run."""
    report = Report(
        process=NOBODY,
        n=0,
        epoch=epoch,
        previous=epoch - 1,
        heard="ledger",
        assigned=epoch - 1,
        positions=item.positions,
        changelogs=item.changelogs,
    )
    return Part(process=NOBODY, at=epoch - 1, report=report, app=item.app)
