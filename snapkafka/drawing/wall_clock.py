"""The cut that results from reading every process at one wall-clock time, by the messages that a picture shows.

A process is read at that time by its own clock: a send is placed by the time of its record, a receipt by the time of
the first record that its event sent. Clocks of processes differ, so such a cut may hold a message as received that no
state has sent ("backward"); and messages in flight across it are in no state at all. A receipt without a time is on
the side of the cut of its process, if that decides; else it is unknown.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from snapkafka.errors import BadInputError
from snapkafka.manifest import AROUND, Manifest
from snapkafka.units import utc_time

from .around import OF_A_SIDE, has_around
from .layout import EXTERNAL, WallClock
from .order import DrawnMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class WallCut:
    """Messages that cross the cut at a wall-clock time, `at_ms` since 1970: at least so many, as the table holds a
    window about the cut. `backward`: received before it and sent after it. `in_flight`: sent before it and not
    received. `unknown`: it is not known whether they cross it. `in_flight_at_cut`: in flight across the snapshot's own
    cut, which holds them."""

    at_ms: int
    backward: int
    in_flight: int
    unknown: int
    in_flight_at_cut: int


def instant_of(manifest: Manifest) -> int:
    """Return the median of the cuts, in milliseconds since 1970.

    Raises:
        BadInputError: the snapshot has no table `around`, or no times.
    """
    again = "assemble it again, while its log exists"
    if not has_around(manifest):
        raise BadInputError(f"snapshot {manifest.id} has no table {AROUND}", hint=again)
    cuts = cut_times(manifest).values()
    if not manifest.ledger.triggered_ms or not cuts:
        raise BadInputError(f"snapshot {manifest.id} has no times of its cuts", hint=again)
    return statistics.median_low(cuts)


def cut_times(manifest: Manifest) -> dict[int, int]:
    """Return when each process cut, by the ledger's clock, as far as that is known."""
    appended = {entry.offset: entry.at_ms for entry in manifest.ledger.appended}
    processes = manifest.captured.processes
    return {cut.process: appended[cut.report] for cut in processes if not cut.left and cut.report in appended}


def at_wall_clock(
    messages: Iterable[DrawnMessage], manifest: Manifest, at_ms: int, *, most: int, of_a_channel: int
) -> tuple[WallCut, WallClock, tuple[DrawnMessage, ...]]:
    """Return the counts, the cut, and the messages to draw by their places relative to it.

    Args:
        most: the limit of messages that cross it, and of the others.
        of_a_channel: the limit of messages of one channel that cross it in one direction.
    """
    messages = list(messages)
    cuts = _own_times(messages, cut_times(manifest))
    kinds = [_kind(message, at_ms, cuts) for message in messages]
    drawn: dict[bool, list[DrawnMessage]] = {True: [], False: []}
    seen = Counter[tuple[object, ...]]()
    for kind, message in zip(kinds, messages, strict=True):
        crosses = kind in ("backward", "in-flight")
        of = (kind, message.sender, message.receiver, message.topic, message.partition)
        if kind and seen[of] < (of_a_channel if crosses else OF_A_SIDE) and len(drawn[crosses]) < most:
            seen[of] += 1
            drawn[crosses].append(
                replace(message, kind=kind, at_cut=message.kind, what=_what(message, at_ms))
            )
    counts = WallCut(
        at_ms=at_ms,
        backward=kinds.count("backward"),
        in_flight=kinds.count("in-flight"),
        unknown=kinds.count(""),
        in_flight_at_cut=sum(table.rows for table in manifest.tables if table.name == "messages"),
    )
    return (
        counts,
        WallClock(at_ms=at_ms, cuts=cuts),
        (*drawn[True], *drawn[False]),
    )


def _own_times(messages: Sequence[DrawnMessage], cuts: Mapping[int, int]) -> dict[int, int]:
    """Return when each process cut, by its own clock: between its last white and its first red record."""
    found = dict(cuts)
    for process, at in cuts.items():
        sent = [(it.kind in ("later", "backward"), it.sent_ms) for it in messages if it.sender == process]
        low = [ms for red, ms in sent if ms is not None and not red]
        high = [ms for red, ms in sent if ms is not None and red]
        found[process] = max([*low, min([*high, at])])
    return found


def _kind(message: DrawnMessage, at_ms: int, cuts: Mapping[int, int]) -> str:
    """Return the kind of a message by its two times; empty: unknown."""
    cut, taken = cuts.get(message.receiver), message.kind in ("received", "backward")
    received: bool | None = None
    if message.received_ms is not None:
        received = message.received_ms <= at_ms
    elif cut is not None and (cut <= at_ms if taken else cut >= at_ms):
        received = taken
    if received is None or message.sent_ms is None:
        return ""
    sent, external = message.sent_ms <= at_ms, message.sender == EXTERNAL
    if received:
        return "received" if sent or external else "backward"
    return ("waiting" if external else "in-flight") if sent else "later"


def wall_notes(cut: WallCut) -> Iterator[str]:
    """Yield sentences about it, to print below the picture."""
    when = utc_time(cut.at_ms, "milliseconds")
    yield f"Every process read at {when} UTC by its own clock; the order is drawn, not the time."
    if cut.backward:
        yield f"At least {_count(cut.backward)} received and not sent: such a cut is inconsistent."
    else:
        yield "No message known to be received and not sent: by these clocks and records such a cut is consistent."
    held = f"the snapshot's own cut holds its {cut.in_flight_at_cut:,}."
    flight = f"At least {_count(cut.in_flight)}" if cut.in_flight else "No message known to be"
    yield f"{flight} in flight across it{': in no state' if cut.in_flight else ''}; {held}"
    if cut.unknown:
        yield f"{_count(cut.unknown)} without a time of receipt: whether they cross the wall-clock cut is unknown."
    yield "The window about the cut may hide more: an assembly with more records around it keeps more of each channel."


def _what(message: DrawnMessage, at_ms: int) -> str:
    parts = [
        f"{what} {abs(ms - at_ms):,} ms {'before' if ms <= at_ms else 'after'}"
        for what, ms in (("sent", message.sent_ms), ("received", message.received_ms))
        if ms is not None
    ]
    return ", ".join(parts) + (" the wall-clock time" if parts else "")


def _count(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"
