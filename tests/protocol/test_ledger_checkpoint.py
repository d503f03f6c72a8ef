"""Checkpoints: who starts from one gives the same answers as who read everything (R11; design, section 4: "the fold so
far: readers start there, older records may go")."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from snapkafka.protocol import (
    KEEP_NUMBERS,
    Abort,
    Assigned,
    Bye,
    Captured,
    Checkpoint,
    Dead,
    Hello,
    InputsRevoked,
    LedgerRecord,
    LedgerState,
    Pause,
    Retire,
    Status,
    StopAsked,
    Trigger,
    Verdict,
    take_checkpoint,
)
from snapkafka.protocol.cut import left_since

from .histories import History
from .world import A, B, Process, World, settle

N = 10**9  # numbers of checkpoints: no other author without an id has these

Ledger = list[tuple[int, LedgerRecord | None]]


def forgetful(captured: Captured) -> Captured:
    """Without who read the inputs before: a checkpoint does not keep that, and says so (see the next test)."""
    return replace(captured, inputs=tuple(replace(cut, earlier=()) for cut in captured.inputs))


@pytest.mark.parametrize("all_gone", [True, False])
def test_who_starts_from_a_checkpoint_accuses_no_earlier_reader(all_gone: bool) -> None:
    """It does not know who read an input before; -1 stands for all of them. Though it be the first record alone that
    is gone: so is what it said."""
    world = World()
    p = Process(world, "p", (A,))
    p.feed(InputsRevoked())
    heir = Process(world, "p", (A,))
    settle(p, heir)
    chunks = take_checkpoint(enumerate(world.ledger), first_n=N)
    for chunk in chunks:
        world.append(chunk)
    start = chunks[0].upto if all_gone else 1
    epoch = world.trigger()
    settle(p, heir)
    late = LedgerState(start=start)
    for offset in range(start, len(world.ledger)):
        late.apply(offset, world.ledger[offset])
    assert [cut.earlier for cut in world.fold.captured(epoch).inputs] == [(p.id,)]
    assert [cut.earlier for cut in late.captured(epoch).inputs] == [(-1,)]


def test_who_had_an_input_when_a_snapshot_was_taken_is_kept_though_another_has_it_now(world: World) -> None:
    """Without, the cut would look like that of an input that nobody had before."""
    p, heir = Process(world, "p", (A,)), Process(world, "p", (A,), assign=False)
    epoch = world.trigger()
    settle(p, heir)
    heir.give(A, generation=2)
    ledger, _ = trimmed(world, start=len(world.ledger))
    late = read(ledger, start=ledger[0][0])
    assert [(cut.receiver, cut.earlier) for cut in late.captured(epoch).inputs] == [(p.id, (-1,))]


def answers(state: LedgerState, epochs: set[int]) -> dict[str, Any]:
    """All that anybody asks of the fold, as far as it is about these snapshots."""
    views = {epoch: view for epoch, view in state.snapshots.items() if epoch in epochs}
    return {
        "end": state.end,
        "highest": state.highest_epoch,
        "paused": state.paused,
        "living": {
            view.process: (view.name, {epoch for epoch in epochs if view.epoch >= epoch})
            for view in state.living()
        },
        "owners": {
            item: (state.owner(item), owner.offset, owner.generation) for item, owner in state.owners.items()
        },
        "too late": {
            (item, e) for item, owner in state.owners.items() for e in state.open if owner.before >= e
        },
        "topics": state.input_topics(),
        "restores": (state.restores.open, state.restores.bases, state.restores._rules),
        "open": set(state.open),
        "waiting": {epoch: state.waiting(epoch) for epoch in state.open},
        "uncut": {epoch: state.uncut(epoch) for epoch in state.open},
        "stopped": {
            epoch: [(app, state.youngest(app).hello) for app in state.stopped_apps(epoch)]
            for epoch in state.open
        },
        "epochs": {epoch for epoch in epochs if state.is_epoch(epoch)},
        "status": {epoch: (v.status, v.failure, v.failed_at, v.captured_at) for epoch, v in views.items()},
        "doubts": {epoch: (v.contaminated, v.verdict) for epoch, v in views.items()},
        "captured": {
            epoch: forgetful(state.captured(epoch)) for epoch, v in views.items() if v.captured_at is not None
        },
        "ids": {
            (v.trigger.id, v.trigger.attempt): state.by_id[v.trigger.id, v.trigger.attempt]
            for v in views.values()
        },
    }


def read(ledger: Ledger, start: int = 0) -> LedgerState:
    state = LedgerState(start=start)
    for offset, record in ledger:
        state.apply(offset, record)
    return state


def trimmed(world: World, start: int, upto: int | None = None, **how: Any) -> tuple[Ledger, set[int]]:
    """The ledger from `start` on with a checkpoint of all of it at its end, and the snapshots that this keeps."""
    ledger: Ledger = list(enumerate(world.ledger[:upto]))
    end = len(ledger)
    chunks = take_checkpoint(ledger, first_n=N, **how)
    state = read(ledger)
    captured = [epoch for epoch, view in state.snapshots.items() if view.captured_at is not None]
    return [*ledger[start:], *enumerate(chunks, end)], {*state.open, *captured}


@pytest.mark.parametrize("seed", range(12))
def test_who_starts_from_a_checkpoint_answers_like_who_read_everything(seed: int) -> None:
    """From the last chunk on, whatever the ledger holds after it, and although a part of what stands before the
    checkpoint is still there."""
    history = History(seed)
    history.play(150)
    world = history.world
    upto = len(world.ledger)
    chunks = take_checkpoint(enumerate(world.ledger), first_n=N, chunk=7)
    assert [c.part for c in chunks] == list(range(len(chunks)))
    kept = {
        *world.fold.open,
        *(e for e, view in world.fold.snapshots.items() if view.captured_at is not None),
    }
    for chunk in chunks:
        world.append(chunk)
        history.play(2)  # others go on while it is written
    history.play(100)
    start = history.rng.choice([1, upto // 2, upto])
    everything, late = LedgerState(), LedgerState(start=start)
    for offset, record in enumerate(world.ledger):
        everything.apply(offset, record)
        if offset >= start:
            late.apply(offset, record)
            assert late.whole == (record == chunks[-1] or late.whole)
        if late.whole and (offset % 7 == 0 or record in chunks or offset == len(world.ledger) - 1):
            epochs = {epoch for epoch in everything.snapshots if epoch in kept or epoch > upto}
            assert answers(late, epochs) == answers(everything, epochs), f"at {offset}: {record}"
            assert {*late.snapshots} == epochs
    assert late.whole


@pytest.mark.parametrize("seed", range(4))
def test_a_checkpoint_of_a_ledger_that_begins_with_one(seed: int) -> None:
    history = History(seed)
    ledger: Ledger = []
    start = 0
    for _ in range(3):
        history.play(60)
        upto = len(history.world.ledger)
        ledger = [*ledger, *((at, history.world.ledger[at]) for at in range(start, upto))]
        kept = set(read(ledger, start=ledger[0][0]).snapshots) - {
            epoch for epoch, view in history.world.fold.snapshots.items() if view.failure is not None
        }
        ledger = []
        for chunk in take_checkpoint(
            ((at, record) for at, record in enumerate(history.world.ledger)), first_n=N + upto
        ):
            ledger.append((history.world.append(chunk), chunk))
            assert not any(isinstance(kept.record, Checkpoint) for kept in chunk.kept), "none holds another"
        start = len(history.world.ledger)
        assert answers(read(ledger, start=upto), kept) == answers(history.world.fold, kept)


# -- what matters, one by one ----------------------------------------------------------------------------------------


def test_nothing_is_kept_of_an_empty_ledger() -> None:
    (chunk,) = take_checkpoint([], first_n=N)
    assert chunk == Checkpoint(n=N, upto=0, highest_epoch=0)


def test_chunks_stay_small_and_number_themselves(world: World) -> None:
    """Design, section 4: records stay under 256 KB (chunks)."""
    for n in range(9):
        world.append(Hello(n=n, app="p"))
    for n in range(30):
        world.append(Abort(n=100 + n, epoch=1, code="x", reason="y"))
    chunks = take_checkpoint(enumerate(world.ledger), first_n=N, chunk=4)
    assert [(c.n, c.part, c.parts, c.upto) for c in chunks] == [(N + k, k, 3, 39) for k in range(3)]
    assert [len(c.kept) for c in chunks] == [4, 4, 1]
    assert [len(c.others) for c in chunks] == [16, 16, 7]


def test_chunks_have_room_for_all_names_and_all_numbers(world: World) -> None:
    """There may be more of them than of records that are kept: here of 20 names nothing else is."""
    world.append(Hello(n=1, app="p"))
    world.append(Pause(process=0, n=1, paused=True))
    for n in range(20):
        world.append(Trigger(process=0, n=2 + n, id=str(n)))
    chunks = take_checkpoint(enumerate(world.ledger), first_n=N, chunk=2)
    assert [len(c.names) for c in chunks] == [8, 8, 4]
    for n in range(40):
        world.append(Abort(n=100 + n, epoch=1, code="x", reason="y"))
    chunks = take_checkpoint(enumerate(world.ledger), first_n=N, chunk=2)
    assert [len(c.others) for c in chunks] == [8, 8, 8, 8, 8, 1]
    assert [len(c.seen) for c in chunks] == [1, 0, 0, 0, 0, 0]


def test_the_first_record_behind_a_checkpoint_is_read_too(
    world: World, pair: tuple[Process, Process]
) -> None:
    """Somebody says something between its taking and its writing."""
    ledger, _ = trimmed(world, start=len(world.ledger))
    ((upto, chunk),) = ledger
    state = read([(upto, Hello(n=1, app="p")), (upto + 1, chunk)], start=upto)
    assert upto in state.processes


def test_r11_what_overtook_others_is_still_a_repeat_behind_a_checkpoint(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, _ = pair
    overtaking = Assigned(process=p.id, n=100, generation=5, inputs=())
    world.append(overtaking)
    ledger, _ = trimmed(world, start=len(world.ledger))
    state = read(ledger, start=ledger[0][0])
    at = state.processes[p.id].assigned
    state.apply(state.end, overtaking)
    assert state.processes[p.id].assigned == at


def test_until_the_last_chunk_nothing_is_known(world: World, pair: tuple[Process, Process]) -> None:
    """Where older records have gone, everything waits for a `Checkpoint`; chunks may come in any order."""
    epoch = world.trigger()
    settle(*pair)
    ledger, _ = trimmed(world, start=len(world.ledger), chunk=3)
    state = LedgerState(start=ledger[0][0])
    turned = [(at, record) for (at, _), (_, record) in zip(ledger, reversed(ledger), strict=True)]
    for at, record in turned[:-1]:
        state.apply(at, record)
        assert not state.whole
        assert state.snapshots == {}
        assert state.end == at + 1
    state.apply(*turned[-1])
    assert state.whole
    assert state.snapshots[epoch].status is Status.CAPTURED


def test_a_checkpoint_that_stops_short_of_where_the_ledger_begins_is_of_no_use(
    world: World, pair: tuple[Process, Process]
) -> None:
    ledger, _ = trimmed(world, start=0, upto=4)
    state = LedgerState(start=6)
    for at, record in ledger[-1:]:
        state.apply(at + 5, record)
    assert not state.whole


def test_a_chunk_of_another_checkpoint_completes_nothing(world: World, pair: tuple[Process, Process]) -> None:
    """Somebody began to write one and was lost; another took over."""
    world.trigger()
    settle(*pair)
    begun = take_checkpoint(enumerate(world.ledger), first_n=N, chunk=3)
    other = take_checkpoint(enumerate(world.ledger), first_n=2 * N, chunk=3)
    state = LedgerState(start=len(world.ledger))
    at = len(world.ledger)
    for record in (*begun[:-1], other[-1], *other[:-1]):
        assert not state.whole
        state.apply(at, record)
        at += 1
    assert state.whole
    assert {view.process for view in state.living()} == {process.id for process in pair}


def test_who_reads_from_the_beginning_needs_no_checkpoint(
    world: World, pair: tuple[Process, Process]
) -> None:
    ledger, kept = trimmed(world, start=0)
    assert answers(read(ledger), kept) == answers(world.fold, kept) | {"end": len(ledger)}


def test_a_pause_that_is_over_refuses_nothing(world: World, pair: tuple[Process, Process]) -> None:
    """R15: `pause`/`resume`. Only the pause that holds is kept, and not one before a snapshot that was taken since."""
    world.append(Pause(n=1, paused=True))
    world.append(Pause(n=2, paused=False))
    epoch = world.trigger()
    settle(*pair)
    world.append(Pause(n=3, paused=True))
    ledger, _ = trimmed(world, start=len(world.ledger))
    state = read(ledger, start=ledger[0][0])
    assert state.snapshots[epoch].status is Status.CAPTURED
    assert state.paused
    state.apply(state.end, Pause(n=4, paused=False))
    assert not state.paused


def test_the_name_of_a_snapshot_that_is_kept_no_more_stays_taken(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R1: The first `Trigger` of an (id, attempt) is the snapshot; later ones are no epochs."""
    failed = world.trigger("x")
    world.append(Abort(n=1, epoch=failed, code="x", reason="y"))
    settle(*pair)
    ledger, _ = trimmed(world, start=len(world.ledger))
    state = read(ledger, start=ledger[0][0])
    assert state.snapshots == {}
    state.apply(state.end, Trigger(n=2, id="x"))
    assert not state.is_epoch(state.end)
    state.apply(state.end, Trigger(n=3, id="x", attempt=2))
    assert state.is_epoch(state.end)


