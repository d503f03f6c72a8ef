"""The fold of the ledger by itself (R11): what is dropped, what is remembered, what is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.offsets import InputTopic, Position, Retention, StoppedApp, TopicPartition
from snapkafka.protocol.records import (
    LEDGER_CUT_SHORT,
    Abort,
    Assigned,
    Bye,
    Dead,
    Hello,
    LedgerRecord,
    Pause,
    Report,
    Restore,
    Retire,
    TailLost,
    Trigger,
    Verdict,
)
from snapkafka.protocol.snapshots import Status
from snapkafka.sim import played
from snapkafka.wire import decode, encode

from .world import A, B, Process, World, fold_of

POSITION = Position(agent="*", topic="a", partition=0, offset=0)


def test_a_snapshot_has_what_the_changelogs_promised_before_it() -> None:
    """As the last process saw it that joined before the trigger; what somebody promises later may come too late."""

    def hello(n: int, lag_ms: int) -> Hello:
        kept = Retention(topic="t", uncompacted_ms=lag_ms, tombstones_ms=1, retained_ms=-1)
        return Hello(n=n, app="p", retention=(kept,))

    report = Report(process=1, n=1, epoch=4, previous=0, heard="ledger", assigned=-1, positions=())
    fold = fold_of(
        hello(1, 10), hello(2, 20), Bye(process=0, n=1), Trigger(n=3, id="s"), hello(4, 30), report,
    )  # fmt: skip
    assert [kept.uncompacted_ms for kept in fold.captured(4).retention] == [20]


HELLO, ASSIGNED = Hello(n=1, app="p"), Assigned(process=0, n=1, generation=1, inputs=(A,))
CUT = Report(
    process=0, n=2, epoch=3, previous=0, heard="ledger", assigned=1,
    positions=(replace(POSITION, agent="agent"),),
)  # fmt: skip
COPIES = {
    "Hello": (HELLO,),
    "Assigned": (HELLO, ASSIGNED, replace(ASSIGNED, n=2)),
    "Trigger": (HELLO, ASSIGNED, Trigger(n=3, id="s")),
    "Report": (HELLO, ASSIGNED, Trigger(n=3, id="s"), CUT),
    "Abort": (HELLO, ASSIGNED, Trigger(n=3, id="s"), Abort(n=4, epoch=3, code="x", reason="y")),
    "Verdict": (HELLO, ASSIGNED, Trigger(n=3, id="s"), CUT, Verdict(n=4, epoch=3, verdict="VERIFIED")),
    "Dead": (HELLO, Dead(n=4, dead=0)),
    "Bye": (HELLO, Bye(process=0, n=4)),
    "Bye, goes on": (HELLO, ASSIGNED, Trigger(n=3, id="s"), CUT, Bye(process=0, n=4, goes_on=True, since=9)),
    "TailLost": (HELLO, TailLost(n=4, since=9)),
    "Retire": (HELLO, Bye(process=0, n=4), Retire(n=5, app="p")),
}


@pytest.mark.parametrize(("since", "contaminated"), [(3, True), (4, False)])
def test_r11_a_ledger_that_has_lost_its_tail_is_refused(since: int, contaminated: bool) -> None:
    """What stands below the loss is as it was; nothing is captured any more, and an open restore only goes on."""
    restore = Restore(n=5, plan="one", stage="begun", snapshot="s", apps=("q",))
    fold = fold_of(HELLO, ASSIGNED, Trigger(n=3, id="s"), CUT, Trigger(n=4, id="open"), restore)
    assert fold.loss == ""
    for record in (
        TailLost(n=6, since=since),
        TailLost(n=7, since=9),
        Trigger(n=8, id="later"),
        replace(restore, n=9, stage="aborted"),
        replace(restore, n=10, plan="two", replaces="one"),
    ):
        fold.apply(fold.end, record)
    before, running, later = fold.snapshots.values()
    assert (before.status, before.contaminated != "") == (Status.CAPTURED, contaminated)
    assert [view.failure.code for view in (running, later) if view.failure] == [LEDGER_CUT_SHORT] * 2
    assert f"from offset {since} on" in fold.loss
    assert not fold.is_epoch(later.epoch)
    assert fold.restores.open is fold.restores.views["one"]


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.parametrize("later", [False, True])
def test_r11_a_record_that_comes_twice_changes_nothing_the_second_time(kind: str, later: bool) -> None:
    """A retry by another producer. `later`: others have joined and taken a snapshot meanwhile."""
    *before, record = COPIES[kind]
    after: list[object] = [Hello(n=98, app="q"), Trigger(n=97, id="t", apps=("q",))] if later else []
    once, twice = fold_of(*before, record, *after), fold_of(*before, record, *after, record)

    def known(fold: LedgerState) -> list[object]:
        return [fold.processes, fold.snapshots, fold.readers, fold.retired, fold.left_at, fold.loss]

    assert known(once) == known(twice)
    assert kind != "Assigned" or known(fold_of(*before, record, *after, before[-1])) == known(once)


def test_what_external_and_dead_processes_state_of_themselves_moves_nothing() -> None:
    report = Report(process=0, n=5, epoch=3, previous=0, heard="ledger", assigned=-1, positions=())
    fold = fold_of(
        Hello(n=1, app="p", inputs=(InputTopic(topic="a", partitions=1),)),
        Bye(process=0, n=1),
        Trigger(n=2, id="s", stopped=(StoppedApp(app="p", positions=(POSITION,)),)),
        Assigned(process=0, n=4, generation=1, inputs=(A,)),
        Assigned(process=77, n=1, generation=1, inputs=(A,)),
        report,
        Dead(n=3, dead=0),
        Dead(n=4, dead=77),
        Abort(n=5, epoch=99, code="x", reason="no such snapshot"),
    )
    assert fold.readers == {}
    assert fold.snapshots[3].status is Status.INITIATED
    assert fold.processes[0].left == 1
    assert not fold.processes[0].dead, "it had said Bye"


def test_r9_a_process_moves_on_by_its_own_word_whatever_the_generation_is() -> None:
    """Its group may have begun anew: late is what others say of an older one."""
    fold = fold_of(HELLO, replace(ASSIGNED, generation=3), replace(ASSIGNED, n=2))
    assert fold.readers["p", A][-1].offset == 2


def test_r9_a_cut_of_an_earlier_assignment_of_the_same_inputs_fails_the_snapshot() -> None:
    fold = fold_of(HELLO, ASSIGNED, replace(ASSIGNED, n=2), Trigger(n=3, id="s"), replace(CUT, epoch=4))
    assert (failure := fold.snapshots[4].failure) is not None and failure.code == "input-moved"


def test_r15_a_pause_fails_what_runs_and_refuses_what_comes(world: World, p: Process) -> None:
    running = world.trigger("running")
    world.append(Pause(n=1, paused=True))
    refused = world.trigger("refused")
    assert [world.failure(epoch).code for epoch in (running, refused)] == ["paused", "paused"]
    assert world.snapshot(running).failed_at == running
    assert world.snapshot(refused).failed_at == refused - 1, "by its own Trigger"
    assert world.fold.highest_epoch == running
    assert not world.fold.is_epoch(refused)


def test_a_fold_without_history_still_expects_a_stopped_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """R11: expected inputs: stopped apps not retired. The same for every reader, however much it forgets."""
    monkeypatch.setattr("snapkafka.protocol.ledger_fold.KEEP_LEFT", 2)
    stopped = Hello(n=1, app="p", inputs=(InputTopic(topic="a", partitions=1),))
    crashing = [
        record for k in range(5) for record in (Hello(n=10 + k, app="q"), Dead(n=100 + k, dead=2 + 2 * k))
    ]
    trigger = Trigger(n=3, id="s", stopped=(StoppedApp(app="p", positions=(POSITION,)),))
    ledger = (stopped, Bye(process=0, n=1), *crashing, Hello(n=2, app="q"), trigger)
    folds = [fold_of(*ledger, history=history) for history in (True, False)]
    for fold in folds:
        (epoch,) = fold.open
        assert fold.open[epoch].expected == {("p", A)}
        assert [view.hello for view in fold.stopped()] == [stopped]
    assert {*folds[1].processes} == {0, 8, 10, 12}, "and of the others the latest"


TO_PAY = TopicPartition("to-pay", 0)


def payments(n: int, **options: object) -> Hello:
    return Hello(n=n, app="payments", missing=("to-pay",), **options)  # type: ignore[arg-type]


READS_IT = (InputTopic(topic="to-pay", partitions=1),)
GIVEN = Assigned(process=0, n=1, generation=1, inputs=(TO_PAY,))
#: What came later, and whether no worker has the input then.
LATER: dict[str, tuple[list[object], bool]] = {
    "it was missing": ([], True),
    "a worker that came later has it": ([Hello(n=2, app="payments", inputs=READS_IT)], False),
    "another app has it": ([Hello(n=2, app="audit", inputs=READS_IT)], True),
    "it was assigned after all": ([GIVEN], False),
    "it was assigned, and moved on to nobody": ([GIVEN, replace(GIVEN, n=2, generation=2, inputs=())], True),
    "the app is stopped": ([Bye(process=0, n=1)], True),
    "restarted, the app has it": ([Bye(process=0, n=1), Hello(n=2, app="payments", inputs=READS_IT)], False),
    "the app is retired": ([Bye(process=0, n=1), Retire(n=2, app="payments")], False),
    "a second worker lacks it, too": ([payments(2)], True),
}


@pytest.mark.parametrize("name", LATER)
def test_r11_an_input_that_no_worker_has_is_known(name: str) -> None:
    """A topic that did not exist when the workers of an app started is consumed by none of them."""
    later, unread = LATER[name]
    fold = fold_of(payments(1), *later)
    assert [(item.app, item.topic) for item in fold.unread()] == [("payments", "to-pay")] * unread
    assert fold.unread(["shop"]) == ()
    for item in fold.unread():
        assert str(item) == "topic to-pay did not exist when payments started: create it and restart payments"


@pytest.mark.parametrize("history", [True, False])
def test_r11_a_snapshot_has_the_inputs_that_no_worker_had_when_it_was_asked_for(history: bool) -> None:
    """What becomes of them later is another snapshot's."""
    report = Report(process=0, n=1, epoch=2, previous=0, heard="ledger", assigned=-1, positions=())
    fold = fold_of(payments(1), Trigger(n=2, id="s"), report, history=history)
    assert [str(item.topic) for item in fold.snapshots[2].unread] == ["to-pay"]
    for record in (Hello(n=9, app="payments", inputs=READS_IT), Trigger(n=3, id="t")):
        fold.apply(fold.end, record)
    assert fold.snapshots[2].unread
    assert fold.snapshots[fold.end].unread == ()


