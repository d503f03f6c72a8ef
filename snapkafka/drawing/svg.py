"""A laid-out space-time diagram as SVG: no script, no style sheet, nothing fetched; with classes for style sheets.

Colours are attributes, so that the file looks the same everywhere and the content security policy of the page, which
allows no inline style, need not be weakened; the page's own style sheet overrides them by class.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from .layout import EXTERNAL, GLYPHS_FROM, LABELS, NAMES_MAX, TOP, WIDTH, Arrow, DrawnEvent, Layout

INK, PALE, CUT, FLIGHT, BACK, RUN = "#1f2933", "#9aa5b1", "#1d4ed8", "#d97706", "#dc2626", "#0f766e"
GOOD: Final = "#15803d"
FONT: Final = "DejaVu Sans, Verdana, sans-serif"
#: What cannot stand in XML.
_FORBIDDEN: Final = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 65534, 65535), "�")
SHOWN_CHARS: Final = 80
#: How long each half of a glyph is.
STUB: Final = 12
#: By kind of a message, the class of its arrow; of any other: near the cut, and not across it.
CLASSES: Final = {"in-flight": "flight", "backward": "backward", "marker": "marker"}
EXPLAINED: Final = {
    "in-flight": "in flight: sent before the cut, not received before it",
    "received": "received before the cut",
    "later": "sent after the cut",
    "waiting": "external, from before the cut, not received before it",
    "backward": "received before the cut, sent after it: the cut is inconsistent",
}


def svg(layout: Layout) -> str:
    """Draw a layout."""
    return "\n".join(_lines(layout)) + "\n"


def _lines(layout: Layout) -> Iterator[str]:
    picture = layout.picture
    names = len(layout.lanes) <= NAMES_MAX
    width, height = f"{WIDTH:g}", f"{layout.bottom + 84 + 16 * len(picture.notes):g}"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="cut" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" data-glyphs-from="{GLYPHS_FROM}" font-family="{FONT}" font-size="12" role="img"'
        ' aria-labelledby="cut-title">'
    )
    yield f'<title id="cut-title">{_text(f"Space-time diagram of snapshot {picture.title}")}</title>'
    yield "<defs>"
    for name, colour in (("flight", FLIGHT), ("backward", BACK), ("marker", PALE), ("near", PALE)):
        yield (
            f'<marker id="head-{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
            f' orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" class="head-{name}" fill="{colour}"/></marker>'
        )
    yield "</defs>"
    yield f'<rect class="paper" width="{width}" height="{height}" fill="#ffffff"/>'
    yield f'<text class="ink" x="16" y="28" font-size="16" font-weight="bold" fill="{INK}">'
    yield f"{_text(picture.title)}</text>"
    name = "good" if picture.verdict.startswith("VERIFIED") else "bad" if picture.verdict else "none"
    colour = {"good": GOOD, "bad": BACK, "none": PALE}[name]
    yield (
        f'<text class="verdict-{name}" x="{width}" dx="-16" y="28" text-anchor="end" font-weight="bold"'
        f' fill="{colour}">'
        f"{_text(picture.verdict or 'not verified')}</text>"
    )
    yield f'<text class="pale" x="{LABELS}" y="{TOP - 18}" fill="{PALE}">time &#8594;</text>'
    yield from (_lane(place, names=names) for place in layout.lanes)
    name_of, glyphs = {it.lane.process: it.lane.name for it in layout.lanes}, len(layout.lanes) >= GLYPHS_FROM
    for kind in ("received", "waiting", "later", "marker", "in-flight", "backward"):
        yield from (
            _arrow(arrow, name_of, glyphs=glyphs) for arrow in layout.arrows if arrow.message.kind == kind
        )
    yield _curve(layout.curve)
    yield from (part for place in layout.lanes for part in _cut_of(place, 4.5 if names else 3.2))
    yield '<g class="legend">'
    yield from _legend(layout)
    yield "</g>"
    yield "</svg>"


def _lane(place: DrawnEvent, *, names: bool) -> str:
    lane = place.lane
    dashes = ' stroke-dasharray="4 4"' if lane.left or place.cut is None else ""
    ours, title = lane.process != EXTERNAL, ["senders without snapkafka"]
    if ours:
        title = [f"{lane.app} on {lane.host}, pid {lane.pid}"]
        title += [f"learned from {lane.heard}"] if lane.heard else []
        uncut = "had left before the trigger" if lane.left else "has not cut yet"
        title += [uncut] if place.cut is None else []
    unseen = "" if names else ' visibility="hidden"'
    label = (
        f'<text class="ink name" x="{LABELS - 10}" y="{place.y + 4:g}" text-anchor="end" fill="{INK}"{unseen}>'
        f"{_text(lane.name)}</text>"
    )
    end = (
        f'<text class="pale" x="{place.end + 3:g}" y="{place.y + 4:g}" fill="{PALE}">&#215;</text>'
        if lane.left and ours
        else ""
    )
    ends = f'x1="{LABELS}" y1="{place.y:g}" x2="{place.end:g}" y2="{place.y:g}"'
    return (
        f'<g class="lane" data-process="{lane.process}" data-app={quoteattr(_clean(lane.app))}>'
        f"<title>{_text(chr(10).join(title))}</title>{label}"
        f'<line {ends} stroke="transparent" stroke-width="9"/>'
        f'<line class="line" {ends} stroke="{PALE}" stroke-width="1.5"{dashes}/>{end}</g>'
    )


def _arrow(arrow: Arrow, names: Mapping[int, str], *, glyphs: bool) -> str:
    message = arrow.message
    x1, y1 = arrow.start
    name = CLASSES.get(message.kind, "near")
    colour = {"flight": FLIGHT, "backward": BACK}.get(name, PALE)
    dots = ' stroke-dasharray="2 4"' if name == "marker" else ""
    path = _path(arrow.start, arrow.end, whole=not glyphs or name in ("flight", "backward"))
    where = f"{message.topic}[{message.partition}]"
    at = (message.topic, message.partition, message.offset)
    cause = f" data-cause={quoteattr(_clean(_place(message.cause)))}" if message.cause else ""
    title = [f"{where} offset {message.offset}" if message.offset >= 0 else where]
    title += [f"from {names[message.sender]} to {names[message.receiver]}"]
    title += [f"key {message.key}"] if message.key else []
    title += [f"value {message.value}"] if message.value else []
    title += [message.what or EXPLAINED.get(message.kind, "")]
    title += [f"because of {_place(message.cause)}"] if message.cause else []
    ends = (
        f'<circle cx="{x1:.1f}" cy="{y1:.1f}" r="2.5" class="dot-{name}" fill="{colour}"/>'
        if name != "marker"
        else ""
    )
    return (
        f'<g class="message {name}" data-at={quoteattr(_clean(_place(at)))}{cause} data-sender="{message.sender}"'
        f' data-receiver="{message.receiver}">'
        f"<title>{_text(chr(10).join(line for line in title if line))}</title>"
        f'<path d="{path}" fill="none" stroke="transparent" stroke-width="9"/>'
        f'<path class="arrow-{name}" d="{path}" fill="none" stroke="{colour}" stroke-width="1.7"{dots}'
        f' marker-end="url(#head-{name})"/>{ends}</g>'
    )


def _path(start: tuple[float, float], end: tuple[float, float], *, whole: bool) -> str:
    """Return a line from end to end, or only the parts near both ends. `diagram.js` has the same function."""
    (x1, y1), (x2, y2) = start, end
    far = math.hypot(x2 - x1, y2 - y1)
    if not whole and far > 3 * STUB:
        dx, dy = (x2 - x1) * STUB / far, (y2 - y1) * STUB / far
        return (
            f"M{x1:.1f},{y1:.1f} L{x1 + dx:.1f},{y1 + dy:.1f} M{x2 - dx:.1f},{y2 - dy:.1f} L{x2:.1f},{y2:.1f}"
        )
    if y1 == y2:
        return f"M{x1:.1f},{y1:.1f} Q{(x1 + x2) / 2:.1f},{y1 - 40:.1f} {x2:.1f},{y2:.1f}"
    return f"M{x1:.1f},{y1:.1f} L{x2:.1f},{y2:.1f}"


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Return the curve through every cut, each piece with vertical tangents at its ends, so that it never runs back."""
    if not points:
        return ""
    x, y = points[0]
    path = f"M{x:.1f},{y:.1f}"
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        middle = (y1 + y2) / 2
        path += f" C{x1:.1f},{middle:.1f} {x2:.1f},{middle:.1f} {x2:.1f},{y2:.1f}"
    return (
        f'<path class="curve" d="{path}" fill="none" stroke="{CUT}" stroke-width="2.5" stroke-dasharray="9 5"/>'
        f'<text class="curve-name" x="{x:.1f}" y="{y - 6:.1f}" text-anchor="middle"'
        f' fill="{CUT}" font-weight="bold">cut</text>'
    )