def test_a_record_that_is_kept_no_more_is_still_a_repeat(world: World, pair: tuple[Process, Process]) -> None:
    """R11: Every ledger record carries (process, n); repeats are dropped."""
    p, _ = pair
    old = world.ledger[p.machine.inputs.assigned]
    p.feed(InputsRevoked())
    heir = Process(world, "p", (), assign=False)
    heir.give(A)
    resumed = Pause(n=77, paused=False)
    world.append(resumed)
    world.append(Pause(n=78, paused=True))
    ledger, _ = trimmed(world, start=len(world.ledger))
    state = read(ledger, start=ledger[0][0])
    state.apply(state.end, old)
    assert state.owner(("p", A)) == heir.id
    state.apply(state.end, resumed)
    assert state.paused


@pytest.mark.parametrize("soon", [False, True])
def test_an_app_that_was_retired_is_not_expected_after_it_either(
    world: World, pair: tuple[Process, Process], soon: bool
) -> None:
    """R10: an app can be retired. Retired once, it stays so for the snapshots that came between: also where somebody
    retires it again, and though somebody still sends to it."""
    p, q = pair
    q.send(A)
    p.feed(StopAsked())
    world.append(Retire(n=1, app="p"))
    epoch = world.trigger()
    if not soon:
        settle(q)
    world.append(Retire(n=2, app="p"))
    settle(q)
    ledger, kept = trimmed(world, start=len(world.ledger))
    assert kept == {epoch}
    assert answers(read(ledger, start=ledger[0][0]), kept) == answers(world.fold, kept) | {
        "end": ledger[-1][0] + 1
    }


