"""Where each lookup of `CutView` draws its line, and what follows from the bounds of the log alone."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import replace

import pytest

from snapkafka.assembly import require_offsets
from snapkafka.checks import EXTERNAL, CutView, Finding, LogBounds, LogRecord, bounds_findings, witness_of
from snapkafka.errors import OffsetsGoneError
from snapkafka.protocol import Renewed, TopicPartition
from tests.worlds.little_log import (
    CAPTURED,
    EPOCH,
    INPUT,
    LOG,
    OUT,
    STATE,
    TABLE,
    TP,
    WHITE,
    with_input,
    with_sender,
)

# -- lookups -------------------------------------------------------------------------------------------------


def test_what_is_white() -> None:
    view = CutView(CAPTURED)
    white = LogRecord("in", 0, 4, 1, EPOCH - 1, 4)
    assert view.counts_white(white)
    assert not view.counts_white(white._replace(offset=5))
    assert not view.counts_white(white._replace(epoch=EPOCH))
    assert not view.counts_white(white._replace(marker=True))
    assert not view.counts_white(white._replace(process=7))
    left = LogRecord("in", 0, 5, 2, 0, 4)
    assert view.counts_white(left)
    assert not view.counts_white(left._replace(offset=6))
    assert not view.counts_white(left._replace(marker=True))


def test_what_is_state() -> None:
    view = CutView(CAPTURED)
    assert view.in_state(TABLE[2])
    assert not view.in_state(TABLE[2]._replace(offset=3))
    assert not view.in_state(TABLE[2]._replace(epoch=EPOCH))
    assert not view.in_state(TABLE[2]._replace(marker=True))
    assert not view.in_state(TABLE[2]._replace(process=EPOCH))
    assert view.in_state(TABLE[2]._replace(process=EPOCH - 1))
    assert view.in_state(TABLE[2]._replace(process=EXTERNAL, epoch=EPOCH))
    assert view.in_state(TABLE[2]._replace(process=2, epoch=EPOCH))
    assert not view.in_state(WHITE[0]), "no changelog"


def test_what_a_process_sends_of_running_events_lies_below_its_marker_and_its_changelogs_end() -> None:
    view = CutView(CAPTURED)
    assert [view.sent_end(process, TP) for process in (1, 2)] == [5, 0]
    assert view.sent_end(1, OUT) == 0
    assert CutView(with_sender(marker=8)).sent_end(1, TP) == 8
    longer = replace(CAPTURED, changelogs=(replace(CAPTURED.changelogs[0], end=9),))
    assert [CutView(longer).sent_end(process, STATE) for process in (1, 2)] == [9, 0]


def test_what_is_in_a_channel() -> None:
    view = CutView(CAPTURED)
    assert [r.offset for r in LOG if r.topic == "in" and view.in_channel(r, INPUT)] == [2, 3, 4]
    assert not view.in_channel(LogRecord("in", 0, 5, 1, 0, 5), INPUT), "past its white end"
    left = [LogRecord("in", 0, offset, 2, 0, 0) for offset in range(1, 8)]
    assert [record.offset for record in left if view.in_channel(record, INPUT)] == [2, 3, 4, 5]
    assert not view.in_channel(LogRecord("in", 0, 3), INPUT), "external: replayable, only the position counts"


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
    assert CutView(CAPTURED, bounds).recreated == (frozenset({TP}) if made_anew else frozenset())
    anonymous = with_input(topic_id="")
    assert (TP in CutView(anonymous, bounds).recreated) == (now.end < 2)
    eaten = bounds | {TP: LogBounds(start=0, end=9), STATE: LogBounds(start=0, end=2, topic_id="t2")}
    assert CutView(CAPTURED, eaten).recreated == {STATE}


# -- bounds --------------------------------------------------------------------------------------------------


def bounds(start: int, end: int = 9) -> dict[TopicPartition, LogBounds]:
    return {
        TP: LogBounds(start=start, end=end, topic_id="t1"),
        STATE: LogBounds(start=0, end=3, topic_id="t2"),
    }


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


def test_a_topic_that_was_recreated_while_a_process_ran_is_reported_with_that_process() -> None:
    """Whatever id the log has by now: who reports a position or a state of the old one took part."""
    twice = replace(CAPTURED, renewed=(Renewed(topic="table", process=1, app="app", since=3),))
    now = bounds(start=0)
    findings = bounds_findings(CutView(twice, now))
    assert [(f.kind, f.topic, f.process) for f in findings] == [
        (f"renewed-{check}", "table", 1) for check in ("V1", "V2", "V3", "V4")
    ]
    assert "recreated since process 1 of app joined" in witness_of(findings[0]).what


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