def _cut_of(place: DrawnEvent, size: float) -> Iterator[str]:
    """Yield its cut, a point of this radius, with its labels."""
    lane, x, y = place.lane, place.cut, place.y
    if x is None:
        return
    if lane.running:
        title = "\n".join(["running at the cut, and before it as a whole:", *lane.running])
        yield f'<g class="running" data-process="{lane.process}"><title>{_text(title)}</title>{_run(x, y)}</g>'
    if lane.torn:
        title = "\n".join(["torn: met work from after the cut; a restore runs it again:", *lane.torn])
        yield f'<g class="torn" data-process="{lane.process}"><title>{_text(title)}</title>{_tear(x + 8, y - 7)}</g>'
    title = f"{lane.name} reported its cut {lane.cut_ms} ms after the trigger"
    yield (
        f'<g class="cut-point" data-process="{lane.process}"><title>{_text(title)}</title><circle class="point"'
        f' cx="{x:.1f}" cy="{y:.1f}" r="{size:g}" fill="{CUT}" stroke="#ffffff"/></g>'
    )


def _legend(layout: Layout) -> Iterator[str]:
    y, x = layout.bottom + 30, 16.0
    shown = {arrow.message.kind for arrow in layout.arrows}
    lanes = [place.lane for place in layout.lanes]
    near = f"other message{', its two ends' if len(lanes) >= GLYPHS_FROM else ''}"
    entries = (
        (True, f'<circle class="point" cx="6" cy="-4" r="4.5" fill="{CUT}"/>', "cut of a process"),
        ("in-flight" in shown, _sample("flight", FLIGHT), "in flight across the cut"),
        ("backward" in shown, _sample("backward", BACK), "received, not sent: inconsistent"),
        ({"received", "later", "waiting"} & shown, _sample("near", PALE), near),
        ("marker" in shown, _sample("marker", PALE, dots=True), "marker"),
        (any(lane.running for lane in lanes), _run(12, -4), "running"),
        (any(lane.torn for lane in lanes), _tear(6, -11), "torn"),
    )
    for glyph, text in ((glyph, text) for there, glyph, text in entries if there):
        yield (
            f'<g transform="translate({x:g},{y:g})">{glyph}<text class="ink" x="28" fill="{INK}">{text}</text></g>'
        )
        x += 50 + 7 * len(text)
    notes = list(layout.picture.notes)
    if layout.picture.hidden:
        notes.insert(0, f"{layout.picture.hidden:,} more events not shown")
    for number, note in enumerate(notes, 1):
        weight = ' font-weight="bold"' if number == 1 and layout.picture.hidden else ""
        yield (
            f'<text class="pale" x="16" y="{y + 8 + 16 * number:g}" fill="#52606d"{weight}>{_text(note)}</text>'
        )