def test_only_the_latest_captured_snapshots_are_kept(world: World, pair: tuple[Process, Process]) -> None:
    epochs = []
    for k in range(4):
        epochs.append(world.trigger(str(k)))
        settle(*pair)
    world.append(Verdict(n=1, epoch=epochs[0], verdict="VERIFIED"))
    ledger, _ = trimmed(world, start=len(world.ledger), snapshots=2)
    assert [*read(ledger, start=ledger[0][0]).snapshots] == epochs[2:]
    ledger, _ = trimmed(world, start=len(world.ledger), snapshots=0)
    state = read(ledger, start=ledger[0][0])
    assert not state.snapshots
    assert state.highest_epoch == epochs[-1]
    assert not state.is_epoch(epochs[-1]), (
        "nobody who starts here can meet it as news: its epoch is that high already"
    )


def test_of_those_that_left_only_the_latest_are_kept_and_whoever_has_a_part_in_a_snapshot(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snapkafka.protocol.ledger_checkpoint.KEEP_LEFT", 2)
    p, q = Process(world, "p", (A,)), Process(world, "q", (B,))
    settle(p, q)
    epoch = world.trigger()
    settle(p, q)
    p.feed(StopAsked())
    gone = [Process(world, "p").id for _ in range(5)]
    for n, process in enumerate(gone):
        world.append(Dead(n=n, dead=process))
    ledger, _ = trimmed(world, start=len(world.ledger))
    state = read(ledger, start=ledger[0][0])
    assert {*state.processes} == {p.id, q.id, *gone[-2:]}
    assert forgetful(state.captured(epoch)) == forgetful(world.fold.captured(epoch))


def test_r8_who_starts_from_a_checkpoint_does_not_know_who_left_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it takes no log ends from a trigger that were asked for before the checkpoint."""
    monkeypatch.setattr("snapkafka.protocol.ledger_checkpoint.KEEP_LEFT", 0)
    p, gone, other = Process(world, "p", (A,)), Process(world, "q"), Process(world, "q")
    world.append(Bye(process=gone.id, n=99))
    settle(p, other)
    ledger, _ = trimmed(world, start=len(world.ledger))
    state = read(ledger, start=ledger[0][0])
    assert gone.id not in state.processes
    assert left_since(state, len(world.ledger) - 1)
    assert not left_since(state, len(world.ledger))


def test_who_has_an_input_is_kept_however_long_ago_it_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snapkafka.protocol.ledger_checkpoint.KEEP_LEFT", 0)
    p, other = Process(world, "p", (A,)), Process(world, "p")
    p.feed(StopAsked())
    ledger, _ = trimmed(world, start=len(world.ledger))
    state = read(ledger, start=ledger[0][0])
    assert {*state.processes} == {p.id, other.id}
    assert state.owner(("p", A)) == p.id


def test_who_cut_an_input_where_it_started_is_kept_however_long_ago_it_left(
    world: World, pair: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snapkafka.protocol.ledger_checkpoint.KEEP_LEFT", 0)
    p, q = pair
    epoch = world.trigger()
    p.feed(InputsRevoked())
    heir = Process(world, "p", (), assign=False)
    heir.give(A)
    settle(p, q, heir)
    p.give(A, generation=2)
    heir.feed(StopAsked())
    ledger, _ = trimmed(world, start=len(world.ledger))
    state = read(ledger, start=ledger[0][0])
    assert {*state.processes} == {p.id, q.id, heir.id}
    assert forgetful(state.captured(epoch)) == forgetful(world.fold.captured(epoch))


def test_what_was_contaminated_stays_so(
    world: World, pair: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R12: who was taken for dead and comes back with work under way leaves doubts on what was captured meanwhile."""
    p, q = pair
    p.start(A, 0)
    world.append(Dead(n=1, dead=p.id))
    void = p.id
    heir = Process(world, "p", (A,))
    epoch = world.trigger()
    settle(q, heir)
    assert world.snapshot(epoch).status is Status.CAPTURED
    p.catch_up()
    p.join(was=void)
    assert world.snapshot(epoch).contaminated
    ledger, kept = trimmed(world, start=len(world.ledger))
    assert answers(read(ledger, start=ledger[0][0]), kept)["doubts"] == answers(world.fold, kept)["doubts"]
    p.feed(StopAsked())
    heir.give(A, generation=2)
    monkeypatch.setattr("snapkafka.protocol.ledger_checkpoint.KEEP_LEFT", 0)
    ledger, kept = trimmed(world, start=len(world.ledger))
    state = read(ledger, start=ledger[0][0])
    assert state.snapshots[epoch].contaminated, "however long ago it left"
    assert {*state.processes} == {void, p.id, q.id, heir.id}


def test_names_are_taken_for_so_many_snapshots_whoever_reads(world: World) -> None:
    """The same rule for a service, which forgets, and for a tool, which remembers every snapshot."""
    folds = [LedgerState(), LedgerState(history=False)]
    for fold in folds:
        for n in range(KEEP_NUMBERS + 1):
            fold.apply(fold.end, Trigger(n=n, id=str(n)))
    for name, again in (("1", False), ("0", True)):
        for fold in folds:
            fold.apply(fold.end, Trigger(n=10**6 + int(name), id=name))
            assert fold.is_epoch(fold.end) is again


def test_when_the_broker_appended_what_is_kept_is_reported(
    world: World, pair: tuple[Process, Process]
) -> None:
    ledger = list(enumerate(world.ledger))
    (chunk,) = take_checkpoint(ledger, first_n=N, times_ms={at: 1_000 + at for at, _ in ledger})
    assert [kept.at_ms for kept in chunk.kept] == [1_000 + kept.offset for kept in chunk.kept] != []
    (chunk,) = take_checkpoint(ledger, first_n=N)
    assert {kept.at_ms for kept in chunk.kept} == {0}


@pytest.mark.parametrize(("kept_at_most", "chunk"), [(50, 50), (7, 3), (1, 1), (0, 1)])
def test_chunks_get_smaller_until_they_fit(world: World, kept_at_most: int, chunk: int) -> None:
    """From 50 records to 12, to 3, to 1; what does not fit even so is for the ledger to refuse."""
    for n in range(90):
        world.append(Hello(n=n, app="p"))
    chunks = take_checkpoint(
        enumerate(world.ledger), first_n=N, fits=lambda chunk: len(chunk.kept) <= kept_at_most
    )
    assert max(len(one.kept) for one in chunks) == chunk
    assert [one.part for one in chunks] == list(range(chunks[0].parts))
    assert [kept.offset for one in chunks for kept in one.kept] == list(range(90))


def test_there_is_none_of_a_ledger_whose_beginning_is_missing(
    world: World, pair: tuple[Process, Process]
) -> None:
    ledger, _ = trimmed(world, start=2)
    assert take_checkpoint(ledger[:-1], first_n=2 * N, start=2) == []
    assert take_checkpoint(ledger, first_n=2 * N, start=2) != []
