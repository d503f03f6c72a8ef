"""What a captured snapshot says, number by number: the vector of offsets that assembly and verification work on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapkafka.protocol import (
    Captured,
    ChangelogEnd,
    Hello,
    InputCut,
    InputTopic,
    Report,
    Table,
    TopicPartition,
)
from snapkafka.protocol.captured_snapshot import Outsider, ProcessCut, Recorded, SenderEnd
from snapkafka.protocol.offsets import SOMEBODY, ChannelRange, Position, Running, SentEnd, SeqRange, TornEvent
from snapkafka.protocol.records import Assigned, Bye, Dead, LedgerRecord, Trigger
from snapkafka.wire import decode, encode

from .world import fold_of, log_ends

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)

#: Process 0 left before; 2 lives, reads a[0] and a[1], and writes `changelog`; the snapshot is that of epoch 5.
LEFT = Hello(n=1, app="old", host="h0", pid=10)
TABLE = Table(
    name="t", changelog="changelog", partitions=1, key_codec="raw", value_codec="pickle", topic_id="id-t"
)
READ = InputTopic(topic="a", partitions=2, topic_id="id-a")
HELLO = Hello(n=2, app="p", host="h", pid=11, inputs=(READ,), tables=(TABLE,))
GIVEN = Assigned(process=2, n=9, generation=1, inputs=(A0, A1))
ENDS = log_ends((A0, 5))
TRIGGER = Trigger(
    n=3, id="snap", attempt=2, type="incremental", parent="before", storage="file:///x", ends=ENDS
)
LOST = (SeqRange(first=3, last=3),)
REPORTED = Report(
    process=2,
    n=1,
    epoch=5,
    previous=0,
    heard="header",
    assigned=3,
    positions=(
        Position(agent="fast", topic="a", partition=0, offset=9, started_above=(11,), replay_until=10),
        Position(agent="slow", topic="a", partition=0, offset=7),
        Position(agent="fast", topic="a", partition=1, offset=3),
    ),
    running=(Running(agent="fast", topic="a", partition=0, offset=8),),
    sent=(
        SentEnd(topic="a", partition=0, white_end=20, last_seq=6, marker=21, unacknowledged=LOST),
        SentEnd(topic="changelog", partition=0, white_end=8, last_seq=2),
    ),
    changelogs=(ChangelogEnd(table="t", topic="changelog", partition=0, end=5),),
    recorded=(ChannelRange(sender=2, topic="a", partition=0, start=7, end=21),),
    torn=(TornEvent(agent="fast", topic="a", partition=0, offset=6, was=0, met=5, table="t"),),
    cut_us=77,
)


def snapshot(
    report: LedgerRecord = REPORTED, *later: LedgerRecord, hello: Hello = HELLO, left: Hello = LEFT
) -> Captured:
    return fold_of(left, Bye(process=0, n=1), hello, GIVEN, TRIGGER, report, *later).captured(5)


@pytest.fixture
def whole() -> Captured:
    return snapshot()


def test_what_was_asked_for_is_reported(whole: Captured) -> None:
    assert (whole.id, whole.attempt, whole.epoch, whole.type) == ("snap", 2, 5, "incremental")
    assert (whole.parent, whole.storage, whole.contaminated) == ("before", "file:///x", "")


def test_r3_processes_with_how_they_heard_and_what_ran(whole: Captured) -> None:
    """R8: a sender that left before the trigger neither cut nor reported."""
    assert whole.processes == (
        ProcessCut(process=0, app="old", host="h0", pid=10, left=True),
        ProcessCut(
            process=2,
            app="p",
            host="h",
            pid=11,
            previous=0,
            heard="header",
            report=5,
            cut_us=77,
            running=(Running(agent="fast", topic="a", partition=0, offset=8),),
            torn=REPORTED.torn,
        ),
    )


def test_r2_who_is_no_part_of_it_is_listed_with_what_is_known_of_it() -> None:
    """Of an app out of scope: one process turned red for it, one did not, one had left in order, one was lost, one
    joined later."""
    other = Hello(n=1, app="z")
    cut = Report(process=2, n=1, epoch=10, previous=0, heard="ledger", assigned=-1, positions=())
    state = fold_of(
        replace(other, n=10),  # 0: leaves
        replace(other, n=11),  # 1: is lost
        replace(other, n=12),  # 2: turns red for it, after it was captured
        replace(other, n=13),  # 3: does not, but for a later one
        HELLO,  # 4
        replace(other, n=15),  # 5: leaves once it was asked for
        replace(GIVEN, process=4),
        Bye(process=0, n=1),
        Dead(dead=1, n=99),
        replace(TRIGGER, apps=("p",)),  # 9: epoch 10
        Bye(process=5, n=1),
        replace(other, n=14),  # 11: was not there
        replace(REPORTED, process=4, epoch=10, assigned=6, taken=(3, 4)),  # captured
        cut,
        replace(TRIGGER, n=98, id="next", apps=("p",)),  # 14: epoch 15
        replace(cut, process=3, epoch=15, previous=10),
    )
    assert state.captured(10).outsiders == (
        Outsider(process=0, app="z", left=True),
        Outsider(process=1, app="z"),
        Outsider(process=2, app="z", cut=True),
        Outsider(process=3, app="z", taken=True),
        Outsider(process=5, app="z"),
    )
    assert [it.harmless for it in state.captured(10).outsiders] == [True, False, True, False, False]
    assert state.snapshots[15].beside == {3}


def test_of_a_topic_that_nobody_named_the_id_is_not_known() -> None:
    """Nobody in time: who joined later does not count."""
    whole = snapshot(REPORTED, replace(HELLO, n=9), hello=replace(HELLO, inputs=()))
    assert {(cut.topic, cut.topic_id) for cut in whole.inputs} == {("a", "")}


def test_v5_who_goes_on_as_an_earlier_reader_is_one(whole: Captured) -> None:
    """R12: under a later id, or from a ledger that is gone; not who goes on as somebody else, nor who joined later."""
    again = replace(HELLO, inputs=(), tables=())
    state = fold_of(
        LEFT,
        replace(again, n=10),  # 1: reads a[0] and a[1]
        replace(GIVEN, process=1, n=1),
        Dead(dead=1, n=1),
        replace(again, n=11, was=1),  # 4
        replace(again, n=12, was=SOMEBODY),  # 5
        replace(again, n=13, was=0),  # 6: was not one
        HELLO,  # 7
        replace(GIVEN, process=7, generation=2),
        *(Bye(process=process, n=1) for process in (0, 4, 5, 6)),
        TRIGGER,  # 13: epoch 14
        replace(REPORTED, process=7, epoch=14, assigned=8),
        replace(again, n=14, was=4),  # 15
    )
    assert [cut.earlier for cut in state.captured(14).inputs] == [(1, 4, 5)] * 2
    assert whole.old_topics == (), "nobody named another id of it"


def test_r6_a_torn_event_counts_as_not_processed_and_those_after_it_as_started(whole: Captured) -> None:
    """R6: for every open cut its input counts as not processed; a restore runs it again."""
    source = InputCut(
        app="p", topic="a", topic_id="id-a", partition=0, position=6, noted=7, low=5, log_end=12, receiver=2,
        agents=(
            Position(agent="fast", topic="a", partition=0, offset=6, started_above=(7, 8, 11), replay_until=10),
            Position(agent="slow", topic="a", partition=0, offset=7),
        ),
        torn=REPORTED.torn,
        steady=True,
    )  # fmt: skip
    other = (Position(agent="fast", topic="a", partition=1, offset=3),)
    unread = replace(source, partition=1, position=3, noted=3, low=0, log_end=3, agents=other, torn=())
    assert whole.inputs == (source, replace(unread, end_known=False))


def test_r7_senders_with_their_white_ends(whole: Captured) -> None:
    sender = SenderEnd(process=2, topic="a", partition=0, white_end=20, last_seq=6)
    assert whole.senders == (
        replace(sender, marker=21, unacknowledged=LOST, landed_end=21),
        replace(sender, topic="changelog", white_end=8, last_seq=2),
    )


def test_r7_a_changelog_ends_past_whatever_anybody_wrote_there_in_white(whole: Captured) -> None:
    (cut,) = whole.changelogs
    assert (cut.app, cut.table, cut.topic, cut.topic_id, cut.partition) == ("p", "t", "changelog", "id-t", 0)
    assert (cut.end, cut.process, cut.key_codec, cut.value_codec) == (8, 2, "raw", "pickle")
    elsewhere = SentEnd(topic="changelog", partition=1, white_end=99, last_seq=2)
    for report, end in (
        (replace(REPORTED, changelogs=(replace(REPORTED.changelogs[0], end=12),)), 12),
        (replace(REPORTED, sent=(*REPORTED.sent, elsewhere)), 8),
        (replace(REPORTED, sent=()), 5),
    ):
        assert snapshot(report).changelogs[0].end == end


@pytest.mark.parametrize(("sets", "windowed"), [(False, False), (True, False), (False, True)])
def test_what_a_table_is_goes_with_its_changelog(sets: bool, windowed: bool) -> None:
    hello = replace(HELLO, tables=(replace(TABLE, sets=sets, windowed=windowed, expires_ms=3),))
    (cut,) = snapshot(hello=hello).changelogs
    assert (cut.sets, cut.windowed, cut.expires_ms) == (sets, windowed, 3)


def test_r11_a_report_whose_ends_cannot_be_read_spoils_the_proof_by_name() -> None:
    """It counts for all readers; of what stands in it nothing is known."""
    found = snapshot(decode(encode(REPORTED)[:-1] + b"\xff"))
    assert found.contaminated == "the report of process 2 of app p, at ledger offset 5, is damaged"
    assert found.senders == ()


def test_r8_ranges_that_the_receivers_recorded(whole: Captured) -> None:
    assert whole.recorded == (Recorded(app="p", sender=2, topic="a", partition=0, start=7, end=21),)


def test_r10_replays_are_counted(whole: Captured) -> None:
    """Torn events, and inputs whose readers were replaying (each of these counts once)."""
    assert whole.replays == 2
    untorn = replace(REPORTED, torn=())
    first, *others = REPORTED.positions
    caught_up = replace(untorn, positions=(replace(first, replay_until=9), *others))
    assert snapshot(caught_up).replays == 0
    assert snapshot(untorn).replays == 1
    second = replace(untorn, positions=(first, replace(others[0], replay_until=9), *others[1:]))
    assert snapshot(second).replays == 2, "each agent by itself"


def test_what_the_apps_declare_and_report_stands_in_it() -> None:
    """Sources and what no snapshot holds, as those tell that reported: not who had left, nor who came later."""
    mine = replace(HELLO, sources=("b", "a"), uncaptured=("an in-memory channel", "another"))
    left = replace(LEFT, sources=("old",), uncaptured=("of old",))
    later = Hello(n=9, app="q", sources=("later",), uncaptured=("of later",))
    whole = snapshot(REPORTED, later, hello=mine, left=left)
    found = [(item.app, item.what) for item in whole.uncaptured]
    assert (whole.sources, found) == (("a", "b"), [("p", "an in-memory channel"), ("p", "another")])


def test_who_is_given_inputs_anew_after_its_cut_may_run_events_again() -> None:
    again = Assigned(process=2, n=10, generation=2, inputs=(A0,))
    assert {cut.steady for cut in snapshot(REPORTED, again).inputs} == {False}


@pytest.mark.parametrize(
    ("first", "between", "second", "unproved"),
    [
        pytest.param(5, None, 7, [], id="past where the inputs ended when it was gone"),
        pytest.param(4, None, 4, [6, 9], id="below that"),
        pytest.param(4, None, 5, [6], id="first below, then past it"),
        pytest.param(
            5, Assigned(process=3, n=3, generation=3, inputs=(A0,)), 7, [9], id="may have had them again"
        ),
        pytest.param(5, Bye(process=0, n=9), 7, [6, 9], id="ended since"),
        pytest.param(5, Bye(process=0, n=9), 9, [6], id="ended since, all is read"),
    ],
)
def test_r15_events_of_a_worker_that_stood_down_may_run_again(
    first: int, between: LedgerRecord | None, second: int, unproved: list[int]
) -> None:
    hello = Hello(n=1, app="p", inputs=(InputTopic(topic="a", partitions=1),))
    given = Assigned(process=0, n=2, generation=1, inputs=(A0,))
    cuts = [
        Report(
            process=3, n=n, epoch=epoch, previous=previous, heard="ledger",
            assigned=7 if n > 4 and isinstance(between, Assigned) else 4,
            positions=(Position(agent="f", topic="a", partition=0, offset=at),),
        )
        for n, epoch, previous, at in ((2, 6, 0, first), (5, 9, 6, second))
    ]  # fmt: skip
    fold = fold_of(
        hello, given, Bye(process=0, n=3, goes_on=True, since=2), replace(hello, n=4), replace(given, process=3, n=1),
        Trigger(n=5, id="one", ends=log_ends((A0, 5))), cuts[0], between,
        Trigger(n=6, id="two", ends=log_ends((A0, 9))), cuts[1],
    )  # fmt: skip
    assert [epoch for epoch in (6, 9) if fold.captured(epoch).contaminated] == unproved
