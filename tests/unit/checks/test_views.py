"""Where each lookup of `CutView` draws its line, and what follows from the bounds of the log alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest

from snapkafka.assembly import require_offsets
from snapkafka.checks import (
    EXTERNAL,
    CutView,
    Finding,
    LogBounds,
    LogRecord,
    ReadRange,
    bounds_findings,
    in_flight,
    reading_ranges,
    received,
)
from snapkafka.checks.v4_channels import LOOK_BACK_MAX, look_back_ranges
from snapkafka.errors import OffsetsGoneError
from snapkafka.protocol import (
    BaseCut,
    Captured,
    ChangelogCut,
    Position,
    ProcessCut,
    TopicPartition,
)
from tests.worlds.little_log import (
    CAPTURED,
    EPOCH,
    INPUT,
    LOG,
    OUT,
    STATE,
    TABLE,
    TP,
    with_input,
    with_sender,
)

VIEW = CutView(CAPTURED)


def bounds(start: int = 0, end: int = 9) -> dict[TopicPartition, LogBounds]:
    return {
        TP: LogBounds(start=start, end=end, topic_id="t1"),
        STATE: LogBounds(start=0, end=3, topic_id="t2"),
    }


# -- lookups -------------------------------------------------------------------------------------------------

SENT, LEFT, WRITTEN = LogRecord("in", 0, 4, 1, EPOCH - 1, 4), LogRecord("in", 0, 5, 2, 0, 4), TABLE[2]


@pytest.mark.parametrize(
    ("holds", "record", "other"),
    [
        (VIEW.counts_white, SENT, [{"offset": 5}, {"epoch": EPOCH}, {"marker": True}, {"process": 7}]),
        (VIEW.counts_white, LEFT, [{"offset": 6}, {"marker": True}]),
        (VIEW.in_state, WRITTEN, [{"offset": 3}, {"epoch": EPOCH}, {"marker": True}, {"process": EPOCH}]),
        (VIEW.in_state, WRITTEN._replace(process=EPOCH - 1), [{"topic": "in"}]),
        (VIEW.in_state, WRITTEN._replace(process=EXTERNAL, epoch=EPOCH), []),
        (VIEW.in_state, WRITTEN._replace(process=2, epoch=EPOCH), []),
    ],
)
def test_what_is_white_and_what_is_state(
    holds: Callable[[LogRecord], bool], record: LogRecord, other: list[dict[str, object]]
) -> None:
    assert holds(record)
    assert not any(holds(record._replace(**changes)) for changes in other)  # type: ignore[arg-type]


def test_what_an_old_process_appends_behind_the_base_of_a_restore_is_void() -> None:
    """Process 60 lives; 1 and 2 are of before, and the app of 2 was not restored."""
    base = BaseCut(topic="in", partition=0, end=3, author=50, plan="r", apps=("app",))
    processes = [
        ProcessCut(process=1, app="app", left=True),
        ProcessCut(process=60, app="app"),
        ProcessCut(process=2, app="other", left=True),
    ]
    before = replace(CAPTURED, processes=processes, bases=())  # type: ignore[arg-type]
    old, view = CutView(before), CutView(replace(before, bases=(base,)))
    late, written = LogRecord("in", 0, 4, 1, 0, 4), LogRecord("table", 0, 2, 1, 0, 2)
    assert view.is_void(late) and not view.is_void(late._replace(offset=2))
    assert not any(view.is_void(late._replace(process=process)) for process in (2, 60))
    assert old.in_channel(late, INPUT) and not view.in_channel(late, INPUT)
    state = CutView(replace(before, bases=(replace(base, topic="table", end=1),)))
    assert old.in_state(written) and not state.in_state(written)


def test_what_a_process_sends_of_running_events_lies_below_its_marker_and_its_changelogs_end() -> None:
    assert [VIEW.sent_end(process, TP) for process in (1, 2)] == [5, 0]
    assert VIEW.sent_end(1, OUT) == 0
    assert CutView(with_sender(marker=8)).sent_end(1, TP) == 8
    longer = replace(CAPTURED, changelogs=(replace(CAPTURED.changelogs[0], end=9),))
    assert [CutView(longer).sent_end(process, STATE) for process in (1, 2)] == [9, 0]


def test_the_earliest_of_the_ends_that_were_seen_counts_for_one_that_left() -> None:
    """A changelog that is an input too (or two apps on one topic): past the first end it may be missing somewhere."""
    other = ChangelogCut(app="b", table="u", topic="in", topic_id="t1", partition=0, end=4, process=1)
    view = CutView(replace(CAPTURED, changelogs=(*CAPTURED.changelogs, other)))
    assert [view.left_end(tp) for tp in (TP, STATE, OUT)] == [4, 3, 0]


def test_what_is_in_a_channel() -> None:
    assert [r.offset for r in LOG if r.topic == "in" and VIEW.in_channel(r, INPUT)] == [2, 3, 4]
    assert not VIEW.in_channel(LogRecord("in", 0, 5, 1, 0, 5), INPUT), "past its white end"
    left = [LogRecord("in", 0, offset, 2, 0, 0) for offset in range(1, 8)]
    assert [record.offset for record in left if VIEW.in_channel(record, INPUT)] == [2, 3, 4, 5]
    assert not VIEW.in_channel(LogRecord("in", 0, 3), INPUT), "external: replayable, only the position counts"


def test_who_has_received_what() -> None:
    """An agent that started out of turn has received that one; another one of the same input may not have."""
    fast = Position(agent="f", topic="in", partition=0, offset=2, started_above=(4,))
    slow = Position(agent="s", topic="in", partition=0, offset=1)
    for agents, started, waiting in (
        ((), [0, 1], [2, 3, 4, 5]),
        ((fast,), [0, 1, 4], [2, 3, 5]),
        ((fast, slow), [0, 1, 4], [1, 2, 3, 4, 5]),
    ):
        source = replace(INPUT, agents=agents)
        assert [offset for offset in range(6) if received(source, offset)] == started
        assert [offset for offset in range(6) if in_flight(source, offset)] == waiting


@pytest.mark.parametrize(
    ("captured", "start", "there"),
    [
        (CAPTURED, 0, True),
        (with_input(position=4), 0, True),
        (with_input(position=5), 0, False),
        (CAPTURED, 4, True),
        (CAPTURED, 5, False),
        (with_sender(last_seq=0), 0, True),
        (with_sender(last_seq=-1), 0, False),
    ],
)
def test_in_flight_is_what_ends_behind_the_position_and_is_still_in_the_log(
    captured: Captured, start: int, there: bool
) -> None:
    assert [tp for tp, _, _ in CutView(captured, bounds(start)).last_in_flight()] == [TP] * there


@pytest.mark.parametrize(
    ("now", "made_anew"),
    [
        (LogBounds(start=0, end=2, topic_id="t1"), False),
        (LogBounds(start=0, end=1, topic_id="t1"), True),
        (LogBounds(start=0, end=9, topic_id="t9"), True),
        (LogBounds(start=0, end=9), False),
    ],
)
def test_a_topic_was_made_anew_if_its_id_is_another_or_its_end_too_low(
    now: LogBounds, made_anew: bool
) -> None:
    bounds = {TP: now, STATE: LogBounds(start=0, end=3, topic_id="t2")}
    view = CutView(CAPTURED, bounds)
    assert view.recreated == (frozenset({TP}) if made_anew else frozenset())
    if made_anew:
        kinds = [finding.kind for finding in bounds_findings(view)]
        assert kinds == ["recreated-V1", "recreated-V2", "recreated-V4"]
        assert reading_ranges(view) == [ReadRange("table", 0, 0, 3)]
    anonymous = with_input(topic_id="")
    assert (TP in CutView(anonymous, bounds).recreated) == (now.end < 2)
    eaten = bounds | {TP: LogBounds(start=0, end=9), STATE: LogBounds(start=0, end=2, topic_id="t2")}
    assert CutView(CAPTURED, eaten).recreated == {STATE}


# -- bounds --------------------------------------------------------------------------------------------------


def test_where_one_that_left_may_have_sent() -> None:
    assert bounds_findings(CutView(CAPTURED, bounds(start=8))) == [
        Finding("unread", "in", 0, 1, app="app", a=1),
        Finding("gone", "in", 0, 2, app="app", a=5, b=8, number=3),
        Finding("gone-left", "in", 0, 5, app="app", b=8),
    ]


def test_where_nobody_has_sent_nothing_in_flight_is_gone() -> None:
    """Not even the first offset: what none of ours wrote is for its writer to keep."""
    external = replace(INPUT, position=0, noted=0, low=0)
    captured = replace(CAPTURED, inputs=(external,), senders=(), processes=CAPTURED.processes[:1])
    assert bounds_findings(CutView(captured, bounds(start=4))) == []


@pytest.mark.parametrize(
    ("now", "lost"),
    [
        ({}, ""),
        ({TP: None}, "in[0]"),
        ({TP: LogBounds(start=0, end=9, topic_id="t9")}, "in[0]"),
        ({TP: LogBounds(start=4, end=9, topic_id="t1")}, "in[0]"),
        ({STATE: LogBounds(start=3, end=9, topic_id="t2")}, ""),
        ({STATE: LogBounds(start=4, end=9, topic_id="t2")}, "table[0]"),
    ],
)
def test_what_cannot_be_assembled_any_more_is_refused_by_name(
    now: dict[TopicPartition, LogBounds | None], lost: str
) -> None:
    """Gone, another topic by now, without what was in flight, or without white changes of a table."""
    view = CutView(CAPTURED, {tp: it for tp, it in (bounds(start=0) | now).items() if it is not None})
    with pytest.raises(OffsetsGoneError, match=re.escape(lost)) if lost else nullcontext():
        require_offsets(view)


def test_ranges_of_an_empty_and_of_a_trimmed_partition() -> None:
    now = bounds(start=4, end=7) | {STATE: LogBounds(start=3, end=3, topic_id="t2")}
    assert reading_ranges(CutView(CAPTURED, now)) == [ReadRange("in", 0, 4, 7)]


def test_v4_last_records_below_the_reading_ranges_are_read_for_themselves() -> None:
    def look_back(captured: Captured, end: int = 7) -> list[ReadRange]:
        view = CutView(captured, bounds(end=end))
        return look_back_ranges(view, reading_ranges(view))

    (sent, written), at = CAPTURED.senders, LOOK_BACK_MAX + 60
    far, busy = (
        replace(sent, process=2, white_end=3, last_seq=0),
        replace(sent, white_end=at - 10, last_seq=60),
    )
    assert look_back(CAPTURED) == []
    near = replace(with_input(position=7, noted=7, low=7), senders=(sent, written, far))
    assert look_back(near) == [ReadRange("in", 0, 2, 5)]
    long = replace(with_input(position=at, noted=at, low=at, log_end=at), senders=(busy, far))
    assert look_back(long, at) == [ReadRange("in", 0, 50, at - 10)]
