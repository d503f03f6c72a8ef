"""Barrier alignment: a cut is put off until nothing is in flight to its process (R16).

The barrier of a process is its `Closed`: it names the end of what the process has sent in white. A process that aligns
waits until every process that sends to it has closed and its agents have started all below those ends. It cuts then,
so its channels are empty. A red record waits meanwhile, with all behind it in its partition.

    trigger ── topics stated (`Aligning`) ── senders closed, their white records started ─> cut ── closed ─> let go
                                                  red records wait                           all inputs wait

Kafka has one queue per partition for all of its senders, so a red record of one of them must not stand before a white
one of another. Therefore a process holds back all of its inputs from its cut on, until all processes of its app and of
those that send to the same topics have closed. No cut and no closing waits for that, so it cannot deadlock.

Whether a snapshot is consistent never depends on any of this: the process is white until it cuts, and takes in nothing
red before (R2). If it does not wait (a timeout, a rebalance), the snapshot is an ordinary one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from .alignment_records import Outcome
from .records import NOBODY, TopicPartition

if TYPE_CHECKING:
    from .captured_snapshot import InputCut, SenderEnd
    from .ledger_view import LedgerView
    from .snapshots import SnapshotView

#: When an app sends to a topic for the first time that it has not stated: its readers do not wait for it.
MEANWHILE: Final = "meanwhile, for the first time"
#: A send of the sender had no result: no position shows that its record was read, or that there is none.
UNKNOWN: Final = "may have messages in flight whose sender does not know their outcome"


class Graph:
    """Which app sends to which, as their processes have stated.

    Args:
        topics: app -> the topics to which its processes send.
        reads: app -> the topics that it reads.
    """

    def __init__(self, topics: Mapping[str, Iterable[str]], reads: Mapping[str, Iterable[str]]) -> None:
        inputs = {topic for topics in reads.values() for topic in topics}
        self.topics = {app: inputs.intersection(sent) for app, sent in topics.items()}
        self.reads = {app: frozenset(topics) for app, topics in reads.items()}

    def senders(self, app: str) -> set[str]:
        """Return the apps that send to this one."""
        return {other for other, sent in self.topics.items() if sent & self.reads.get(app, frozenset())}

    def together(self, app: str) -> set[str]:
        """Return the apps that send to topics to which this one sends."""
        ours = self.topics.get(app, set())
        return {other for other, sent in self.topics.items() if sent & ours}

    def cycle(self) -> str:
        """Return a cycle of apps and topics in words; empty: there is none."""
        done: set[str] = set()
        for app in sorted(self.topics):
            if found := self._from(app, [], done):
                return found
        return ""

    def _from(self, app: str, path: list[str], done: set[str]) -> str:
        """Search depth first, against the direction of the messages."""
        if app in path:
            apps = [*path[path.index(app) :], app][::-1]
            hops = (min(self.topics[a] & self.reads[b]) for a, b in pairwise(apps))
            return apps[0] + "".join(f" -> {topic} -> {to}" for topic, to in zip(hops, apps[1:], strict=True))
        if app in done:
            return ""
        for sender in sorted(self.senders(app)):
            if found := self._from(sender, [*path, app], done):
                return found
        done.add(app)
        return ""


def graph_of(ledger: LedgerView, snapshot: SnapshotView) -> Graph:
    """Return the graph of the apps of a snapshot, as its processes have stated it."""
    topics: dict[str, set[str]] = {}
    for process, stated in snapshot.aligning.items():
        topics.setdefault(ledger.app_of(process), set()).update(stated)
    return Graph(topics, snapshot.apps)


def known_graph(ledger: LedgerView, apps: Mapping[str, Iterable[str]]) -> Graph:
    """Return the graph of these apps, as far as earlier snapshots show it.

    Args:
        apps: those in scope, with the topics that each reads.
    """
    topics: dict[str, set[str]] = {}
    for snapshot in ledger.snapshots.values():
        for process, (_, closed) in snapshot.closed.items():
            if ledger.is_alive(process) and (app := ledger.app_of(process)) in apps:
                topics.setdefault(app, set()).update(sent.topic for sent in closed.sent)
        for process, stated in snapshot.aligning.items():
            if ledger.is_alive(process) and (app := ledger.app_of(process)) in apps:
                topics.setdefault(app, set()).update(stated)
    return Graph(topics, apps)


def unstated(snapshot: SnapshotView) -> list[int]:
    """List the processes that have not stated where they send."""
    return sorted(snapshot.required - snapshot.aligning.keys())


def ends_of(snapshot: SnapshotView, topics: frozenset[str]) -> dict[TopicPartition, int]:
    """Return where the white records of all senders that closed end in the partitions of these topics."""
    ends: dict[TopicPartition, int] = {}
    for _, closed in snapshot.closed.values():
        for sent in closed.sent:
            if sent.topic in topics:
                tp = TopicPartition(sent.topic, sent.partition)
                ends[tp] = max(sent.white_end, ends.get(tp, 0))
    return ends


def holds_after(ledger: LedgerView, snapshot: SnapshotView, process: int) -> bool:
    """Return whether a process that has cut holds back its inputs. Otherwise something red of its own could reach
    somebody who is still white, before a white record of another process that sends to the same topic; or a process of
    its app, which may have a copy of its table; or it could tear a white event of its own (R6)."""
    app = ledger.app_of(process)
    together = {app, *graph_of(ledger, snapshot).together(app)}
    late = snapshot.required - snapshot.closed.keys()
    return snapshot.trigger.align and any(ledger.app_of(other) in together for other in late)


def outcome(
    ledger: LedgerView, snapshot: SnapshotView, inputs: Iterable[InputCut], senders: Iterable[SenderEnd]
) -> Outcome | None:
    """Return whether a captured snapshot has no messages in flight between its processes; None: nobody asked for
    that."""
    if not snapshot.trigger.align:
        return None
    found = next(_in_flight(ledger, snapshot, inputs, senders), "")
    return Outcome(aligned=not found, why=(snapshot.unaligned or found) if found else "")


def _in_flight(
    ledger: LedgerView, snapshot: SnapshotView, inputs: Iterable[InputCut], senders: Iterable[SenderEnd]
) -> Iterator[str]:
    """Describe each input with white records of some process at or above its position."""
    ends: dict[tuple[str, int], tuple[int, int, int]] = {}
    for sent in senders:
        place = sent.topic, sent.partition
        found = max(sent.white_end, sent.landed_end), sent.white_end, sent.process
        ends[place] = max(found, ends.get(place, (0, 0, NOBODY)))
    graph = graph_of(ledger, snapshot)
    for source in inputs:
        end, known, process = ends.get((source.topic, source.partition), (0, 0, NOBODY))
        if end <= source.position:
            continue
        app, tp = ledger.app_of(process), TopicPartition(source.topic, source.partition)
        if known <= source.position:
            yield f"input {tp} of app {source.app} {UNKNOWN}"
        elif source.topic in graph.topics.get(app, ()):
            yield f"input {tp} of app {source.app} had messages of process {process} in flight"
        else:
            yield f"process {process} of app {app} began to send to {source.topic} {MEANWHILE}"
