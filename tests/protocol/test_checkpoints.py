"""R11: who starts from a checkpoint gives the same answers as who has read everything."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from snapkafka.protocol import Captured, Hello, InputsRevoked, LedgerState, Status, Verdict, from_checkpoint
from snapkafka.protocol.actions import Action, AppendHello
from snapkafka.protocol.events import Joined, LedgerRead, StopAsked
from snapkafka.protocol.ledger_fold import KEEP_NAMES
from snapkafka.protocol.ledger_state import take_checkpoint
from snapkafka.protocol.records import Abort, Assigned, Checkpoint, Dead, LedgerRecord, Trigger
from snapkafka.protocol.worker import WorkerProtocol
from tests.sim.ledgers import ledger

from .world import A, Process, World, settle

N = 10**9  # numbers of checkpoints: no other author without an id has these

Entries = list[tuple[int, LedgerRecord]]


def answers(state: LedgerState, epochs: set[int]) -> dict[str, Any]:
    """All that anybody asks of the fold, as far as it is about these snapshots."""
    views = {epoch: view for epoch, view in state.snapshots.items() if epoch in epochs}
    return {
        "end": state.end,
        "highest": state.highest_epoch,
        "paused": state.paused,
        "living": {view.process: (view.name, state.inputs_read_by(view)) for view in state.living()},
        "owners": {item: readers[-1] for item, readers in state.readers.items()},
        "topics": state.input_topics(),
        "restores": (state.restores.open, state.restores.bases),
        "rules": {item: state.restores.rules(*item) for item in state.readers},
        "open": set(state.open),
        "waiting": {epoch: state.waiting(epoch) for epoch in state.open},
        "stopped": [view.hello for view in state.stopped()],
        "epochs": {epoch for epoch in epochs if state.is_epoch(epoch)},
        "status": {epoch: (v.status, v.failure, v.failed_at, v.captured_at) for epoch, v in views.items()},
        "doubts": {epoch: (v.contaminated, v.verdict) for epoch, v in views.items()},
        "captured": {e: forgetful(state.captured(e)) for e, v in views.items() if v.captured_at is not None},
        "ids": {epoch: state.by_id[v.trigger.id, v.trigger.attempt] for epoch, v in views.items()},
    }


def forgetful(captured: Captured) -> Captured:
    """Without who read the inputs before: a checkpoint does not keep that, and -1 stands for all of them."""
    return replace(captured, inputs=tuple(replace(cut, earlier=()) for cut in captured.inputs))


def kept_of(state: LedgerState) -> set[int]:
    """The snapshots that a checkpoint of it keeps."""
    return {*state.open, *(e for e, view in state.snapshots.items() if view.captured_at is not None)}


def begin(left: Iterable[tuple[int, LedgerRecord]], start: int) -> Entries:
    """What a reader is given of a ledger of which this is left, from `start` on."""
    entries = [*left]
    kept = [(one.offset, one.record) for one in from_checkpoint((record for _, record in entries), start)]
    return [*kept, *(entry for entry in entries if kept and entry[0] > kept[0][0])]


def read(entries: Iterable[tuple[int, LedgerRecord]], start: int, *, history: bool = True) -> LedgerState:
    state = LedgerState(history=history)
    for offset, record in begin(entries, start):
        state.apply(offset, record)
    return state


@pytest.mark.parametrize("seed", range(16))
def test_who_starts_from_a_checkpoint_answers_like_who_read_everything(seed: int) -> None:
    """Whatever the ledger holds after it; so does who starts from a checkpoint of that."""
    rng = random.Random(seed)
    whole = ledger(seed)
    upto = rng.randrange(len(whole) // 2, len(whole) - 20)
    chunks = take_checkpoint(enumerate(whole[:upto]), first_n=N, chunk=rng.choice([7, 50]))
    assert [chunk.part for chunk in chunks] == list(range(len(chunks)))
    everything, late, kept = LedgerState(), LedgerState(), set[int]()
    # Without the chunks themselves: records of this ledger are in their place.
    given: Entries = begin(enumerate(chunks, upto), upto)[: -len(chunks)]
    for entry in given:
        late.apply(*entry)
    for offset, record in enumerate(whole):
        everything.apply(offset, record)
        if offset == upto - 1:
            kept = kept_of(everything)
        elif offset >= upto:
            late.apply(offset, record)
            if offset % 7 == 0 or offset in (upto, len(whole) - 1):
                epochs = {epoch for epoch in everything.snapshots if epoch in kept or epoch > upto}
                assert answers(late, epochs) == answers(everything, epochs), f"at {offset}: {record}"
                assert {*late.snapshots} == epochs
    again = take_checkpoint([*given, *enumerate(whole[upto:], upto)], first_n=2 * N)
    assert not any(isinstance(one.record, Checkpoint) for chunk in again for one in chunk.kept)
    later, epochs = read(enumerate(again, len(whole)), len(whole)), kept_of(late)
    for chunk in again:
        everything.apply(everything.end, chunk)
    assert answers(later, epochs) == answers(everything, epochs)


# -- what matters, one by one ----------------------------------------------------------------------------------------


def behind(ledger: Sequence[LedgerRecord], *, history: bool = True, **how: Any) -> LedgerState:
    """Who starts from a checkpoint at the end of the ledger."""
    chunks = take_checkpoint(enumerate(ledger), first_n=N, **how)
    return read(enumerate(chunks, len(ledger)), len(ledger), history=history)


@pytest.mark.parametrize("all_gone", [True, False])
def test_who_starts_from_a_checkpoint_accuses_no_earlier_reader(all_gone: bool) -> None:
    """Though it be the first record alone that is gone: so is what it said."""
    world = World()
    p = Process(world, "p", (A,))
    p.feed(InputsRevoked())
    heir = Process(world, "p", (A,))
    settle(p, heir)
    start = len(world.ledger) if all_gone else 1
    world.append(take_checkpoint(enumerate(world.ledger), first_n=N)[0])
    epoch = world.take(p, heir)
    late = read(enumerate(world.ledger[start:], start), start)
    assert [cut.earlier for cut in world.fold.captured(epoch).inputs] == [(p.id,)]
    assert [cut.earlier for cut in late.captured(epoch).inputs] == [(-1, p.id)]


def test_chunks_stay_small_and_number_themselves(world: World) -> None:
    """They have room for all names, of which there may be more than of records."""
    for n in range(9):
        world.append(Hello(n=n, app="p"))
    for n in range(20):
        world.append(Trigger(process=0, n=20 + n, id=str(n)))
    for n in range(30):
        world.append(Abort(n=100 + n, epoch=1, code="x", reason="y"))
    chunks = take_checkpoint(enumerate(world.ledger), first_n=N, chunk=4, snapshots=0)
    numbered = [(N + k, k, len(chunks), 59) for k in range(len(chunks))]
    assert [(c.n, c.part, c.parts, c.upto) for c in chunks] == numbered
    assert max(len(c.kept) for c in chunks) == 4
    names = [(name.id, name.attempt) for c in chunks for name in c.names]
    assert names == [(str(n), 1) for n in range(20)]


def test_chunks_in_any_order_complete_their_own_checkpoint_only(world: World, p: Process, q: Process) -> None:
    """Somebody began to write one and was lost; another took over."""
    epoch = world.take(p, q)
    begun = take_checkpoint(enumerate(world.ledger), first_n=N, chunk=3)
    other = take_checkpoint(enumerate(world.ledger), first_n=2 * N, chunk=3)
    records = (*begun[:-1], other[-1], *other[:-1])
    assert from_checkpoint(records[:-1], len(world.ledger)) == []
    state = read(enumerate(records, len(world.ledger)), len(world.ledger))
    assert state.snapshots[epoch].status is Status.CAPTURED


def test_one_that_stops_short_of_where_the_ledger_begins_is_of_no_use(world: World, p: Process) -> None:
    (chunk,) = take_checkpoint(enumerate(world.ledger[:4]), first_n=N)
    assert from_checkpoint([chunk], 6) == []


def test_only_the_latest_captured_snapshots_are_kept(world: World, p: Process, q: Process) -> None:
    epochs = []
    for k in range(4):
        epochs.append(world.trigger(str(k)))
        settle(p, q)
    world.append(Verdict(n=1, epoch=epochs[0], verdict="VERIFIED"))
    assert [*behind(world.ledger, snapshots=2).snapshots] == epochs[2:]
    state = behind(world.ledger, snapshots=0)
    assert (state.snapshots, state.highest_epoch) == ({}, epochs[-1])
    assert not state.is_epoch(epochs[-1]), "nobody who starts here can meet it as news"


def test_rebalances_of_long_ago_leave_one_record() -> None:
    assigned = (Assigned(process=0, n=n, generation=n, inputs=(A,)) for n in range(30))
    (chunk,) = take_checkpoint(enumerate([Hello(n=N, app="p"), *assigned]), first_n=N)
    assert [one.offset for one in chunk.kept if isinstance(one.record, Assigned)] == [30]


def test_contaminated_stays_so(world: World, p: Process, q: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """R12: who was taken for dead and comes back with work under way leaves doubts on what was captured meanwhile."""
    monkeypatch.setattr("snapkafka.protocol.ledger_state.KEEP_LEFT", 0)
    p.start(A, 0)
    world.append(Dead(n=1, dead=p.id))
    void = p.id
    heir = Process(world, "p", (A,))
    epoch = world.take(q, heir)
    p.catch_up()
    p.join(was=void)
    assert world.snapshot(epoch).contaminated
    p.feed(StopAsked())
    heir.give(A, generation=2)
    state = behind(world.ledger)
    assert state.snapshots[epoch].contaminated == world.snapshot(epoch).contaminated
    assert {*state.processes} == {void, p.id, q.id, heir.id}


def test_names_are_taken_for_so_many_snapshots_whoever_reads(world: World) -> None:
    """The same rule for a service, which forgets, and for a tool, which remembers every snapshot."""
    for fold in (LedgerState(), LedgerState(history=False)):
        for n in range(KEEP_NAMES + 1):
            fold.apply(fold.end, Trigger(n=n, id=str(n)))
        for name, again in (("1", False), ("0", True)):
            fold.apply(fold.end, Trigger(n=10**6 + int(name), id=name))
            assert fold.is_epoch(fold.end) is again


def test_when_the_broker_appended_what_is_kept_is_reported(world: World, p: Process) -> None:
    entries = list(enumerate(world.ledger))
    (chunk,) = take_checkpoint(entries, first_n=N, times_ms={at: 1_000 + at for at, _ in entries})
    assert [kept.at_ms for kept in chunk.kept] == [1_000 + kept.offset for kept in chunk.kept] != []


@pytest.mark.parametrize(("kept_at_most", "chunk"), [(50, 50), (7, 3), (1, 1), (0, 1)])
def test_chunks_get_smaller_until_they_fit(world: World, kept_at_most: int, chunk: int) -> None:
    """From 50 records to 12, to 3, to 1; what does not fit even so is for the ledger to refuse."""
    for n in range(90):
        world.append(Hello(n=n, app="p"))
    chunks = take_checkpoint(
        enumerate(world.ledger), first_n=N, fits=lambda chunk: len(chunk.kept) <= kept_at_most
    )
    assert max(len(one.kept) for one in chunks) == chunk
    assert [kept.offset for one in chunks for kept in one.kept] == list(range(90))


# -- a process whose ledger begins with one --------------------------------------------------------------------------


@pytest.mark.parametrize("before", [True, False])
def test_a_process_joins_behind_a_checkpoint(world: World, p: Process, q: Process, before: bool) -> None:
    """It has the epoch of all that was triggered before."""
    epoch = world.take(p, q)
    chunks = take_checkpoint(enumerate(world.ledger), first_n=N, chunk=2)
    upto, machine = len(world.ledger), WorkerProtocol()
    hello = Joined(hello=Hello(n=4711, app="p", host="host"))
    if before:
        machine.handle(hello)
    for offset, record in begin(enumerate(chunks, upto), upto):
        assert machine.handle(LedgerRead(offset=offset, record=record)) == []
    if not before:
        machine.handle(hello)
    machine.handle(LedgerRead(offset=machine.ledger.end, record=hello.hello))
    assert (machine.process, machine.colours.epoch) == (machine.ledger.end - 1, epoch)
    assert machine.ledger.snapshots[epoch].status is Status.CAPTURED


def test_a_process_that_missed_what_was_deleted_joins_again(world: World, p: Process, q: Process) -> None:
    """It may have been asked for a cut, or taken for dead."""
    before = p.id
    world.trigger()
    q.catch_up()
    chunks = take_checkpoint(enumerate(world.ledger), first_n=N)
    actions: list[Action] = []
    for offset, record in begin(enumerate(chunks, len(world.ledger)), len(world.ledger)):
        actions += p.machine.handle(LedgerRead(offset=offset, record=record))
    assert [type(action) for action in actions] == [AppendHello]
    assert p.machine.process is None
    assert before in p.machine.ledger.processes, "it is waited for until it is taken for dead"


# -- R15: a worker that reads a long ledger at its start shares the loop with its host, and so does its garbage -------


@pytest.mark.parametrize("seed", range(6))
def test_of_a_decided_snapshot_a_worker_keeps_what_became_of_it_and_not_its_reports(seed: int) -> None:
    """The objects of 64 snapshots made the garbage collector walk over all objects of the host, for a third of a second
    or more, again and again while a long ledger was read."""
    worker, reader = LedgerState(history=False), LedgerState()
    for offset, record in enumerate(ledger(seed)):
        worker.apply(offset, record)
        reader.apply(offset, record)
    decided = {epoch: view for epoch, view in worker.snapshots.items() if not view.open}
    assert len(decided) > 8
    assert Status.FAILED in {view.status for view in decided.values()}
    for epoch, view in decided.items():
        assert view.forgotten
        assert not any((*view.parts(), *view.expected, *view.earlier, *view.trigger.ends))
        there = reader.snapshots[epoch]
        assert (view.status, view.failure, view.verdict) == (there.status, there.failure, there.verdict)
        assert (view.trigger.id, view.required, view.left) == (there.trigger.id, there.required, there.left)
