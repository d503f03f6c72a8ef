"""Closing: a process reports when all its white records are in the log (R7).

    cut ──white events done, white sends appended──> markers asked ──white sends and markers acknowledged──> Report

If nothing white is in flight at the cut, the markers are asked for in the very instant of the cut, so each enters its
partition before the first red record there: the classic rule of 1985, at no wait. While white events still run, red
records may precede the marker; the colour in their header distinguishes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from .actions import SendMarkers
from .colours import Colours, Torn
from .cut import OpenCut
from .events import ChannelEnded, MarkerSettled
from .records import ChannelRange, Report, TopicPartition, TornEvent

if TYPE_CHECKING:
    from .ledger_view import LedgerView


def ask_markers(cut: OpenCut, colours: Colours) -> list[SendMarkers]:
    """Return the markers of a cut, once, as soon as no white event runs and every white send is appended."""
    if cut.markers_asked or colours.white_running(cut.epoch):
        return []
    cut.markers_asked = True
    tps = tuple(sorted(tp for tp in colours.sent if tp.topic in cut.marker_topics))
    cut.markers_due = set(tps)
    return [SendMarkers(epoch=cut.epoch, previous=cut.previous, tps=tps)] if tps else []


def ready(cut: OpenCut, colours: Colours) -> bool:
    """Return whether everything that the report vouches for is durable."""
    return cut.markers_asked and not cut.markers_due and not colours.white_left(cut.epoch)


def waits_for(cut: OpenCut, colours: Colours) -> str:
    """Return what a report still waits for, as a clause about its process."""
    white = (event for event, colour in colours.running.items() if colour < cut.epoch)
    for agent, tp, offset, _ in white:
        return f"agent {agent} still runs offset {offset} of {TopicPartition(*tp)}"
    if cut.markers_due:
        return f"its marker to {min(cut.markers_due)} is not acknowledged"
    return "what it sent before its cut is not acknowledged"


def report(cut: OpenCut, colours: Colours, taken: Collection[int]) -> Report:
    """Return the record of a cut whose white records are all in the log."""
    return replace(
        cut.noted,
        unstamped=(*colours.unstamped_ends(),),
        sent=(*colours.sent_ends(cut.epoch, cut.markers, previous=cut.previous),),
        changelogs=(*colours.changelog_ends(cut.epoch, cut.changelogs),),
        recorded=tuple(cut.recorded),
        torn=tuple(cut.torn),
        taken=tuple(sorted(taken)),
    )


def unknown_partitions(
    cut: OpenCut, record: Report, ledger: LedgerView
) -> Iterator[tuple[int, TopicPartition]]:
    """Yield the snapshots for which white records lie in a partition that nobody had named as an input, so that it has
    no position."""
    white = {TopicPartition(e.topic, e.partition) for e in record.sent if e.white_end or e.unacknowledged}
    white |= {TopicPartition(end.topic, end.partition) for end in record.unstamped}
    for epoch, snapshot in ledger.open.items():
        inputs = [(app, tp) for app, topics in snapshot.apps.items() for tp in white if tp.topic in topics]
        if cut.serves(epoch) and (unknown := {*inputs} - snapshot.expected):
            yield epoch, min(tp for _, tp in unknown)


class OpenCuts:
    """The cuts of a process that are not reported yet, with what is known of each."""

    def __init__(self) -> None:
        self.cuts: dict[int, OpenCut] = {}
        self.aborted: set[int] = set()  # epochs this process has aborted and not yet read back

    def wants(self, cut: OpenCut, undecided: Set[int]) -> bool:
        """Return whether a report is of use: whether the cut serves a snapshot that may still be captured."""
        return any(cut.serves(epoch) for epoch in undecided if epoch not in self.aborted)

    def drop_decided(self, undecided: Set[int]) -> None:
        """Drop the cuts that serve decided snapshots only: nobody waits for them."""
        self.aborted &= undecided
        for epoch, cut in list(self.cuts.items()):
            if not self.wants(cut, undecided):
                del self.cuts[epoch]

    def marker_settled(self, event: MarkerSettled) -> None:
        """Note where a marker lies."""
        if (cut := self.cuts.get(event.epoch)) is not None:
            cut.markers_due.discard(event.tp)
            cut.markers[event.tp] = event.offset

    def channel_ended(self, event: ChannelEnded) -> None:
        """Record a channel as the receiver sees it (R8): the records between our position and the sender's marker were
        in flight."""
        for cut in self.cuts.values():
            start = cut.start(event.tp)
            if start is not None and event.previous < cut.epoch <= event.epoch:
                topic, partition = event.tp
                start, end = min(start, event.offset), event.offset
                cut.recorded.append(
                    ChannelRange(sender=event.sender, topic=topic, partition=partition, start=start, end=end)
                )

    def torn(self, torn: Torn) -> None:
        """Note a torn event: for every open cut that it crossed, it counts as not processed (R6)."""
        (agent, (topic, partition), offset, _), epoch, by, table = torn
        event = TornEvent(
            agent=agent, topic=topic, partition=partition, offset=offset, was=epoch, met=by, table=table
        )
        for cut in self.cuts.values():
            if max(epoch, cut.previous) < min(by, cut.epoch):
                cut.torn.append(event)  # for some of the snapshots that it serves at least
