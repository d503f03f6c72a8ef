"""The study as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .outcome import Outcome
from .reach import Reach
from .study import Property, Scene, Study
from .units import bytes_text, seconds_text


def lines(study: Study) -> Iterator[str]:
    """Yield the tables, line by line."""
    for scene in study.scenes:
        yield from _scene(scene)
        yield ""
    yield "Requirements of each method (found by running it on channels without order, and on a ring)"
    yield from _grid(
        ("method", "needs FIFO", "cycles", "recovery needs"), [_property(p) for p in study.properties]
    )
    yield ""
    for reach in study.reaches:
        yield from _reach(reach)
        yield ""
    if study.violations:
        yield from (f"DOES NOT HOLD: {violation}" for violation in study.violations)
    else:
        yield "Everything holds: every snapshot that ended is consistent, with all the money in it."


def _scene(scene: Scene) -> Iterator[str]:
    load = scene.load
    scale = (
        f"at 1/{round(1 / load.scale):,} of the real rate, state and speeds"
        if load.scale < 1
        else "at full size"
    )
    yield (
        f"{scene.title.capitalize()}: {load.nodes} processes, {len(load.edges)} channels at {load.rate:,.4g} msg/s "
        f"of {load.message_bytes} B, {load.late_s:g} s late; state {bytes_text(load.state_bytes)} each; {scale}"
    )
    head = (
        "method", "snapshot", "took", "p50", "p99", "later by (p99)", "longest stop",
        "peak memory/node: messages", "state", "records", "network: control", "messages", "state", "always",
    )  # fmt: skip
    yield from _grid(head, [_row(outcome) for outcome in scene.outcomes])


def _row(found: Outcome) -> tuple[str, ...]:
    if not found.ended:
        return (found.method, found.problems[0], *[""] * 12)
    where = " (observer)" if found.at_observer else ""
    return (
        found.method,
        "consistent" if found.holds else f"WRONG: {found.problems[0]}",
        seconds_text(found.took_s),
        f"x{found.p50_ratio:.2f}",
        f"x{found.p99_ratio:.2f}",
        seconds_text(max(0.0, found.added_p99_s)),
        seconds_text(found.longest_stop_s),
        bytes_text(found.messages_bytes) + where,
        bytes_text(found.state_bytes) + where,
        bytes_text(found.records_bytes),
        bytes_text(found.control_bytes),
        bytes_text(found.network_messages_bytes),
        bytes_text(found.network_state_bytes),
        bytes_text(found.standing_bytes),
    )


def _property(found: Property) -> tuple[str, ...]:
    fifo = f"yes ({found.without_fifo})" if found.needs_fifo else "no"
    cycles = "yes" if found.works_with_cycles else f"NO ({found.on_a_cycle})"
    return found.method, fifo, cycles, found.recovery


def _reach(reach: Reach) -> Iterator[str]:
    yield f"{reach.title[0].upper()}{reach.title[1:]}: memory of the fullest node for the channels, by a line"
    rows = []
    for found in reach.methods:
        low, high = found.interval
        within = f"{bytes_text(low)} to {bytes_text(high)}"
        times = f"{found.times} x " if found.times > 1 else ""
        offset, slope = found.line.intercept, round(found.line.slope, 6) + 0.0
        line = f"{times}({slope:.4g} B per {found.over} {offset:+,.0f} B)"
        rows.append((found.method, bytes_text(found.bytes, 3), within, bytes_text(found.largest), line))
    yield from _grid(("method", "memory", "95 % interval", "largest run", "line"), rows)
    yield f"  (late at a node: {bytes_text(reach.nominal_bytes, 3)})"


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Format columns as wide as needed; a cell before empty ones may extend over them."""
    widths = [len(cell) for cell in head]
    for row in rows:
        full = max((i for i, cell in enumerate(row) if cell), default=0)
        for i, cell in enumerate(row[: full + 1]):
            if i < full or full == len(head) - 1:
                widths[i] = max(widths[i], len(cell))
    for row in (head, ["-" * width for width in widths], *rows):
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
