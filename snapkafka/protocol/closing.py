"""Closing: a process reports when all its white records are in the log (R7).

    cut ──white events done, white sends appended──> markers asked ──report, white sends and markers acknowledged──>
        Closed

The report is known to be in the ledger by its acknowledgement, or when it is read back, whichever comes first.

If nothing white is in flight at the cut, the markers are asked for in the very instant of the cut, so each enters its
partition before the first red record there: the classic rule of 1985, at no wait. While white events still run, red
records may precede the marker; the colour in their header distinguishes them.

Then only the markers are waited for, so the report is held back to be one record with `Closed`. After half of the
snapshot's time to live it is appended all the same: whoever has not reported in time is taken for dead (R12).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import TYPE_CHECKING, assert_never

from .actions import Action, AppendToLedger, SendMarkers, StartTimer
from .colours import Colours, Torn
from .cut import OpenCut
from .events import ChannelEnded, CutTimed, MarkerSent, ReportAppended
from .exact import exact
from .records import (
    NOBODY,
    UNKNOWN_PARTITION,
    Abort,
    ChannelRange,
    Closed,
    CutReport,
    TopicPartition,
    TornEvent,
)

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
    """Return whether everything that `Closed` vouches for is durable."""
    return (
        cut.markers_asked
        and not cut.markers_due
        and (cut.report is not None or cut.held is not None)
        and cut.cut_us is not None
        and not colours.white_running(cut.epoch)
        and not colours.white_unacked(cut.epoch)
    )


def closed(cut: OpenCut, colours: Colours, *, process: int, next_n: Callable[[], int]) -> Closed:
    """Return the record that makes the report count, with the report if that was held back. Then the two have one
    number."""
    assert cut.cut_us is not None
    sent = exact(colours.sent_ends(cut.epoch, cut.markers, previous=cut.previous))
    unstamped = exact(colours.unstamped_ends())
    return Closed(
        process=process,
        n=next_n() if cut.held is None else cut.report_n,
        epoch=cut.epoch,
        report=NOBODY if cut.report is None else cut.report,
        cut=() if cut.held is None else (cut.held,),
        unstamped=unstamped,
        sent=sent,
        changelogs=exact(colours.changelog_ends(cut.epoch, cut.changelogs)),
        recorded=tuple(cut.recorded),
        torn=tuple(cut.torn),
        cut_us=cut.cut_us,
        skipped=cut.skipped,
    )


def _unknown(cut: OpenCut, record: Closed, ledger: LedgerView) -> Iterator[tuple[int, TopicPartition]]:
    """Yield the snapshots for which white records lie in a partition that nobody had named as an input, so that it has
    no position."""
    white = {TopicPartition(e.topic, e.partition) for e in record.sent if e.white_end or e.unacknowledged}
    white |= {TopicPartition(end.topic, end.partition) for end in record.unstamped}
    for epoch, snapshot in ledger.open.items():
        inputs = [(app, tp) for app, topics in snapshot.apps.items() for tp in white if tp.topic in topics]
        if cut.serves(epoch) and (unknown := {*inputs} - snapshot.expected):
            yield epoch, min(tp for _, tp in unknown)


class OpenCuts:
    """The cuts of a process whose `Closed` is not written yet, with what is known of each."""

    def __init__(self) -> None:
        self.cuts: dict[int, OpenCut] = {}
        self.aborted: set[int] = set()  # epochs this process has aborted and not yet read back
        self.due: set[int] = set()  # epochs of which a timer runs for a report that is or was held back

    def clear(self) -> None:
        self.cuts.clear()

    def wants(self, cut: OpenCut, undecided: Set[int]) -> bool:
        """Return whether closing is of use: whether the cut serves a snapshot that may still be captured."""
        return any(cut.serves(epoch) for epoch in undecided if epoch not in self.aborted)

    def drop_decided(self, undecided: Set[int]) -> None:
        """Drop the cuts that serve decided snapshots only: nobody waits for them."""
        self.aborted &= undecided
        self.due &= undecided
        for epoch, cut in list(self.cuts.items()):
            if not self.wants(cut, undecided):
                del self.cuts[epoch]

    def advance(
        self, colours: Colours, ledger: LedgerView, *, process: int, next_n: Callable[[], int]
    ) -> list[Action]:
        """Return the markers that can be sent now, and the `Closed` of cuts that are ready; numbered in their order."""
        actions: list[Action] = []
        for epoch, cut in sorted(self.cuts.items()):
            actions += ask_markers(cut, colours)
            if ready(cut, colours):
                record = closed(cut, colours, process=process, next_n=next_n)
                for unknown, tp in _unknown(cut, record, ledger):
                    why = f"process {process} has sent to {tp}, which no process has named as its input"
                    actions += self.abort(
                        [unknown], UNKNOWN_PARTITION, why, str(tp), process=process, next_n=next_n
                    )
                actions.append(AppendToLedger(record=record))
                del self.cuts[epoch]
        return actions

    def abort(
        self,
        epochs: Iterable[int],
        code: str,
        reason: str,
        culprit: str,
        *,
        process: int,
        next_n: Callable[[], int],
    ) -> list[Action]:
        """Abort these snapshots, where this process has not done so before."""
        actions: list[Action] = []
        for epoch in epochs:
            if epoch not in self.aborted:
                self.aborted.add(epoch)
                record = Abort(
                    process=process, n=next_n(), epoch=epoch, code=code, reason=reason, culprit=culprit
                )
                actions.append(AppendToLedger(record=record))
        return actions

    def hold(self, cut: OpenCut, report: CutReport, ttl_ms: int) -> StartTimer:
        """Hold a report back, to be one record with `Closed`; for half of the snapshot's time to live."""
        cut.held = report
        self.due.add(cut.epoch)
        return StartTimer(epoch=cut.epoch, ttl_ms=ttl_ms // 2)

    def release(self, epoch: int) -> list[Action]:
        """Return the report that was held back for long enough, if it still is."""
        self.due.discard(epoch)
        cut = self.cuts.get(epoch)
        if cut is None or cut.held is None:
            return []
        report, cut.held = cut.held, None
        return [AppendToLedger(record=report)]

    def reported(self, n: int, offset: int) -> None:
        """Note that our report numbered `n` stands at this offset of the ledger."""
        for cut in self.cuts.values():
            if cut.report_n == n:
                cut.report = offset

    def take(self, event: MarkerSent | CutTimed | ChannelEnded | ReportAppended) -> None:
        """Note a fact that `Closed` will state."""
        match event:
            case MarkerSent(epoch=epoch, tp=tp, offset=offset):
                if epoch in self.cuts:
                    self.cuts[epoch].markers_due.discard(tp)
                    self.cuts[epoch].markers[tp] = offset
            case CutTimed(epoch=epoch, us=us):
                if epoch in self.cuts:
                    self.cuts[epoch].cut_us = us
            case ReportAppended(n=n, offset=offset):
                if not event.repeated:  # else it is known once it is read: what comes first stands
                    self.reported(n, offset)
            case ChannelEnded():
                self._record(event)
            case _:
                assert_never(event)

    def _record(self, event: ChannelEnded) -> None:
        """Record a channel as the receiver sees it (R8): the records between our position and the sender's marker were
        in flight."""
        for cut in self.cuts.values():
            start = cut.starts.get(event.tp)
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
