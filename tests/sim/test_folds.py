"""R11: every reader of a ledger folds it to the same state, whatever of it he reads."""

from __future__ import annotations

import pytest

from snapkafka.protocol import LedgerRecord, LedgerState, Report
from snapkafka.sim import played
from snapkafka.wire import decode, encode
from tests.protocol.world import fold_of

#: What a participant goes by, of each snapshot and of all.
OF_EACH = ["status", "failure", "failed_at", "captured_at", "contaminated", "required", "expected", "earlier"]
OF_ALL = ["end", "highest_epoch", "processes", "readers", "paused"]


def known(state: LedgerState) -> tuple[object, ...]:
    views = {epoch: [getattr(view, it) for it in OF_EACH] for epoch, view in state.snapshots.items()}
    return views, state.taken(), [getattr(state, it) for it in OF_ALL]


@pytest.mark.parametrize("history", [True, False])
@pytest.mark.parametrize("start", range(0, 60, 10))
def test_r11_who_reads_all_of_a_report_and_who_reads_none_of_its_ends_fold_alike(
    start: int, history: bool
) -> None:
    """A worker leaves the ends of others unread; here they could not even be read."""
    reports = 0
    for seed in range(start, start + 10):
        records = played(seed)[0].broker.ledger
        reports += sum(isinstance(record, Report) for record in records)
        whole = known(fold_of(*records, history=history))
        assert known(fold_of(*map(unreadable, records), history=history)) == whole
    assert reports > 20


def unreadable(record: LedgerRecord) -> LedgerRecord:
    """The record as it is read, with damaged ends."""
    if not isinstance(record, Report):
        return record
    read = decode(encode(record)[:-1] + b"\xff")
    assert isinstance(read, Report)
    return read
