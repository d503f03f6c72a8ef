"""The space-time diagram of a cut as values: lanes, messages, and their places. It knows no SVG.

It has a line per process, time to the right. A process's cut is a point of its line, and the cut of the system a curve
through all of them. A message in flight was sent left of its sender's cut and is received right of its receiver's, so
its arrow crosses the curve from left to right; a message received and not sent would cross it backwards, and a
consistent cut has none (Chandy and Lamport 1985). Cuts are drawn to scale. Messages keep their order, on each side of
the cut: that of each partition's log, and, if their times are known, that of `picture_order`, for all lines together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .order import END, START, DrawnMessage, Event, in_order

#: Everything in pixels of the drawing.
WIDTH: Final = 1_040
LABELS: Final = 200
RIGHT: Final = WIDTH - 30
TOP: Final = 64
#: Cuts lie between these, to scale; where all are at one moment, in the middle.
CUTS: Final = (470, 640)
#: A line is so far from the next: less the more there are.
GAP_MOST, GAP_LEAST, LINES_HIGH = 58, 9, 640
#: Nothing that is sent or received touches the cut.
CLEAR: Final = 22
#: From so many processes on names do not fit, and stand in what is shown on hovering.
NAMES_MAX: Final = 60
#: From so many lines on a message that does not cross a cut is drawn as a glyph at each of its ends, not as an arrow.
GLYPHS_FROM: Final = 100
#: Who sends without snapkafka.
EXTERNAL: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A process. `cut_ms`: when it reported, after the trigger, None: not yet, or never (`left`). `running`, `torn`: a
    sentence for each event."""

    process: int
    app: str
    host: str = ""
    pid: int = 0
    cut_ms: int | None = None
    heard: str = ""
    left: bool = False
    running: tuple[str, ...] = ()
    torn: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "external" if self.process == EXTERNAL else f"{self.app} {self.process}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The content of a picture. `hidden`: the number of messages left out. `notes`: sentences below it."""

    title: str
    verdict: str
    lanes: tuple[Lane, ...]
    messages: tuple[DrawnMessage, ...]
    hidden: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnEvent:
    """A lane and its place: `y`, and `x` of its cut, None if it has none. `end`: the end of its line."""

    lane: Lane
    y: float
    cut: float | None
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """A message and its place."""

    message: DrawnMessage
    start: tuple[float, float]
    end: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """All places. `curve`: points of the cut, from top to bottom."""

    picture: Picture
    lanes: tuple[DrawnEvent, ...]
    arrows: tuple[Arrow, ...]
    curve: tuple[tuple[float, float], ...]
    bottom: float


def lay_out(picture: Picture) -> Layout:
    """Place everything in a picture; the same picture always has the same places."""
    drawn = {end for message in picture.messages for end in (message.sender, message.receiver)}
    lanes = [lane for lane in picture.lanes if not lane.left or lane.process in drawn]
    if EXTERNAL in drawn:
        lanes.append(Lane(process=EXTERNAL, app="external", left=True))
    if len(lanes) > NAMES_MAX:  # nobody looks for a name: the curve is to be seen
        lanes.sort(key=lambda lane: (lane.cut_ms is None, lane.cut_ms or 0, lane.process))
    gap = max(GAP_LEAST, min(GAP_MOST, LINES_HIGH / max(1, len(lanes))))
    cuts = [lane.cut_ms for lane in lanes if lane.cut_ms is not None]
    placed = {}
    for number, lane in enumerate(lanes):
        x = _cut_x(lane.cut_ms, cuts)
        ends = CUTS[0] - 2 * CLEAR if lane.left and lane.process != EXTERNAL else RIGHT
        placed[lane.process] = DrawnEvent(lane=lane, y=TOP + gap / 2 + number * gap, cut=x, end=ends)
    bottom = TOP + gap * max(1, len(lanes))
    known = [one for one in picture.messages if one.sender in placed and one.receiver in placed]
    points = [(at.cut, at.y) for at in placed.values() if at.cut is not None]
    curve = ((points[0][0], TOP - 4), *points, (points[-1][0], bottom + 4)) if points else ()
    arrows = _arrows(known, placed)
    return Layout(picture=picture, lanes=tuple(placed.values()), arrows=arrows, curve=curve, bottom=bottom)


def _cut_x(cut_ms: int | None, cuts: Sequence[int]) -> float | None:
    if cut_ms is None:
        return None
    low, high = min(cuts), max(cuts)
    if low == high:
        return sum(CUTS) / 2
    return CUTS[0] + (CUTS[1] - CUTS[0]) * (cut_ms - low) / (high - low)


def _arrows(known: Sequence[DrawnMessage], placed: Mapping[int, DrawnEvent]) -> tuple[Arrow, ...]:
    """Place the arrows: every send and receipt of a side of the cut has a place of its own, from left to right in their
    order."""
    cuts = [place.cut for place in placed.values() if place.cut is not None] or [sum(CUTS) / 2]
    ends = [place.end for place in placed.values()]
    spans = {"left": (LABELS + 6, min(min(cuts) - CLEAR, *ends)), "right": (max(cuts) + CLEAR, RIGHT - 12)}
    sides: dict[str, list[Event]] = {"left": [], "right": []}
    for index, end in in_order(known):
        sides[_sides(known[index].kind)[end == END]].append((index, end))
    x = {
        event: spans[side][0] + (spans[side][1] - spans[side][0]) * number / (len(events) + 1)
        for side, events in sides.items()
        for number, event in enumerate(events, 1)
    }
    return tuple(
        Arrow(
            message=message,
            start=(x[index, START], placed[message.sender].y),
            end=(x[index, END], placed[message.receiver].y),
        )
        for index, message in enumerate(known)
    )


def _sides(kind: str) -> tuple[str, str]:
    """Return the sides of the cut on which a message is sent and received."""
    match kind:
        case "backward":
            return "right", "left"
        case "marker" | "later":
            return "right", "right"
        case "received":
            return "left", "left"
        case _:
            return "left", "right"
