"""`draw`: the space-time diagram of a snapshot, from its manifest and tables, or from the ledger alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from snapkafka.drawing.around import messages_of, sql_of
from snapkafka.drawing.layout import EXTERNAL, Lane, Picture, lay_out
from snapkafka.drawing.order import DrawnMessage
from snapkafka.drawing.svg import svg
from snapkafka.errors import BadInputError
from snapkafka.kafka.ledger.reading import LATEST
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import AROUND, Manifest
from snapkafka.ports import Cluster
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.query.engine import Bounds
from snapkafka.query.locate import manifest_places
from snapkafka.store import read_manifest

from .info import Details
from .reading import query

#: More arrows than these nobody can follow with the eye.
MESSAGES_SHOWN: Final = 60
#: Of one channel so many are drawn, so that a long backlog does not hide the others.
OF_A_CHANNEL: Final = 6
MARKERS_SHOWN: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A diagram as SVG. `shown`, `hidden`: the numbers of messages in flight."""

    id: str
    epoch: int
    svg: str
    shown: int
    hidden: int


async def draw(
    where: Connection | Cluster | None,
    namespace: str,
    *,
    name: str = LATEST,
    manifest: str = "",
    storage: str = "",
    messages_max: int = MESSAGES_SHOWN,
    bounds: Bounds | None = None,
) -> Drawn:
    """Draw an assembled snapshot.

    Args:
        name: id, epoch or `latest`, the last assembled one.
        messages_max: the limit of drawn messages in flight, and of those that do not cross the cut.
    """
    if messages_max < 0:
        raise BadInputError(f"must be 0 or more, got {messages_max}", field="messages")
    place = manifest or (await manifest_places(where, namespace, [name], storage=storage))[0]
    _, found = await asyncio.to_thread(read_manifest, place)
    rows: Sequence[Mapping[str, Any]] = ()
    if any(table.name == AROUND for table in found.tables):  # else lanes alone
        sql = sql_of(messages_max, OF_A_CHANNEL)
        rows = (await query(where, namespace, sql, manifest=place, bounds=bounds)).rows
    drawn = messages_of(rows, found)
    in_flight = sum(table.rows for table in found.tables if table.name == "messages")
    total = in_flight + (rows[0]["near"] if rows else 0)
    backward = _backward(found)
    there = {(one.topic, one.partition, one.offset) for one in backward}  # of which a check reports more
    others = (one for one in drawn if (one.topic, one.partition, one.offset) not in there)
    notes = ["Cuts stand to scale; of messages the order, not the time."]
    if found.captured.contaminated:
        notes.append(f"Contaminated: {found.captured.contaminated}")
    picture = Picture(
        title=found.id,
        verdict=found.verdict,
        lanes=_lanes(found.captured, _after_trigger(found)),
        messages=(*others, *backward, *_markers(found.captured)),
        hidden=total - len(drawn),
        notes=tuple(notes),
    )
    shown = sum(message.kind == "in-flight" for message in drawn)
    return Drawn(
        id=found.id,
        epoch=found.epoch,
        svg=await asyncio.to_thread(lambda: svg(lay_out(picture))),
        shown=shown,
        hidden=in_flight - shown,
    )


def draw_details(details: Details, captured: Captured | None) -> Drawn:
    """Draw a snapshot from the ledger, while it runs and until it is assembled: lanes and cuts, no messages."""
    torn = {cut.process: cut.torn for cut in captured.processes} if captured else {}
    lanes = tuple(
        Lane(
            process=row.process,
            app=row.app,
            host=row.host,
            pid=row.pid,
            cut_ms=row.reported_ms,
            heard=row.heard,
            left=row.left,
            running=(f"{row.running} events",) if row.running else (),
            torn=tuple(_event(event) for event in torn.get(row.process, ())),
        )
        for row in details.processes
    )
    waits = [f"waits for {wait.text}" for wait in details.waits[:3]]
    picture = Picture(
        title=details.id,
        verdict=details.verdict or details.status.value,
        lanes=lanes,
        messages=tuple(_markers(captured)) if captured else (),
        notes=(*waits, "messages in flight are drawn once the snapshot is assembled"),
    )
    return Drawn(id=details.id, epoch=details.epoch, svg=svg(lay_out(picture)), shown=0, hidden=0)


def _after_trigger(manifest: Manifest) -> Mapping[int, int]:
    """Return ledger offset -> milliseconds after the trigger, as far as the manifest has times."""
    start = manifest.ledger.triggered_ms
    return {entry.offset: max(0, entry.at_ms - start) for entry in manifest.ledger.appended if start}


def _lanes(captured: Captured, times: Mapping[int, int]) -> tuple[Lane, ...]:
    """Return processes in the order in which they cut; a manifest without times keeps the order of their reports."""
    order = {
        cut.report: number for number, cut in enumerate(sorted(captured.processes, key=lambda c: c.report))
    }
    return tuple(
        Lane(
            process=cut.process,
            app=cut.app,
            host=cut.host,
            pid=cut.pid,
            cut_ms=None if cut.left else times.get(cut.report, order[cut.report]),
            heard=cut.heard or "",
            left=cut.left,
            running=tuple(_event(event) for event in cut.running),
            torn=tuple(_event(event) for event in cut.torn),
        )
        for cut in sorted(captured.processes, key=lambda cut: (cut.app, cut.process))
    )


def _event(event: Any) -> str:
    return f"{event.agent} at {event.topic}[{event.partition}] offset {event.offset}"


def _receivers(captured: Captured) -> dict[tuple[str, int], int]:
    """Return the receiver of each input, the first one of several apps."""
    return {(cut.topic, cut.partition): cut.receiver for cut in reversed(captured.inputs)}


def _backward(manifest: Manifest) -> list[DrawnMessage]:
    """Return the messages that a check found received and not sent."""
    receivers = _receivers(manifest.captured)
    known = {cut.process for cut in manifest.captured.processes}
    return [
        DrawnMessage(
            kind="backward",
            sender=witness.process if witness.process in known else EXTERNAL,
            receiver=receivers[witness.topic, witness.partition],
            topic=witness.topic,
            partition=witness.partition,
            offset=witness.offset,
            what=witness.what,
        )
        for check in manifest.checks
        if check.name == "V2"
        for witness in check.witnesses
        if (witness.topic, witness.partition) in receivers
    ]


def _markers(captured: Captured) -> list[DrawnMessage]:
    """Return one marker for each pair of processes, and no more than can be distinguished."""
    receivers, found = _receivers(captured), dict[tuple[int, int], DrawnMessage]()
    for sent in captured.senders:
        receiver = receivers.get((sent.topic, sent.partition), sent.process)
        if sent.marker >= 0 and receiver != sent.process:
            marker = DrawnMessage(
                kind="marker",
                sender=sent.process,
                receiver=receiver,
                topic=sent.topic,
                partition=sent.partition,
                offset=sent.marker,
                what="marker: all that follows was sent after the cut",
            )
            found.setdefault((sent.process, receiver), marker)
    return list(found.values())[:MARKERS_SHOWN]