def test_r11_an_input_that_was_taken_up_later_is_expected_like_any_other() -> None:
    """Faust sees the topic when it looks again, whatever the `Hello` said of it; its reader may be lost by then."""
    taken_up = Assigned(process=1, n=1, generation=1, inputs=(TO_PAY,), changelogs=(B,))
    fold = fold_of(payments(1), payments(2), taken_up, Dead(n=3, dead=1), Trigger(n=4, id="s"))
    (snapshot,) = fold.snapshots.values()
    assert snapshot.expected == {("payments", TO_PAY)}
    assert snapshot.apps == {"payments": frozenset({"to-pay"})}


# -- every reader of a ledger folds it to the same state, whatever of it he reads -----------------------------------

#: What a participant goes by, of each snapshot and of all.
OF_EACH = ["status", "failure", "failed_at", "captured_at", "contaminated", "required", "expected", "earlier"]
OF_ALL = ["end", "highest_epoch", "processes", "readers", "paused"]


def gone_by(state: LedgerState) -> tuple[object, ...]:
    views = {epoch: [getattr(view, it) for it in OF_EACH] for epoch, view in state.snapshots.items()}
    return views, state.taken(), [getattr(state, it) for it in OF_ALL]


def unreadable(record: LedgerRecord) -> LedgerRecord:
    """The record as it is read; a report, with damaged ends."""
    return decode(encode(record)[:-1] + b"\xff") if isinstance(record, Report) else record


@pytest.mark.parametrize("history", [True, False])
@pytest.mark.parametrize("start", range(0, 60, 10))
def test_r11_who_reads_all_and_who_reads_no_ends_fold_alike(start: int, history: bool) -> None:
    """A worker leaves the ends of others unread; here they could not even be read."""
    reports = 0
    for seed in range(start, start + 10):
        records = played(seed)[0].broker.ledger
        reports += sum(isinstance(record, Report) for record in records)
        whole = gone_by(fold_of(*records, history=history))
        assert gone_by(fold_of(*map(unreadable, records), history=history)) == whole
    assert reports > 20
