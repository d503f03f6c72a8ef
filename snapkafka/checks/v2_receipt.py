"""V2, receipt: no record that a receiver had started is red by its header, by its sender's birth, or by R8.

One function per kind of finding, named as it; `unread` follows from the bounds of the log alone (`ranges`).
"""

from __future__ import annotations

from collections.abc import Iterator

from snapkafka.protocol.captured_snapshot import InputCut

from .log import LogRecord
from .sequences import CutLog
from .witness import Finding


def red_birth(log: CutLog) -> Iterator[Finding]:
    """Find received records of processes that joined after the trigger."""
    for record, source in log.received:
        if record.process >= log.view.epoch:
            yield _red(log, "red-birth", record, source, record.epoch)


def red_header(log: CutLog) -> Iterator[Finding]:
    """Find received records that are red by their header. What a process that left wrote below its end is white."""
    epoch = log.view.epoch
    for record, source in log.received:
        if record.process < epoch <= record.epoch and not log.view.left(record.process):
            yield _red(log, "red-header", record, source, record.epoch)


def red_late(log: CutLog) -> Iterator[Finding]:
    """Find received records past the end of what their sender sent in white; copies were received before."""
    for record, source in log.received:
        of_left = record.process < log.view.epoch and log.view.left(record.process)
        if of_left and record.offset >= source.log_end:
            yield _red(log, "red-late", record, source, source.log_end)
    for record, source, end in _past_end(log):
        if not log.view.is_unacknowledged(record):
            yield _red(log, "red-late", record, source, end)


def received_unsettled(log: CutLog) -> Iterator[Finding]:
    """Find received records past the end of what counts as sent, for which their sender got no result."""
    for record, source, end in _past_end(log):
        if log.view.is_unacknowledged(record):
            yield _red(log, "received-unsettled", record, source, end)


def _past_end(log: CutLog) -> Iterator[tuple[LogRecord, InputCut, int]]:
    """Yield received white records past the white end of their sender, with that end; without copies."""
    for record, source in log.received:
        if record.process < log.view.epoch and log.view.white_stamped(record):
            end = log.view.white_end(record.process, record.tp)
            if record.offset >= end and record[:3] not in log.copies:
                yield record, source, end


def _red(log: CutLog, kind: str, record: LogRecord, source: InputCut, number: int) -> Finding:
    return Finding.at(kind, record, app=source.app, a=number, b=log.view.epoch)
