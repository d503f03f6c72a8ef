"""What exactly V1, V2, V4 and V5 find in a log that a person can hold in the head: each rule broken, and nearly broken.

Epoch 100. Process 1 lives, 2 has left, 200 was born later. Process 1 sent seq 0 to 4 to `in`[0], offsets 0 to 4, and
its marker at 5; the receiver stood at 2. At offset 6 it sends in red. Every case says what it changes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from snapkafka.checks import EXTERNAL, CutView, LogBounds, LogRecord, find, listed
from snapkafka.protocol.captured_snapshot import BaseCut, Captured, ProcessCut, Recorded, SenderEnd
from snapkafka.protocol.offsets import Position, SeqRange, TopicPartition, TornEvent
from tests.worlds.list_checks import said
from tests.worlds.little_log import (
    CAPTURED,
    EPOCH,
    INPUT,
    LOG,
    STATE,
    TABLE,
    TP,
    WHITE,
    seqs,
    shared_changelog,
    with_input,
    with_sender,
    without,
)

BOUNDS = {TP: LogBounds(start=0, end=7, topic_id="t1"), STATE: LogBounds(start=0, end=3, topic_id="t2")}
VIEW = CutView(CAPTURED)


class Case(NamedTuple):
    """A snapshot, a log, and what is found: kind, topic and offset, process and seq, app, `a` and `b`."""

    view: CutView
    log: Iterable[LogRecord]
    said: str = ""


def cut(of: Captured = CAPTURED, /, **changes: object) -> CutView:
    return CutView(replace(of, **changes), BOUNDS)  # type: ignore[arg-type]


def sender(**changes: object) -> CutView:
    return CutView(with_sender(**changes))


def writer(**changes: object) -> CutView:
    """What process 1 sent to the changelog is another."""
    return cut(senders=(CAPTURED.senders[0], replace(CAPTURED.senders[1], **changes)))  # type: ignore[arg-type]


def failed(of: Callable[..., CutView], first: int, last: int | None = None, **changes: object) -> CutView:
    """Some sends were not acknowledged."""
    return of(unacknowledged=seqs(first, last), **changes)


def reader(**changes: object) -> CutView:
    return CutView(with_input(**changes))


def sent(offset: int, seq: int, process: int = 1, epoch: int = 0, *, marker: bool = False) -> LogRecord:
    return LogRecord("in", 0, offset, process, epoch, seq, marker)


def later(log: Iterable[LogRecord], by: int) -> list[LogRecord]:
    return [record._replace(seq=record.seq + by) for record in log]


# -- V1: what is missing, comes late, or comes again ------------------------------------------------------------------

HOLED, SHORT = [TABLE[0], TABLE[2]], [TABLE[0], TABLE[2]._replace(seq=3)]
ALSO_INPUT = replace(INPUT, topic="table", topic_id="t2", position=0, noted=0, low=0, log_end=3)
SWAPPED = [*WHITE[:2], WHITE[2]._replace(seq=3), WHITE[3]._replace(seq=2), WHITE[4]]
REPEATED = [*WHITE[:3], sent(4, 2), sent(5, 4)]
UNDONE = SeqRange(first=5, last=6, refused=True, undone=True)
NONE_SENT = {"unacknowledged": seqs(0, 9), "white_end": 0, "last_seq": -1}
AGED = [replace(it, last_seq=it.last_seq + 10, unacknowledged=seqs(3)) for it in CAPTURED.senders]
FAR = later(WHITE, 99)
LEFT = [sent(4, 3, 2), sent(5, 4, 2)]
ELSEWHERE = (replace(INPUT, log_end=8), replace(INPUT, app="other", partition=1))

V1: dict[str, Case] = {
    "white end": Case(sender(white_end=4, last_seq=3), WHITE, "white-after-end in@4 1#4 a4"),
    "gap": Case(sender(last_seq=6), [*WHITE[:3], *later(WHITE[3:], 2)], "gap in@3 1#5 a3 b4"),
    "gap, offsets": Case(VIEW, without(2, 3), "gap-explained in@4 1#4 a2 b3"),
    "gap, failed": Case(failed(sender, 2, 3), without(2, 3), "gap-failed in@4 1#4 a2 b3"),
    "gap, half of it failed": Case(failed(sender, 2), without(2, 3), "gap-failed in@4 1#4 a2 b3"),
    "gap before a repeat": Case(
        sender(white_end=6), REPEATED, "duplicate in@4 1#2 a2; gap-explained in@5 1#4 a3 b3"
    ),
    "compacted": Case(VIEW, HOLED),
    "compacted, and an input": Case(
        cut(inputs=(INPUT, ALSO_INPUT)), HOLED, "gap-explained table@2 1#2 a1 b1"
    ),
    "compacted, or failed": Case(failed(writer, 1), HOLED, "gap-failed table@2 1#2 a1 b1"),
    "compacted, and one failed": Case(failed(writer, 1, last_seq=3), SHORT, "gap-failed table@2 1#3 a1 b2"),
    "one failed, and one gone": Case(
        failed(writer, 1, last_seq=3), [*SHORT, LogRecord("table", 0, 1)], "gap table@2 1#3 a1 b2"
    ),
    "lost last": Case(failed(sender, 5, 7), LOG, "send-failed in@5 1#7 a5 b7"),
    "lost last, of a table": Case(failed(writer, 3), LOG, "send-failed table@3 1#3 a3 b3"),
    "lost first": Case(failed(sender, 0, 1, last_seq=6), later(LOG, 2), "send-failed in@5 1#1 a0 b1"),
    "lost first of a table": Case(
        failed(writer, 0, 1, last_seq=4), later(LOG, 2), "send-failed table@3 1#1 a0 b1"
    ),
    "lost all": Case(sender(**NONE_SENT), [], "send-failed in@0 1#9 a0 b9"),
    "lost all of a table": Case(writer(**NONE_SENT), [], "send-failed table@0 1#9 a0 b9"),
    "undone with its transaction": Case(sender(unacknowledged=(UNDONE,)), LOG),
    "undone, and one lost": Case(
        sender(unacknowledged=(UNDONE, *seqs(7))), LOG, "send-failed in@5 1#7 a7 b7"
    ),
    "lost below, of both": Case(cut(senders=AGED), later(LOG, 10), "send-failed table@3 1#3 a3 b3"),
    "lost below, and nothing is read": Case(failed(sender, 3), []),
    "disorder": Case(VIEW, SWAPPED, "disorder in@3 1#2 a3"),
    "landed after later ones": Case(failed(sender, 2), SWAPPED, "landed in@3 1#2"),
    "copies from before an earlier cut": Case(
        sender(last_seq=104, earlier_seq=50, earlier_end=0),
        [FAR[0]._replace(seq=9), FAR[1]._replace(seq=7), *FAR[2:]],
        "copy in@0 1#9; copy in@1 1#7",
    ),
    "lower than the first": Case(
        sender(last_seq=104), [*FAR[:2], sent(2, 8), *FAR[3:]], "copy in@2 1#8 a100; gap in@3 1#102 a101 b101"
    ),
    "lower than the first, twice": Case(
        sender(last_seq=104),
        [*FAR[:2], sent(2, 8), sent(3, 8), FAR[4]],
        "copy in@2 1#8 a100; duplicate in@3 1#8 a100; gap in@4 1#103 a101 b102",
    ),
    "left, past the log end": Case(
        VIEW, [*(sent(n, n, 2) for n in (5, 6)), sent(7, 7, 2, 50, marker=True)], "left-late in@6 2#6 a6"
    ),
    "left, copies": Case(VIEW, [*LEFT, sent(8, 4, 2), sent(9, 1, 2)], "copy in@8 2#4; copy in@9 2#1"),
    "left, a new one": Case(VIEW, [*LEFT, sent(8, 5, 2)], "left-late in@8 2#5 a6"),
    "left, alone": Case(VIEW, [sent(8, 4, 2)], "left-late in@8 2#4 a6"),
    "left, disorder": Case(
        VIEW,
        [*LEFT, sent(0, 1, 2), sent(1, 5, 2)],
        "gap-left in@1 2#5 a2 b4; disorder-left in@4 2#3 a5; disorder-left in@5 2#4 a5",
    ),
    "left, before the log end": Case(reader(log_end=8), [*LOG, sent(7, 0, 2)]),
    "left, in a partition that is new to a reader": Case(
        cut(with_input(), inputs=ELSEWHERE), [*LOG, sent(7, 0, 2)], "left-late in@7 2#0 a0"
    ),
}

#: A copy has a seq that its sender has sent.
V1_V2: dict[str, Case] = {
    "a copy": Case(reader(position=9, noted=9), [*WHITE, sent(7, 4)], "copy in@7 1#4"),
    "a copy of the first": Case(reader(position=9, noted=9), [*WHITE, sent(7, 0)], "copy in@7 1#0"),
    "no copy": Case(
        reader(position=9, noted=9),
        [*WHITE, sent(7, 5)],
        "white-after-end in@7 1#5 a5; red-late in@7 1#5 app a5 b100",
    ),
}

# -- V2: what was received, and is red --------------------------------------------------------------------------------

V2: dict[str, Case] = {
    "header": Case(VIEW, [sent(1, 9, 1, EPOCH)], "red-header in@1 1#9 app a100 b100"),
    "later header": Case(VIEW, [sent(1, 9, 1, EPOCH + 7)], "red-header in@1 1#9 app a107 b100"),
    "birth": Case(VIEW, [sent(1, 9, EPOCH, 3)], "red-birth in@1 100#9 app a3 b100"),
    "born before": Case(VIEW, [sent(1, 9, EPOCH - 1)]),
    "external": Case(VIEW, [sent(1, 9, EXTERNAL, EPOCH)]),
    "marker": Case(VIEW, [sent(1, 9, 1, EPOCH, marker=True)]),
    "not received": Case(VIEW, [sent(2, 9, 1, EPOCH)]),
    "past both ends": Case(
        reader(position=9, noted=9, log_end=6),
        [sent(offset, 9, process) for process in (1, 2) for offset in (4, 5, 6)],
        "red-late in@5 1#9 app a5 b100; red-late in@6 1#9 app a5 b100; red-late in@6 2#9 app a6 b100",
    ),
}

# -- V4: what was in flight, or is part of a state, and lacks its header ----------------------------------------------


def stripped(*offsets: int, topic: str = "in") -> list[LogRecord]:
    return [LogRecord(*it[:3]) if it.topic == topic and it.offset in offsets else it for it in LOG]


def shared(*missing: int) -> tuple[CutView, list[LogRecord]]:
    """A changelog that is an input, too."""
    log, captured, bounds = shared_changelog(*missing)
    return CutView(captured, bounds), log


def taken_by_another() -> Case:
    """The reader stands at 6. A record of process 1 at 7 was acknowledged and lost, and another one has its offset; one
    at 2 was compacted."""
    _, captured, bounds = shared_changelog()
    recorded = Recorded(app="audit", sender=1, topic="table", partition=0, start=6, end=10)
    captured = replace(
        captured,
        inputs=(replace(captured.inputs[0], position=6, noted=6),),
        senders=(replace(captured.senders[0], last_seq=3),),
        recorded=(recorded,),
    )
    log = [LogRecord("table", 0, at, 1, 0, seq) for at, seq in ((0, 0), (8, 2), (9, 3))]
    log += [LogRecord("table", 0, at) for at in (1, 3, 4, 5, 6, 7)]
    return Case(CutView(captured, bounds), log, "gap-explained table@8 1#2 a1 b1")


RECEIVED = with_input(position=7, noted=7)
NO_WHITE = replace(RECEIVED.senders[0], white_end=0, last_seq=-1, landed_end=5)
V1_V2_V4: dict[str, Case] = {
    "compacted below what a reader needs": Case(*shared(1, 2)),
    "compacted, shown by a record behind": Case(*shared(2, 3)),
    "compacted, or lost in flight": Case(*shared(3, 5), "gap-explained table@6 1#4 a3 b3"),
    "lost, and its offset is another's": taken_by_another(),
    "another topic by now": Case(
        CutView(CAPTURED, BOUNDS | {TP: LogBounds(start=0, end=7, topic_id="other")}), without(*range(7))
    ),
    "unstamped": Case(cut(), stripped(4), "unstamped in@4 1#4 app"),
    "unstamped, all": Case(cut(), stripped(*range(7)), "unstamped in@4 1#4 app"),
    "unstamped, a changelog": Case(
        cut(), stripped(*range(3), topic="table"), "unstamped-received table@2 1#2 app"
    ),
    "unstamped, none of them white": Case(
        cut(RECEIVED, senders=(NO_WHITE, CAPTURED.senders[1])), stripped(*range(7)), ""
    ),
    "unstamped, and received": Case(cut(RECEIVED), stripped(*range(7)), "unstamped-received in@4 1#4 app"),
    "unstamped, and gone": Case(cut(RECEIVED), [it for it in stripped(*range(7)) if it[:3] != ("in", 0, 4)]),
    "unstamped, and below the log": Case(
        CutView(RECEIVED, BOUNDS | {TP: replace(BOUNDS[TP], start=5)}), stripped(*range(7)), ""
    ),
}


def recorded(start: int, end: int, app: str = "app", sender: int = 1, **changes: object) -> CutView:
    item = Recorded(app=app, sender=sender, topic="in", partition=0, start=start, end=end)
    return cut(recorded=(item,), **changes)


AHEAD = replace(INPUT, app="ahead", position=5, noted=5)
V4: dict[str, Case] = {
    "two apps, each with its channel": Case(
        cut(inputs=(AHEAD, INPUT), recorded=()), without(4), "last-missing in@4 1#4 app"
    ),
    "recorded": Case(recorded(2, 5), LOG),
    "recorded, red and a marker": Case(recorded(2, 7), LOG),
    "recorded too late": Case(recorded(3, 5), LOG, "recorded-differs in@2 1#2 app a3 b5"),
    "recorded too early": Case(recorded(1, 5), LOG, "recorded-differs in@1 1#1 app a1 b5"),
    "recorded too short": Case(recorded(2, 4), LOG, "recorded-differs in@4 1#4 app a2 b4"),
    "recorded, and one past the white end": Case(VIEW, [*WHITE, sent(5, 5)]),
    "recorded before an event was torn": Case(recorded(2, 5, inputs=(replace(INPUT, position=1),)), LOG),
    "recorded, and a copy": Case(recorded(2, 7), [*WHITE, sent(6, 3)]),
    "recorded, and one more": Case(
        recorded(2, 7), [*WHITE, sent(6, 5)], "recorded-differs in@6 1#5 app a2 b7"
    ),
    "recorded by another app": Case(recorded(3, 5, "else"), LOG),
    "recorded of one that left": Case(recorded(2, 5, sender=2), [*LOG[:2], sent(2, 0, 2), *LOG[3:]]),
}

# -- V5: causes on the other side -------------------------------------------------------------------------------------


def effect(at: int, process: int = 1, offset: int = 0, topic: str = "in", **more: object) -> LogRecord:
    record = LogRecord("table", 0, offset, process, 0, offset, cause=(TopicPartition(topic, 0), at))
    return record._replace(**more)  # type: ignore[arg-type]


def agent(name: str, offset: int, **more: Any) -> Position:
    return Position(agent=name, topic="in", partition=0, offset=offset, **more)


AGENTS = (agent("fast", 5), agent("slow", 2))
ACCUSES_NOBODY = {
    "no cause": effect(2, cause=None),
    "of nobody": effect(2, process=7),
    "red": effect(2, epoch=EPOCH),
    "a marker": effect(2, marker=True),
    "of no input of its app": effect(2, topic="other"),
    "past its white end": effect(2, offset=3),
}
NEXT = "effect-of-later table@1 1#1 app a2 b2"
#: Of what the receiver has started.
RED: Mapping[str, tuple[dict[str, object], LogRecord]] = {
    "it may run again": ({"steady": False}, effect(1, epoch=EPOCH)),
    "read by another": ({"receiver": 9}, effect(1, epoch=EPOCH)),
    "a marker": ({}, effect(1, epoch=EPOCH, marker=True)),
    "born later": ({}, effect(1, 200, epoch=EPOCH)),
    "after it was closed": ({}, effect(1, offset=3, epoch=EPOCH)),
    "white": ({}, effect(1)),
}
#: Process 1 was taken for dead, and another reads its input.
TAKEN_OVER = cut(inputs=(replace(INPUT, receiver=99, earlier=(1,)),))
CAUSES = {
    "white": (LOG[2], "replayed"),
    "red": (LOG[2]._replace(epoch=EPOCH), "effect-of-red"),
    "born later": (LOG[2]._replace(process=EPOCH + 1), "effect-of-red"),
    "external": (LOG[2]._replace(process=EXTERNAL), "replayed"),
    "forged, of one that left": (LOG[2]._replace(process=2, epoch=EPOCH), "replayed"),
}
TORN = TornEvent(agent="a", topic="in", partition=0, offset=2, was=0, met=EPOCH)
#: App `app` was restored before the snapshot: process 60 lives, 1 and 2 are of before.
RESTORED = replace(
    CAPTURED,
    processes=(
        ProcessCut(process=1, app="app", left=True),
        ProcessCut(process=60, app="app"),
        ProcessCut(process=2, app="other", left=True),
    ),
    inputs=(replace(INPUT, receiver=60, earlier=(1,)),),
    senders=(SenderEnd(process=60, topic="table", partition=0, white_end=3, last_seq=2),),
)


def restored(app: str) -> CutView:
    base = BaseCut(topic="in", partition=0, end=3, author=50, plan="r", apps=(app,))
    return cut(RESTORED, bases=(base,))


V5: dict[str, Case] = {
    **{
        f"accuses nobody: {why}": Case(VIEW, [it, effect(2, offset=1)], NEXT)
        for why, it in ACCUSES_NOBODY.items()
    },
    "nobody was replaying the first offset": Case(
        reader(position=0, noted=0), [effect(0)], "effect-of-later table@0 1#0 app a0 b0"
    ),
    "it may be of the agent that has started it": Case(
        reader(agents=AGENTS), [effect(3), effect(6, offset=1)], "effect-of-later table@1 1#1 app a6 b2"
    ),
    "not announced": Case(reader(agents=AGENTS, receiver=99), [effect(3)], "replayed table@0 1#0 app a3 b2"),
    "red": Case(reader(steady=True), [effect(1, epoch=EPOCH)], "effect-missing table@0 1#0 app a1 b2"),
    **{f"no red effect: {why}": Case(reader(**{"steady": True} | of), [it]) for why, (of, it) in RED.items()},
    "red, and some agent had yet to start it": Case(
        reader(agents=AGENTS, steady=True),
        [effect(at, epoch=EPOCH, offset=nth) for nth, at in enumerate((1, 2, 4))],
        "effect-missing table@0 1#0 app a1 b2",
    ),
    **{
        f"cause: {of}": Case(TAKEN_OVER, [it, effect(2, offset=2)], f"{kind} table@2 1#2 app a2 b2")
        for of, (it, kind) in CAUSES.items()
    },
    "replayed, by one that is forgotten": Case(
        cut(inputs=(replace(INPUT, receiver=99, earlier=(-1,)),)),
        [effect(2)],
        "replayed table@0 1#0 app a2 b2",
    ),
    "whoever read it later replays nothing": Case(
        cut(inputs=(replace(INPUT, receiver=99),)), [effect(2)], "effect-of-later table@0 1#0 app a2 b2"
    ),
    "replayed by itself": Case(
        reader(agents=(agent("a", 2, replay_until=3),)), [effect(2)], "replayed table@0 1#0 app a2 b2"
    ),
    "torn": Case(cut(processes=[replace(it, torn=(TORN,)) for it in CAPTURED.processes]), [effect(2)]),
    "done before a restore of its app": Case(restored("app"), [effect(2, offset=1)]),
    "done before a restore of another app": Case(
        restored("other"), [effect(2, offset=1)], "replayed table@1 1#1 app a2 b2"
    ),
    "done after a restore": Case(
        restored("app"), [effect(2, 60, 1)], "effect-of-later table@1 60#1 app a2 b2"
    ),
}

# -- V5: events that ran twice ----------------------------------------------------------------------------------------

#: Process 2 ran offset 0 of `in` before it left, and so did process 1, which has the input now and stands at 2.
BY_2, BY_1 = effect(0, 2), effect(0, 1, 1)
ONE, TWO = CAPTURED.processes
THREE = ProcessCut(process=3, app="app")
NO_SECOND_RUN = {
    "one worker may send several times of an event": BY_1._replace(process=2),
    "another event": BY_1._replace(cause=(TP, 1)),
    "another input": effect(0, 1, 1, "other"),
    "no cause": BY_1._replace(cause=None),
    "red": BY_1._replace(epoch=EPOCH),
    "past its white end": BY_1._replace(offset=3),
    "a marker": BY_1._replace(marker=True),
    "of nobody": BY_1._replace(process=9),
}
#: A worker that was taken for dead is one worker under both ids (R12).
REJOINED = replace(TWO, formerly=1)
OF_THREE = (*CAPTURED.senders, replace(CAPTURED.senders[1], process=3))
TWICE: dict[str, Case] = {
    "twice": Case(
        VIEW, [BY_2, BY_1, *(effect(1, process, 2) for process in (1, 2))], "ran-twice in@0 1#-1 app a2 b2"
    ),
    "twice, another": Case(
        VIEW, [BY_2, *(effect(1, process, 2) for process in (1, 2))], "ran-twice in@1 1#-1 app a1 b2"
    ),
    **{f"once: {why}": Case(VIEW, [BY_2, it]) for why, it in NO_SECOND_RUN.items()},
    "past the position": Case(
        VIEW,
        [effect(2, 2), effect(2, 1, 1)],
        "effect-of-later table@0 2#0 app a2 b2; effect-of-later table@1 1#1 app a2 b2",
    ),
    "past the position, a replay": Case(
        cut(inputs=(replace(INPUT, earlier=(2,)),)), [effect(2, 2)], "replayed table@0 2#0 app a2 b2"
    ),
    "once, under two ids": Case(cut(processes=(ONE, REJOINED)), [BY_2, BY_1]),
    "twice: a forged circle of ids": Case(
        cut(processes=(replace(ONE, formerly=1), replace(TWO, formerly=2))),
        [BY_2, BY_1],
        "ran-twice in@0 1#-1 app a1 b2",
    ),
    "twice: by it and a third": Case(
        cut(processes=(ONE, REJOINED, THREE), senders=OF_THREE),
        [BY_2, effect(0, 3, 2)],
        "ran-twice in@0 1#-1 app a1 b3",
    ),
}

CASES: Mapping[tuple[int, ...], Mapping[str, Case]] = {
    (1,): V1,
    (1, 2): V1_V2,
    (2,): V2,
    (1, 2, 4): V1_V2_V4,
    (4,): V4,
    (5,): V5 | TWICE,
}


@pytest.mark.parametrize(
    ("checks", "case"),
    [
        pytest.param(checks, case, id=f"{'+'.join(f'V{n}' for n in checks)} {name}")
        for checks, of in CASES.items()
        for name, case in of.items()
    ],
)
def test_what_is_found(checks: tuple[int, ...], case: Case) -> None:
    view, log, expected = case
    found = [it for check in checks for it in find(f"V{check}", listed(view, log))]
    assert "; ".join(map(said, found)) == expected
    assert {it.partition for it in found} <= {0}