def _place(place: tuple[str, int, int]) -> str:
    topic, partition, offset = place
    return f"{topic}[{partition}] offset {offset}"


def _run(x: float, y: float) -> str:
    return (
        f'<rect class="run" x="{x - 12:.1f}" y="{y - 4:.1f}" width="24" height="8" rx="4" fill="{RUN}"'
        ' fill-opacity="0.55"/>'
    )


def _tear(x: float, y: float) -> str:
    path = f"M{x:.1f},{y:.1f} l4,5 l-4,4 l4,5"
    return f'<path class="tear" d="{path}" fill="none" stroke="{BACK}" stroke-width="2"/>'


def _sample(name: str, colour: str, *, dots: bool = False) -> str:
    dashes = ' stroke-dasharray="2 4"' if dots else ""
    return (
        f'<path class="arrow-{name}" d="M0,-4 L22,-4" stroke="{colour}" stroke-width="1.7"{dashes}'
        f' marker-end="url(#head-{name})"/>'
    )


def _clean(text: str) -> str:
    return text.translate(_FORBIDDEN).encode("utf-8", "replace").decode()


def _text(text: str) -> str:
    lines = [
        line if len(line) <= 3 * SHOWN_CHARS else line[: 3 * SHOWN_CHARS] + "..." for line in text.split("\n")
    ]
    return escape(_clean("\n".join(lines)))
