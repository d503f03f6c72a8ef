"""V2, receipt: no record that a receiver had started is red by its header, by its sender's birth, or by R8.

`unread` follows from the bounds of the log alone (`ranges`).
"""

from __future__ import annotations

from collections.abc import Iterator

from snapkafka.protocol.captured_snapshot import InputCut

from .log import LogRecord
from .sequences import CutLog
from .witness import Finding


def find(log: CutLog) -> Iterator[Finding]:
    """Find received records that are red, or count as not sent."""
    for record, source in log.received:
        if (found := _red(log, record, source)) is not None:
            kind, number = found
            yield Finding.at(kind, record, app=source.app, a=number, b=log.view.epoch)


def _red(log: CutLog, record: LogRecord, source: InputCut) -> tuple[str, int] | None:
    """Return the kind of a received record that is red, and the number that shows it."""
    view = log.view
    if view.left(record.process):  # below its end it is white, whatever its header
        return ("red-late", source.log_end) if record.offset >= source.log_end else None
    if not view.is_white(record):
        return "red-birth" if record.process >= view.epoch else "red-header", record.epoch
    end = view.white_end(record.process, record.tp)
    if record.offset < end or not view.white_stamped(record) or record[:3] in log.copies:
        return None
    return "received-unsettled" if view.is_unacknowledged(record) else "red-late", end
