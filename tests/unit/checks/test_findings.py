"""What exactly V1, V2, V4 and V5 say: every number of a finding, and what they accuse nobody of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from snapkafka.checks import (
    EXTERNAL,
    CutView,
    Examined,
    Finding,
    LogBounds,
    LogRecord,
    examined,
    in_flight,
    listed,
    received,
)
from snapkafka.checks.coverage import in_words
from snapkafka.protocol import Captured, ChangelogCut, Position, Recorded, SeqRange, TopicPartition
from tests.worlds.list_checks import of_left, v1, v2, v4, v5
from tests.worlds.little_log import (
    CAPTURED,
    EPOCH,
    INPUT,
    LOG,
    OUT,
    RED,
    STATE,
    TABLE,
    TP,
    WHITE,
    seqs,
    with_input,
    with_sender,
    without,
)

# -- V1 ------------------------------------------------------------------------------------------------------


def test_v1_the_first_offset_past_the_end_is_past_it() -> None:
    found = v1(CutView(with_sender(white_end=4, last_seq=3)), WHITE)
    assert found == [Finding("white-after-end", "in", 0, 4, 1, 4, a=4)]


def test_v1_what_one_that_left_sent_after_its_end_was_seen() -> None:
    """At the log end that the receiver saw, and past it; a marker is no message."""
    log = [
        LogRecord("in", 0, 5, 2, 0, 0),
        LogRecord("in", 0, 6, 2, 0, 1),
        LogRecord("in", 0, 7, 2, 50, 2, marker=True),
    ]
    assert of_left(CutView(CAPTURED), log) == [Finding("left-late", "in", 0, 6, 2, 1, a=6)]


def test_v1_the_earliest_of_the_ends_that_were_seen_counts_for_one_that_left() -> None:
    """A changelog that is an input too (or two apps on one topic): past the first end it may be missing somewhere."""
    other = ChangelogCut(app="b", table="u", topic="in", topic_id="t1", partition=0, end=4, process=1)
    view = CutView(replace(CAPTURED, changelogs=(*CAPTURED.changelogs, other)))
    assert view.left_end(TP) == 4
    assert view.left_end(STATE) == 3
    assert view.left_end(OUT) == 0


def test_v1_gaps_say_what_is_missing() -> None:
    assert v1(CutView(CAPTURED), without(2, 3)) == [Finding("gap-explained", "in", 0, 4, 1, 4, a=2, b=3)]
    failed = with_sender(unacknowledged=seqs(2, 3))
    assert v1(CutView(failed), without(2, 3)) == [Finding("gap-failed", "in", 0, 4, 1, 4, a=2, b=3)]
    partly = with_sender(unacknowledged=seqs(2))
    assert v1(CutView(partly), without(2, 3)) == [Finding("gap-failed", "in", 0, 4, 1, 4, a=2, b=3)], (
        "the offset of the other one is missing"
    )
    squeezed = [record._replace(seq=record.seq + 2 * (record.offset >= 3)) for record in WHITE]
    assert v1(CutView(with_sender(last_seq=6)), squeezed) == [Finding("gap", "in", 0, 3, 1, 5, a=3, b=4)]


def test_v1_a_repeat_does_not_hide_which_offset_is_missing() -> None:
    """The missing offset lies between a record and its repeat."""
    log = [LogRecord("in", 0, offset, 1, 0, seq) for offset, seq in ((0, 0), (1, 1), (2, 2), (4, 2), (5, 4))]
    assert v1(CutView(with_sender(white_end=6)), log) == [
        Finding("duplicate", "in", 0, 4, 1, 2, a=2),
        Finding("gap-explained", "in", 0, 5, 1, 4, a=3, b=3),
    ]


def test_v1_compaction_is_excused_in_a_changelog_only() -> None:
    assert v1(CutView(CAPTURED), [TABLE[0], TABLE[2]]) == []
    also_input = replace(INPUT, topic="table", topic_id="t2", position=0, noted=0, low=0, log_end=3)
    view = CutView(replace(CAPTURED, inputs=(INPUT, also_input)))
    assert v1(view, [TABLE[0], TABLE[2]]) == [Finding("gap-explained", "table", 0, 2, 1, 2, a=1, b=1)]
    failed = replace(CAPTURED.senders[1], unacknowledged=seqs(1))
    view = CutView(replace(CAPTURED, senders=(CAPTURED.senders[0], failed)))
    assert v1(view, [TABLE[0], TABLE[2]]) == [Finding("gap-failed", "table", 0, 2, 1, 2, a=1, b=1)]


@pytest.mark.parametrize("refused", [True, False])
def test_v1_what_a_process_reports_as_lost_counts_wherever_it_stands(refused: bool) -> None:
    """First, last or only; in inputs and in changelogs. Nothing that is missing between two records shows it."""

    def lost(
        place: int, unacknowledged: tuple[SeqRange, ...], log: list[LogRecord], **more: Any
    ) -> list[Finding]:
        senders = [*CAPTURED.senders]
        senders[place] = replace(senders[place], unacknowledged=unacknowledged, **more)
        return v1(CutView(replace(CAPTURED, senders=tuple(senders))), log)

    last = seqs(5, 7, refused=refused)
    assert lost(0, last, LOG) == [Finding("send-failed", "in", 0, 5, 1, 7, a=5, b=7)]
    assert lost(1, seqs(3, refused=refused), LOG) == [Finding("send-failed", "table", 0, 3, 1, 3, a=3, b=3)]
    later = [record._replace(seq=record.seq + 2) for record in LOG]
    first = [Finding("send-failed", *place, 1, 1, a=0, b=1) for place in (("in", 0, 5), ("table", 0, 3))]
    assert lost(0, seqs(0, 1, refused=refused), later, last_seq=6) == first[:1]
    assert lost(1, seqs(0, 1, refused=refused), later, last_seq=4) == first[1:]
    for place, end in enumerate(CAPTURED.senders):
        only = lost(place, seqs(0, 9, refused=refused), [], white_end=0, last_seq=-1)
        assert only == [Finding("send-failed", end.topic, 0, 0, 1, 9, a=0, b=9)]


def test_v1_what_was_undone_with_its_transaction_is_no_loss() -> None:
    """Positions and sends of an aborted transaction are undone together, and the event runs again."""
    for unacknowledged, lost in (
        ((SeqRange(first=5, last=7, refused=True, undone=True),), []),
        (
            (SeqRange(first=5, last=6, refused=True, undone=True), SeqRange(first=7, last=7, refused=True)),
            [7],
        ),
    ):
        senders = [replace(CAPTURED.senders[0], unacknowledged=unacknowledged), *CAPTURED.senders[1:]]
        found = v1(CutView(replace(CAPTURED, senders=tuple(senders))), LOG)
        assert [(finding.kind, finding.a) for finding in found] == [("send-failed", seq) for seq in lost]


def test_v1_what_failed_in_an_input_before_all_that_is_read_is_past() -> None:
    """Of a changelog it counts for as long as the process lives: its table may hold what was not written."""
    later = [record._replace(seq=record.seq + 10) for record in LOG]
    senders = [replace(end, last_seq=end.last_seq + 10, unacknowledged=seqs(3)) for end in CAPTURED.senders]
    view = CutView(replace(CAPTURED, senders=tuple(senders)))
    assert v1(view, later) == [Finding("send-failed", "table", 0, 3, 1, 3, a=3, b=3)]
    behind = CutView(replace(CAPTURED, senders=(replace(CAPTURED.senders[0], unacknowledged=seqs(3)),)))
    assert v1(behind, []) == [], "the last one is acknowledged, and below what is read"


def test_v1_what_landed_after_later_ones_is_no_disorder() -> None:
    log = [*WHITE[:2], WHITE[2]._replace(seq=3), WHITE[3]._replace(seq=2), WHITE[4]]
    assert [f.kind for f in v1(CutView(CAPTURED), log)] == ["disorder"]
    unknown = CutView(with_sender(unacknowledged=seqs(2, refused=False)))
    assert v1(unknown, log) == [Finding("landed", "in", 0, 3, 1, 2)]


def test_v1_a_copy_behind_the_white_end_is_a_note() -> None:
    """Whoever queues a record again writes all of its headers: a seq up to the sender's last is a copy. A new one is
    none."""
    view = CutView(with_input(position=9, noted=9))
    copies = [LogRecord("in", 0, 7, 1, 0, seq) for seq in (0, 4)]
    for copy in copies:
        assert v1(view, [*LOG, copy]) == [Finding("copy", "in", 0, 7, 1, copy.seq)]
        assert v2(view, [*WHITE, copy]) == []
    new = LogRecord("in", 0, 7, 1, 0, 5)
    assert [f.kind for f in v1(view, [*LOG, new])] == ["white-after-end"]
    assert [f.kind for f in v2(view, [*WHITE, new])] == ["red-late"]


def test_v4_a_copy_before_the_marker_is_in_no_range() -> None:
    view = CutView(with_sender(marker=7))
    view = CutView(replace(view.captured, recorded=(replace(CAPTURED.recorded[0], end=7),)))
    copy = LogRecord("in", 0, 6, 1, 0, 3)
    assert v4(view, [*WHITE, copy]) == []
    assert [f.kind for f in v4(view, [*WHITE, copy._replace(seq=5)])] == ["recorded-differs"]


def test_v1_copies_of_what_is_not_read_are_no_gap_and_no_disorder() -> None:
    """Of what was sent before an earlier cut the sender knows where it ended."""
    end = with_sender(last_seq=104, earlier_seq=50, earlier_end=0)
    sent = [record._replace(seq=record.seq + 99) for record in WHITE]
    log = [sent[0]._replace(seq=9), sent[1]._replace(seq=7), *sent[2:]]
    assert v1(CutView(end), log) == [
        Finding("copy", "in", 0, 0, 1, 9),
        Finding("copy", "in", 0, 1, 1, 7),
    ]
    unknown = v1(CutView(with_sender(last_seq=104)), [*sent[:2], sent[2]._replace(seq=8), *sent[3:]])
    assert {f.kind for f in unknown if f.offset == 2} == {"copy"}, "lower than the first that is read"
    again = [*sent[:2], *(record._replace(seq=8) for record in sent[2:4]), sent[4]]
    assert {f.kind for f in v1(CutView(with_sender(last_seq=104)), again) if f.offset == 3} == {"duplicate"}


def test_v1_a_copy_of_who_left_is_a_note() -> None:
    log = [LogRecord("in", 0, 4, 2, 0, 3), LogRecord("in", 0, 5, 2, 0, 4)]
    late = [LogRecord("in", 0, 8, 2, 0, seq) for seq in (4, 1, 5)]
    found = [[f.kind for f in of_left(CutView(CAPTURED), [*log, record])] for record in late]
    assert found == [["copy"], ["copy"], ["left-late"]]
    assert [f.kind for f in of_left(CutView(CAPTURED), late[:1])] == ["left-late"]
    disorder = [*log, LogRecord("in", 0, 0, 2, 0, 1), LogRecord("in", 0, 1, 2, 0, 5)]
    assert {f.kind for f in v1(CutView(CAPTURED), disorder)} == {"gap-left", "disorder-left"}


def test_v1_compaction_and_failed_sends_together_accuse_nobody() -> None:
    """Of two missing seqs one was refused, and of the other the offset is missing, too."""
    log = [TABLE[0], TABLE[2]._replace(seq=3)]
    table = replace(CAPTURED.senders[1], last_seq=3, unacknowledged=seqs(1))
    view = CutView(replace(CAPTURED, senders=(CAPTURED.senders[0], table)))
    assert v1(view, log) == [Finding("gap-failed", "table", 0, 2, 1, 3, a=1, b=2)]
    both_lost = [TABLE[0], LogRecord("table", 0, 1), TABLE[2]._replace(seq=3)]
    assert [f.kind for f in v1(view, both_lost)] == ["gap"]


# -- V2 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "finding"),
    [
        (LogRecord("in", 0, 1, 1, EPOCH, 9), Finding("red-header", "in", 0, 1, 1, 9, "app", EPOCH, EPOCH)),
        (LogRecord("in", 0, 1, 1, EPOCH + 7, 9), Finding("red-header", "in", 0, 1, 1, 9, "app", 107, EPOCH)),
        (LogRecord("in", 0, 1, EPOCH, 3, 9), Finding("red-birth", "in", 0, 1, EPOCH, 9, "app", 3, EPOCH)),
        (LogRecord("in", 0, 1, EPOCH - 1, 0, 9), None),
        (LogRecord("in", 0, 1, EXTERNAL, EPOCH, 9), None),
        (LogRecord("in", 0, 1, 1, EPOCH, 9, marker=True), None),
        (LogRecord("in", 0, 2, 1, EPOCH, 9), None),
    ],
)
def test_v2_says_what_is_red_and_why(record: LogRecord, finding: Finding | None) -> None:
    assert v2(CutView(CAPTURED), [record]) == ([finding] if finding else [])


def test_v2_white_after_its_end_counts_as_red_from_the_end_on() -> None:
    view = CutView(with_input(position=9, noted=9, log_end=6))
    late = [LogRecord("in", 0, offset, process, 0, 9) for process in (1, 2) for offset in (4, 5, 6)]
    assert v2(view, late) == [
        Finding("red-late", "in", 0, 5, 1, 9, "app", 5, EPOCH),
        Finding("red-late", "in", 0, 6, 1, 9, "app", 5, EPOCH),
        Finding("red-late", "in", 0, 6, 2, 9, "app", 6, EPOCH),
    ]


def test_who_has_received_what() -> None:
    """An agent that started out of turn has received that one; another one of the same input may not have."""
    fast = Position(agent="f", topic="in", partition=0, offset=2, started_above=(4,))
    slow = Position(agent="s", topic="in", partition=0, offset=1)
    alone, two = replace(INPUT, agents=(fast,)), replace(INPUT, agents=(fast, slow))
    assert [offset for offset in range(6) if received(INPUT, offset)] == [0, 1]
    assert [offset for offset in range(6) if in_flight(INPUT, offset)] == [2, 3, 4, 5]
    assert [offset for offset in range(6) if received(alone, offset)] == [0, 1, 4]
    assert [offset for offset in range(6) if in_flight(alone, offset)] == [2, 3, 5]
    assert [offset for offset in range(6) if received(two, offset)] == [0, 1, 4]
    assert [offset for offset in range(6) if in_flight(two, offset)] == [1, 2, 3, 4, 5]


# -- V4 ------------------------------------------------------------------------------------------------------


def test_v4_in_flight_is_what_ends_behind_the_position_and_is_still_in_the_log() -> None:
    def last(captured: Captured, start: int = 0) -> list[TopicPartition]:
        bounds = {TP: LogBounds(start=start, end=9), STATE: LogBounds(start=0, end=9)}
        return [tp for tp, _, _ in CutView(captured, bounds).last_in_flight()]

    assert last(CAPTURED) == [TP]
    assert last(with_input(position=4)) == [TP]
    assert last(with_input(position=5)) == []
    assert last(CAPTURED, start=4) == [TP]
    assert last(CAPTURED, start=5) == []
    assert last(with_sender(last_seq=0)) == [TP]
    assert last(with_sender(last_seq=-1)) == []


def test_v4_of_two_apps_each_has_its_own_channel() -> None:
    ahead = replace(INPUT, app="ahead", position=5, noted=5)
    view = CutView(replace(CAPTURED, inputs=(ahead, INPUT), recorded=()))
    assert v4(view, without(4)) == [Finding("last-missing", "in", 0, 4, 1, 4, app="app")]


def test_v4_recorded_and_derived_hold_the_same() -> None:
    def recorded(start: int, end: int, **more: object) -> list[Finding]:
        item = Recorded(app="app", sender=1, topic="in", partition=0, start=start, end=end)
        return v4(CutView(replace(CAPTURED, recorded=(item,), **more)), LOG)  # type: ignore[arg-type]

    assert recorded(2, 5) == []
    assert recorded(2, 7) == [], "what is red, and a marker, is no part of either"
    assert recorded(3, 5) == [Finding("recorded-differs", "in", 0, 2, 1, 2, "app", 3, 5)]
    assert recorded(1, 5) == [Finding("recorded-differs", "in", 0, 1, 1, 1, "app", 1, 5)]
    assert recorded(2, 4) == [Finding("recorded-differs", "in", 0, 4, 1, 4, "app", 2, 4)]
    late = [*WHITE, LogRecord("in", 0, 5, 1, 0, 5)]
    assert v4(CutView(CAPTURED), late) == [], "what comes at the white end is for V1 to accuse"
    torn = replace(INPUT, position=1, noted=2)
    assert recorded(2, 5, inputs=(torn,)) == [], "it was recorded before it was known that the event is torn"


def test_v4_a_recorded_range_belongs_to_the_app_that_recorded_it() -> None:
    """Two apps read the partition, and one of them stands as far from the range as the other."""
    behind, ahead = replace(INPUT, app="behind"), replace(INPUT, app="ahead", position=4, noted=4)
    item = Recorded(app="behind", sender=1, topic="in", partition=0, start=3, end=5)
    view = CutView(replace(CAPTURED, inputs=(behind, ahead), recorded=(item,)))
    assert [source.app for _, source in view.recorded[TP]] == ["behind"]
    for item in (
        Recorded(app="else", sender=1, topic="in", partition=0, start=2, end=5),
        Recorded(app="app", sender=2, topic="in", partition=0, start=2, end=5),
        Recorded(app="app", sender=1, topic="out", partition=0, start=2, end=5),
    ):
        assert not any(CutView(replace(CAPTURED, recorded=(item,))).recorded.values())


# -- V5 ------------------------------------------------------------------------------------------------------

AGENTS = (
    Position(agent="fast", topic="in", partition=0, offset=5),
    Position(agent="slow", topic="in", partition=0, offset=2),
)


def effect(cause: int, process: int = 1, offset: int = 0, topic: str = "in", **more: object) -> LogRecord:
    record = LogRecord("table", 0, offset, process, 0, offset, cause=(TopicPartition(topic, 0), cause))
    return record._replace(**more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "record",
    [
        effect(2)._replace(cause=None),
        effect(2, process=7),
        effect(2, epoch=EPOCH),
        effect(2, marker=True),
        effect(2, topic="other"),
        effect(2, offset=3),
    ],
    ids=["no cause", "stranger", "red", "marker", "no input of its app", "past its white end"],
)
def test_v5_what_accuses_nobody(record: LogRecord) -> None:
    """The next one accuses all the same."""
    sound = effect(2, offset=1)
    assert [f.offset for f in v5(CutView(CAPTURED), [record, sound])] == [1]


def test_v5_where_nobody_was_replaying_the_first_offset_is_no_replay() -> None:
    view = CutView(with_input(position=0, noted=0))
    assert [f.kind for f in v5(view, [effect(0)])] == ["effect-of-later"]


def test_v5_where_one_agent_has_started_the_cause_it_may_be_the_effect_of_that_one() -> None:
    """A stamp does not name the agent. What nobody has started accuses, also behind such an effect."""
    log = [effect(3), effect(6, offset=1)]
    assert [f.a for f in v5(CutView(with_input(agents=AGENTS)), log)] == [6]


STEADY = {"steady": True}


@pytest.mark.parametrize(
    ("record", "source"),
    [
        (effect(1, epoch=EPOCH), {"steady": False}),
        (effect(1, epoch=EPOCH), {**STEADY, "receiver": 9}),
        (effect(1, epoch=EPOCH, marker=True), STEADY),
        (effect(1, epoch=EPOCH, process=200), STEADY),
        (effect(1, epoch=EPOCH, offset=3), STEADY),
        (effect(1), STEADY),
    ],
    ids=["it may run again", "read by another", "marker", "born later", "after it was closed", "white"],
)
def test_v5_red_effects_that_accuse_nobody(record: LogRecord, source: dict[str, object]) -> None:
    assert v5(CutView(with_input(**source)), [record]) == []


def test_v5_an_event_that_some_agent_had_yet_to_start_may_have_red_effects() -> None:
    log = [effect(offset, epoch=EPOCH, offset=nth) for nth, offset in enumerate((1, 2, 4))]
    assert [f.a for f in v5(CutView(with_input(agents=AGENTS, **STEADY)), log)] == [1]


# -- what was looked at ----------------------------------------------------------------------------------------


def read(
    records: list[LogRecord], bounds: dict[TopicPartition, LogBounds] | None = None
) -> dict[str, Examined]:
    view = CutView(CAPTURED, bounds)
    return examined(view, listed(view, records).groups)


def test_what_each_check_has_looked_at() -> None:
    """Process 1 sent five white records and one red one to `in`, three to `table`; it stood at 2."""
    assert read(LOG) == {
        "V1": Examined(9, 2),
        "V2": Examined(2, 1),
        "V3": Examined(3, 1),
        "V4": Examined(3, 1, channels=1),
        "V5": Examined(0, 0),
    }
    caused = LOG[1]._replace(cause=(TP, 0))
    assert read([caused])["V5"] == Examined(1, 1)


def test_markers_external_records_and_other_topics_are_no_records_of_a_check() -> None:
    log = [LogRecord("in", 0, 0), RED[0], LogRecord("elsewhere", 0, 0, 1, 0, 0)]
    assert {check: seen.records for check, seen in read(log).items()} == dict.fromkeys(
        ("V1", "V2", "V3", "V4", "V5"), 0
    )
    anew = {TP: LogBounds(start=0, end=9, topic_id="another"), STATE: LogBounds(start=0, end=3)}
    assert read(LOG, anew)["V1"] == Examined(3, 1), "of a topic that is another one nothing"


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ((None,), ""),
        ((-1,), ""),
        ((0, 0, 0), "no record"),
        ((0, 0, 2), "no record, 2 channels"),
        ((1, 1, 1), "1 record of 1 partition, 1 channel"),
        ((1_234, 2), "1,234 records of 2 partitions"),
        ((5,), "5 records"),
    ],
)
def test_what_was_looked_at_is_reported_plainly(seen: tuple[int | None, ...], said: str) -> None:
    assert in_words(*seen) == said
