"""V2, receipt: no record that a receiver had started is red by its header, by its sender's birth, or by R8.

`unread` follows from the bounds of the log alone (`ranges`).
"""

from __future__ import annotations

from collections.abc import Iterator

from snapkafka.protocol.captured_snapshot import InputCut

from .inputs import received
from .log import EXTERNAL, LogRecord
from .sequences import CutLog
from .witness import Finding


def find(log: CutLog) -> Iterator[Finding]:
    """Find received records that are red, or count as not sent."""
    for tp, one in log.stretches.items():
        for source in log.view.inputs.get(tp, ()):
            for _, record, _ in one.kept:
                if record.process != EXTERNAL and not record.marker and received(source, record.offset):
                    yield from _red(log, record, source)


def _red(log: CutLog, record: LogRecord, source: InputCut) -> Iterator[Finding]:
    """Find that a received record is red, and the number that shows it."""
    view, end = log.view, log.view.white_end(record.process, record.tp)
    if view.left(record.process):  # below its end it is white, whatever its header
        kind, number = "red-late" if record.offset >= source.log_end else "", source.log_end
    elif not view.is_white(record):
        kind, number = "red-birth" if record.process >= view.epoch else "red-header", record.epoch
    elif record.offset < end or not view.white_stamped(record) or record[:3] in log.copies:
        return
    else:
        kind, number = "received-unsettled" if view.is_unacknowledged(record) else "red-late", end
    if kind:
        yield Finding.at(kind, record, app=source.app, a=number, b=view.epoch)
