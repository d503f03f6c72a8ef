"""Where each lookup of `CutView` draws its line, and what follows from the bounds of the log alone."""

import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

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
from snapkafka.protocol.captured_snapshot import BaseCut, Captured, ChangelogCut, ProcessCut
from snapkafka.protocol.offsets import Position, TopicPartition
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


def of(**changes: Any) -> CutView:
    return CutView(replace(CAPTURED, **changes))


#: Process 60 lives; 1 and 2 are of before a restore, and the app of 2 was not restored.
BASE = BaseCut(topic="in", partition=0, end=3, author=50, plan="r", apps=("app",))
BEFORE = tuple(
    ProcessCut(process=it, app=app, left=it < 60) for it, app in ((1, "app"), (60, "app"), (2, "other"))
)
OLD, RESTORED = (of(processes=BEFORE, bases=bases) for bases in ((), (BASE,)))
RESTORED_STATE = of(processes=BEFORE, bases=(replace(BASE, topic="table", end=1),))
LATE, CHANGED = LogRecord("in", 0, 4, 1, 0, 4), LogRecord("table", 0, 2, 1, 0, 2)
LONGER = of(changelogs=(replace(CAPTURED.changelogs[0], end=9),))
#: A changelog that is an input too (or two apps on one topic): past the first end it may be missing somewhere.
ALSO = ChangelogCut(app="b", table="u", topic="in", topic_id="t1", partition=0, end=4, process=1)
BOTH = of(changelogs=(*CAPTURED.changelogs, ALSO))
#: An agent that started out of turn has received that one; another one of the same input may not have.
FAST = Position(agent="f", topic="in", partition=0, offset=2, started_above=(4,))
SLOW = Position(agent="s", topic="in", partition=0, offset=1)
#: What nobody of ours wrote is for its writer to keep, also the first offset.
NOBODYS = with_input(position=0, noted=0, low=0)
NOBODYS = replace(NOBODYS, senders=(), processes=CAPTURED.processes[:1])


def last(captured: Captured, start: int = 0) -> list[TopicPartition]:
    """The partitions whose last records are in flight and in the log."""
    return [tp for tp, _, _ in CutView(captured, bounds(start)).last_in_flight()]


def by_agents(*agents: Position) -> list[list[int]]:
    """The offsets that were received, and those in flight."""
    source = replace(INPUT, agents=agents)
    return [[at for at in range(6) if asked(source, at)] for asked in (received, in_flight)]


def look_back(captured: Captured, end: int = 7, **changes: Any) -> list[ReadRange]:
    view = CutView(replace(captured, **changes), bounds(end=end))
    return look_back_ranges(view, reading_ranges(view))


SENDERS, AT = CAPTURED.senders, LOOK_BACK_MAX + 60
FAR, BUSY = replace(SENDERS[0], process=2, white_end=3, last_seq=0), replace(SENDERS[0], white_end=AT - 10)
EMPTY = bounds(start=4, end=7) | {STATE: LogBounds(start=3, end=3, topic_id="t2")}

#: Questions, and their answers.
LOOKUPS: Mapping[str, tuple[Callable[[], object], object]] = {
    "void: of old processes, behind the base": (
        lambda: [
            RESTORED.is_void(LATE._replace(offset=at, process=it))
            for at, it in ((4, 1), (2, 1), (4, 2), (4, 60))
        ],
        [True, False, False, False],
    ),
    "void: in no channel": (lambda: [it.in_channel(LATE, INPUT) for it in (OLD, RESTORED)], [True, False]),
    "void: in no state": (lambda: [it.in_state(CHANGED) for it in (OLD, RESTORED_STATE)], [True, False]),
    "what running events send lies below the white end": (
        lambda: [VIEW.sent_end(it, TP) for it in (1, 2)],
        [5, 0],
    ),
    "or the marker": (lambda: CutView(with_sender(marker=8)).sent_end(1, TP), 8),
    "or the end of its own changelog": (lambda: [LONGER.sent_end(it, STATE) for it in (1, 2)], [9, 0]),
    "or nowhere": (lambda: VIEW.sent_end(1, OUT), 0),
    "one that left: the earliest end": (lambda: [BOTH.left_end(tp) for tp in (TP, STATE, OUT)], [4, 3, 0]),
    "in a channel": (
        lambda: [it.offset for it in LOG if it.topic == "in" and VIEW.in_channel(it, INPUT)],
        [2, 3, 4],
    ),
    "in none, past its white end": (lambda: VIEW.in_channel(LogRecord("in", 0, 5, 1, 0, 5), INPUT), False),
    "in a channel, of one that left": (
        lambda: [at for at in range(1, 8) if VIEW.in_channel(LogRecord("in", 0, at, 2, 0, 0), INPUT)],
        [2, 3, 4, 5],
    ),
    "in none: external": (lambda: VIEW.in_channel(LogRecord("in", 0, 3), INPUT), False),
    "received, in flight: by position": (by_agents, [[0, 1], [2, 3, 4, 5]]),
    "received, in flight: by an agent": (lambda: by_agents(FAST), [[0, 1, 4], [2, 3, 5]]),
    "received, in flight: by two": (lambda: by_agents(FAST, SLOW), [[0, 1, 4], [1, 2, 3, 4, 5]]),
    "last in flight": (lambda: [last(CAPTURED, start) for start in (0, 4, 5)], [[TP], [TP], []]),
    "last in flight, or received": (lambda: [last(with_input(position=at)) for at in (4, 5)], [[TP], []]),
    "last in flight, if there is one": (
        lambda: [last(with_sender(last_seq=it)) for it in (0, -1)],
        [[TP], []],
    ),
    "gone, and where one that left may have sent": (
        lambda: bounds_findings(CutView(CAPTURED, bounds(start=8))),
        [
            Finding("unread", "in", 0, 1, app="app", a=1),
            Finding("gone", "in", 0, 2, app="app", a=5, b=8, number=3),
            Finding("gone-left", "in", 0, 5, app="app", b=8),
        ],
    ),
    "nothing is gone where nobody has sent": (lambda: bounds_findings(CutView(NOBODYS, bounds(start=4))), []),
    "an empty and a trimmed partition": (
        lambda: reading_ranges(CutView(CAPTURED, EMPTY)),
        [ReadRange("in", 0, 4, 7)],
    ),
    # V4: last records below the reading ranges are read for themselves.
    "nothing to look back for": (lambda: look_back(CAPTURED), []),
    "looks back to both": (
        lambda: look_back(with_input(position=7, noted=7, low=7), senders=(*SENDERS, FAR)),
        [ReadRange("in", 0, 2, 5)],
    ),
    "looks back so far": (
        lambda: look_back(with_input(position=AT, noted=AT, low=AT, log_end=AT), AT, senders=(BUSY, FAR)),
        [ReadRange("in", 0, 50, AT - 10)],
    ),
}


@pytest.mark.parametrize(("ask", "expected"), LOOKUPS.values(), ids=LOOKUPS)
def test_lookups(ask: Callable[[], object], expected: object) -> None:
    assert ask() == expected


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
