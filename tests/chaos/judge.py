"""The log as it is after a storm, and whether it bears out each snapshot: V1, V2, V4 and V5 on every record."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from aiokafka import TopicPartition as KafkaPartition

from snapkafka.checks import GOOD, CutView, LogBounds, LogRecord, Verdict, decide, find, listed, outcome
from snapkafka.protocol import TopicPartition
from snapkafka.wire import headers as wire
from tests.features.harness import read_partitions

from .faults import Faults
from .storm import RECOVERY_S

if TYPE_CHECKING:
    from snapkafka.protocol import LedgerState
    from tests.e2e.parts import Live
    from tests.observing import Observer

    from .storm import Storm

KINDS: Final = {*Faults.HEAVY, *Faults.LIGHT}
#: Of all snapshots that were asked for in a storm.
LEAST_CAPTURED: Final = 0.8
CHECKS: Final = ("V1", "V2", "V4", "V5")


class Log:
    """Every record of some topics, by partition, and the bounds of each."""

    def __init__(self) -> None:
        self.records: dict[TopicPartition, list[LogRecord]] = defaultdict(list)
        self.bounds: dict[TopicPartition, LogBounds] = {}

    def unread(self, topics: Collection[str]) -> list[TopicPartition]:
        """Partitions of these topics, neither compacted nor written in transactions, of which an offset is missing."""
        return [
            tp
            for tp, bounds in self.bounds.items()
            if tp.topic in topics
            and not {*range(bounds.start, bounds.end)} <= {record.offset for record in self.records[tp]}
        ]


def read_log(observer: Observer) -> Log:
    """Every topic that a process has named, from the start to the end as it is now."""
    log, known, ledger_id = Log(), observer.state, observer.ledger.ledger_id
    hellos = [view.hello for view in known.processes.values()]
    inputs = {source.topic for hello in hellos for source in hello.inputs}
    topics = inputs | {table.changelog for hello in hellos for table in hello.tables}
    by_check = wire.topics_by_check(inputs)
    there = observer.call(observer.admin.describe_topics(sorted(topics)))
    tps = [TopicPartition(topic, n) for topic, it in there.items() for n in range(it.partitions)]
    starts, ends = (observer.call(ask(tps)) for ask in (observer.admin.log_starts, observer.admin.log_ends))
    log.bounds = {tp: LogBounds(start=starts[tp], end=ends[tp]) for tp in tps}
    found = read_partitions(observer.connection.bootstrap, [KafkaPartition(*tp) for tp in tps])
    for record in (record for records in found.values() for record in records):
        tp = TopicPartition(record.topic, record.partition)
        stamped = log_record(tp, record.offset, record.stamp, ledger_id, by_check)
        forged = stamped.process >= known.end  # by the storm itself: the ledger has no such process
        log.records[tp].append(LogRecord(*tp, record.offset) if forged else stamped)
    unread = log.unread(inputs)
    assert not unread, f"the judge has not read all of {unread}"
    return log


def log_record(
    tp: TopicPartition, offset: int, raw: bytes | None, ledger_id: int, by_check: dict[int, str]
) -> LogRecord:
    """A record as the checks look at it; `raw`: its header."""
    said = wire.read(raw, ledger_id, wire.tp_check(*tp)) if raw is not None else None
    if said is None:
        return LogRecord(*tp, offset)
    cause = None
    if said.cause is not None and said.cause[0] in by_check:
        cause = (TopicPartition(by_check[said.cause[0]], said.cause[1]), said.cause[2])
    return LogRecord(*tp, offset, said.process, said.epoch, said.seq, said.marker, cause)


def verdict_of(state: LedgerState, log: Log, epoch: int) -> tuple[Verdict, Counter[str]]:
    """The verdict, and what was found, by kind."""
    captured = state.captured(epoch)
    view = CutView(captured, log.bounds)
    records = [record for tp in {*view.inputs, *view.changelogs} for record in log.records[tp]]
    read = listed(view, records)
    findings = [finding for check in CHECKS for finding in find(check, read)]
    counts = Counter(finding.kind for finding in findings)
    outcomes = [outcome(name, findings) for name in CHECKS]
    return decide(outcomes, replays=captured.replays, contaminated=captured.contaminated), counts


def judged(live: Live, found: Storm, *, at_most: int) -> dict[int, tuple[Verdict, Counter[str]]]:
    """Verdicts of the first snapshots after each fault, which suffered most, and of others up to so many."""
    observer = live.observer
    log = read_log(observer)
    after = [
        next((epoch for epoch in found.captured_ms if found.began_ms[epoch] >= fault.began_ms), None)
        for fault in sorted(found.faults, key=lambda fault: fault.kind in Faults.LIGHT)
    ]
    chosen = dict.fromkeys(epoch for epoch in (*after, *found.captured_ms) if epoch is not None)
    return {epoch: verdict_of(observer.state, log, epoch) for epoch in list(chosen)[:at_most]}


def problems(
    found: Storm, verdicts: Mapping[int, tuple[Verdict, Counter[str]]], *, faults: int, good: int
) -> list[str]:
    """What is not as it must be, in words; nothing, if all is well.

    A snapshot past which a process went on that was taken for dead (`left-late`) may be unverifiable: it says so.

    Args:
        faults: so many have to have happened at least, of every kind.
        good: so many snapshots have to have a good verdict.
    """
    reported = [f"no fault of kind {kind}" for kind in KINDS - {fault.kind for fault in found.faults}]
    reported += found.bugs
    if len(found.faults) < faults:
        reported.append(f"only {len(found.faults)} faults")
    for epoch, view in found.views.items():
        if view.open:
            reported.append(f"epoch {epoch} hangs")
        elif view.failure is not None and not view.failure.culprit:
            reported.append(f"epoch {epoch} failed, and nobody is named: {view.failure}")
    reported += [
        f"no good snapshot within {RECOVERY_S * found.slowness:.0f} s of {fault}"
        for fault in found.without_recovery()
    ]
    if found.share < LEAST_CAPTURED:
        reported.append(f"only {found.share:.0%} were captured")
    for epoch, (verdict, counts) in verdicts.items():
        excused = verdict is Verdict.UNVERIFIABLE and (counts["left-late"] or found.views[epoch].contaminated)
        if not (verdict in GOOD or excused):
            reported.append(f"epoch {epoch} is {verdict}: {dict(counts)}")
    if (n := sum(verdict in GOOD for verdict, _ in verdicts.values())) < good:
        reported.append(f"only {n} of {len(verdicts)} that were judged are good")
    return reported
