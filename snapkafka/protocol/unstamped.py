"""Unstamped records: ours, without a header, and the snapshots that they spoil (R15).

Our header must not make a record fail that fits without it, so such a record leaves unstamped. To every reader it is
external: no colour, no seq, no cause. The consequences:

* While a snapshot is open, an unstamped record may be red and be received in white, or be white and on no channel. Its
  sender aborts every snapshot that is open for it when the record leaves. A snapshot that is captured by the time the
  `Abort` lands may have been cut after the record was received: it can no longer be proved (`CONTAMINATING`).
* When none is open, an unstamped record is white for all later snapshots. In a changelog it is a part of the state,
  and its sender's end lies above it. If it was received, it lies below the position, as any external record does. If
  not, it belongs to the state of a channel, which the log does not show: its report names the offset up to which a
  sender has unstamped records (`unstamped`), and a snapshot with a position below that fails.
* It has no seq, so it leaves no gap. If it fails all the same, it gets a seq, by which its sender can report it.

An unstamped record of a process that has left meanwhile is external input to every snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping

from .records import NOBODY, SENT_BARE, TopicPartition
from .snapshots import Failure, ProcessView, SnapshotView


def in_flight(snapshot: SnapshotView, processes: Mapping[int, ProcessView]) -> Failure | None:
    """Return the failure if an unstamped record lies where a reader has not got to. To be called when every input is
    cut and every sender has reported."""
    ends = {
        TopicPartition(last.topic, last.partition): (last.end, process)
        for process, (_, report) in snapshot.reports.items()
        for last in report.unstamped
    }
    for part in snapshot.parts() if ends else ():
        app = part.app or processes[part.process].hello.app
        for position in part.report.positions:
            tp = TopicPartition(position.topic, position.partition)
            end, process = ends.get(tp, (0, NOBODY))
            if position.offset < end:
                name = processes[process].name
                what = f"a record that {name} had sent to {tp} without its header was in flight to {app}"
                return Failure(code=SENT_BARE, reason=what, culprit=str(tp))
    return None
