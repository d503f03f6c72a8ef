"""R15: a worker that reads a long ledger at its start shares the loop with its host, and so does its garbage."""

from __future__ import annotations

import gc
from itertools import pairwise

import pytest

from snapkafka.protocol import (
    CheckpointGoesOn,
    Hello,
    LedgerBegins,
    LedgerRead,
    LedgerState,
    Status,
    WorkerProtocol,
    take_checkpoint,
)
from tests.bench.ledgers import records

from .histories import History

N = 10**9  # numbers of checkpoints: no other author without an id has these
AT_ONCE = 4


@pytest.mark.parametrize("seed", range(6))
def test_a_checkpoint_that_is_folded_in_pieces_answers_like_one_that_is_folded_at_once(seed: int) -> None:
    history = History(seed)
    history.play(150)
    ledger = history.world.ledger
    start = len(ledger) // 2
    whole, pieces = WorkerProtocol(), WorkerProtocol()
    for machine in (whole, pieces):
        machine.handle(LedgerBegins(start=start))
    read = [
        *list(enumerate(ledger))[start:],
        *enumerate(take_checkpoint(enumerate(ledger), first_n=N), len(ledger)),
    ]
    for offset, record in read:
        whole.handle(LedgerRead(offset=offset, record=record))
        pieces.handle(LedgerRead(offset=offset, record=record, at_once=AT_ONCE))
    end, steps = pieces.ledger.end, 0
    while pieces.ledger.resuming:
        assert not pieces.ledger.whole
        pieces.handle(CheckpointGoesOn(at_once=AT_ONCE))
        assert pieces.ledger.end == end, "what was read is not read again"
        steps += 1
    assert steps > 2
    assert pieces.ledger.whole and whole.ledger.whole
    assert _known(pieces.ledger) == _known(whole.ledger)


def test_a_record_that_comes_while_a_checkpoint_is_folded_finds_all_of_it_folded() -> None:
    """So for whoever feeds the machine, and knows nothing of pieces."""
    ledger = records(400)
    chunks = take_checkpoint(enumerate(ledger), first_n=N)
    state = LedgerState(history=False, start=len(ledger))
    for offset, chunk in enumerate(chunks, len(ledger)):
        state.apply(offset, chunk, at_once=AT_ONCE)
    before = (state.resuming, state.whole)
    assert state.apply(state.end, Hello(n=1, app="late"))
    assert [before, (state.resuming, state.whole)] == [(True, False), (False, True)]
    assert {view.hello.app for view in state.living()} == {"orders", "payments", "late"}


def test_of_a_decided_snapshot_a_worker_keeps_what_became_of_it_and_not_its_reports() -> None:
    """The objects of 64 snapshots made the garbage collector walk over all objects of the host, for a third of a second
    or more, again and again while a long ledger was read. All but the latest captured snapshot are of no use."""
    ledger = records(2_500)
    worker, reader = LedgerState(history=False), LedgerState()
    for offset, record in enumerate(ledger):
        worker.apply(offset, record)
        reader.apply(offset, record)
    latest = max(epoch for epoch, view in worker.snapshots.items() if view.captured_at is not None)
    decided = {epoch: view for epoch, view in worker.snapshots.items() if not view.open and epoch != latest}
    assert len(decided) > 50
    assert Status.FAILED in {view.status for view in decided.values()}
    for epoch, view in decided.items():
        assert view.forgotten
        assert not any((*view.parts(), *view.claims, *view.expected, *view.earlier, *view.trigger.ends))
        there = reader.snapshots[epoch]
        assert (view.status, view.failure, view.verdict) == (there.status, there.failure, there.verdict)
        assert (view.trigger.id, view.required, view.left) == (there.trigger.id, there.required, there.left)
    assert worker.captured(latest) == reader.captured(latest)


def test_what_a_worker_keeps_for_the_garbage_collector_does_not_grow_with_what_snapshots_report() -> None:
    """Four times as many partitions are four times as much in each report, and two objects more for each owner."""
    few, many = _tracked(partitions=8), _tracked(partitions=32)
    assert many < few + 3_000, "with all reports of 64 snapshots: 75,000 more"


def _tracked(partitions: int) -> int:
    """How many objects that the garbage collector looks at a fold holds after 130 snapshots."""
    ledger = records(2_500, partitions=partitions)
    state = LedgerState(history=False)
    for offset, record in enumerate(ledger):
        state.apply(offset, record)
    del record
    ledger.clear()
    gc.collect()
    before = len(gc.get_objects())
    del state
    gc.collect()
    return before - len(gc.get_objects())


def _known(state: LedgerState) -> tuple[object, ...]:
    """What a worker goes by."""
    views = {
        epoch: (view.status, view.failure, view.captured_at, view.contaminated, view.required, view.expected)
        for epoch, view in state.snapshots.items()
    }
    assert all(a < b for a, b in pairwise(views)), "in the order of epochs"
    return (state.end, state.highest_epoch, views, state.processes, state.owners, state.taken(), state.paused)
