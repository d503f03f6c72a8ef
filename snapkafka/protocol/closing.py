"""Closing: when all that was white is in the log, and said so (R7).

    cut ──white events done, white sends appended──> markers asked ──report read back, white sends and markers
        acknowledged, log ends seen──> Closed

If nothing white is under way at the cut, the markers are asked for in the very instant of the cut, so each enters its
partition before the first red record there: the classic rule of 1985, at no wait. While white events still run, red
records may precede the marker; the colour in their header tells them apart.
"""

from __future__ import annotations

from .actions import SendMarkers
from .colours import Colours
from .cut import OpenCut
from .records import Closed

__all__ = ["ask_markers", "closed", "ready"]


def ask_markers(cut: OpenCut, colours: Colours) -> list[SendMarkers]:
    """The markers of a cut, once, as soon as no white event runs and every white send is appended."""
    if cut.markers_asked or colours.white_running(cut.epoch):
        return []
    cut.markers_asked = True
    tps = tuple(sorted(tp for tp in colours.sent if tp.topic in cut.marker_topics))
    cut.markers_due = set(tps)
    return [SendMarkers(epoch=cut.epoch, previous=cut.previous, tps=tps)] if tps else []


def ready(cut: OpenCut, colours: Colours) -> bool:
    """Is everything that `Closed` vouches for durable?"""
    return (
        cut.markers_asked
        and not cut.markers_due
        and cut.report is not None
        and cut.ends is not None
        and cut.cut_us is not None
        and not colours.white_running(cut.epoch)
        and not colours.white_unacked(cut.epoch)
    )


def closed(cut: OpenCut, colours: Colours, *, process: int, n: int) -> Closed:
    """The record that makes the report count."""
    assert cut.report is not None and cut.ends is not None and cut.cut_us is not None
    return Closed(
        process=process,
        n=n,
        epoch=cut.epoch,
        report=cut.report,
        sent=tuple(colours.sent_ends(cut.epoch, cut.markers)),
        changelogs=tuple(colours.changelog_ends(cut.epoch, cut.changelogs)),
        input_ends=cut.ends,
        recorded=tuple(cut.recorded),
        torn=tuple(cut.torn),
        cut_us=cut.cut_us,
    )
