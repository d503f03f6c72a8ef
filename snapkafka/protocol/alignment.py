"""Barrier alignment: a cut is put off until nothing is in flight to its process (R16).

The barrier of a process is its `Report`: it names the end of what the process has sent in white. A process that aligns
waits until every process that sends to it has reported and its agents have started all below those ends. It cuts then,
so its channels are empty. A red record waits meanwhile, with all behind it in its partition.

    trigger (who sends where) ── senders reported, their white records started ─> cut ── reported ─> let go
                                              red records wait                         all inputs wait

Kafka has one queue per partition for all of its senders, so a red record of one of them must not stand before a white
one of another. Therefore a process holds back all of its inputs from its cut on, until all processes of its app and of
those that send to the same topics have reported. No cut and no report waits for that, so it cannot deadlock.

Whether a snapshot is consistent never depends on any of this: the process is white until it cuts, and takes in nothing
red before (R2). Who cannot wait fails the snapshot, and so does a message in flight once all have reported: an app that
sends to a topic for the first time, which no earlier report shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from .records import NOBODY, NOT_ALIGNED, AppSends, TopicPartition
from .snapshots import Failure, SnapshotView

if TYPE_CHECKING:
    from .ledger_view import LedgerView

#: A send of the sender had no result: no position shows that its record was read, or that there is none.
UNKNOWN: Final = "its sender does not know the outcome"


class Graph:
    """Which app sends to which.

    Args:
        topics: app -> the topics to which its processes send.
        reads: app -> the topics that it reads.
    """

    def __init__(self, topics: Mapping[str, Iterable[str]], reads: Mapping[str, Iterable[str]]) -> None:
        inputs = {topic for topics in reads.values() for topic in topics}
        self.topics = {app: inputs.intersection(sent) for app, sent in topics.items()}
        self.reads = {app: frozenset(topics) for app, topics in reads.items()}

    def stated(self) -> tuple[AppSends, ...]:
        """Return the graph as a trigger has it."""
        return tuple(
            AppSends(app=app, topics=tuple(sorted(sent))) for app, sent in sorted(self.topics.items())
        )

    def senders(self, app: str) -> set[str]:
        """Return the apps that send to this one."""
        return {other for other, sent in self.topics.items() if sent & self.reads.get(app, frozenset())}

    def together(self, app: str) -> set[str]:
        """Return the apps that send to topics to which this one sends."""
        ours = self.topics.get(app, set())
        return {other for other, sent in self.topics.items() if sent & ours}

    def cycle(self) -> str:
        """Return a cycle of apps and topics in words; empty: there is none."""
        try:
            TopologicalSorter({app: sorted(self.senders(app)) for app in sorted(self.topics)}).prepare()
        except CycleError as error:
            apps: list[str] = error.args[1]
            hops = ((min(self.topics[a] & self.reads[b]), b) for a, b in pairwise(apps))
            return apps[0] + "".join(f" -> {topic} -> {app}" for topic, app in hops)
        return ""


def graph_of(snapshot: SnapshotView) -> Graph:
    """Return the graph of the apps of a snapshot, as its trigger states it."""
    return Graph({item.app: item.topics for item in snapshot.trigger.sends}, snapshot.apps)


def known_graph(ledger: LedgerView, apps: Mapping[str, Iterable[str]]) -> Graph:
    """Return the graph of these apps, as far as reports of living processes show it.

    Args:
        apps: those in scope, with the topics that each reads.
    """
    topics: dict[str, set[str]] = {}
    for snapshot in ledger.snapshots.values():
        for process, (_, report) in snapshot.reports.items():
            if ledger.is_alive(process) and (app := ledger.app_of(process)) in apps:
                topics.setdefault(app, set()).update(sent.topic for sent in report.sent)
    return Graph(topics, apps)


def ends_of(snapshot: SnapshotView, topics: frozenset[str]) -> dict[TopicPartition, int]:
    """Return where the white records of all senders that reported end in the partitions of these topics."""
    ends: dict[TopicPartition, int] = {}
    for _, report in snapshot.reports.values():
        for sent in report.sent:
            if sent.topic in topics:
                tp = TopicPartition(sent.topic, sent.partition)
                ends[tp] = max(sent.white_end, ends.get(tp, 0))
    return ends


def holds_after(ledger: LedgerView, snapshot: SnapshotView, process: int) -> bool:
    """Return whether a process that has cut holds back its inputs. Otherwise something red of its own could reach
    somebody who is still white, before a white record of another process that sends to the same topic; or a process of
    its app, which may have a copy of its table; or it could tear a white event of its own (R6)."""
    app = ledger.app_of(process)
    together = {app, *graph_of(snapshot).together(app)}
    late = snapshot.required - snapshot.reports.keys()
    return snapshot.trigger.align and any(ledger.app_of(other) in together for other in late)


def in_flight(ledger: LedgerView, snapshot: SnapshotView) -> Failure | None:
    """Return the failure of a snapshot that was to be aligned and has a message in flight between its processes. To be
    called when all have reported."""
    ends: dict[TopicPartition, tuple[int, int, int]] = {}
    for process, (_, report) in snapshot.reports.items() if snapshot.trigger.align else ():
        for sent in report.sent:
            end = max(sent.white_end, sent.landed_end)
            tp = TopicPartition(sent.topic, sent.partition)
            ends[tp] = max((end, sent.white_end, process), ends.get(tp, (0, 0, NOBODY)))
    for part in snapshot.parts() if ends else ():
        torn = part.torn(snapshot.epoch)
        for at in part.report.positions:
            tp = TopicPartition(at.topic, at.partition)
            undone = (t.offset for t in torn if (t.agent, t.topic, t.partition) == (at.agent, *tp))
            end, known, process = ends.get(tp, (0, 0, NOBODY))
            if (position := min(at.offset, *undone, end)) < end:
                why = f": {UNKNOWN}" if known <= position else ""
                reason = f"messages of {ledger.processes[process].name} to {tp} were in flight{why}"
                return Failure(code=NOT_ALIGNED, reason=reason, culprit=str(tp))
    return None
