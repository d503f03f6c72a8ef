"""V5's note: events that ran twice before the cut, as far as the log shows them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from snapkafka.checks import CutView, Finding, LogRecord, Verdict, decide, outcome, witness_of
from snapkafka.protocol import Captured, ProcessCut, TopicPartition
from snapkafka.wire.headers import topic_check
from tests.worlds.list_checks import v5
from tests.worlds.little_log import CAPTURED, EPOCH, INPUT, TP

#: Process 2 ran offset 0 of `in` before it left, and so did process 1, which has the input now and stands at 2.
BY_2 = LogRecord("table", 0, 0, 2, 0, 0, cause=(TP, 0))
BY_1 = LogRecord("table", 0, 1, 1, 0, 0, cause=(TP, 0))
#: Another worker of the app, with an input of its own.
OTHER = ProcessCut(process=3, app="app")


def found(*records: LogRecord, captured: Captured = CAPTURED, **changes: Any) -> list[Finding]:
    view = CutView(replace(captured, **changes))
    return [finding for finding in v5(view, records) if finding.kind == "ran-twice"]


def test_an_event_of_which_two_workers_left_effects_is_listed_by_topic_and_counted() -> None:
    more = [LogRecord("table", 0, 2, p, 0, p, cause=(TP, 1)) for p in (1, 2)]
    assert found(BY_2, BY_1, *more) == [Finding("ran-twice", "in", 0, 0, 1, app="app", a=2, b=2)]
    assert found(*more, BY_2) == [Finding("ran-twice", "in", 0, 1, 1, app="app", a=1, b=2)]


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (BY_1._replace(process=2), "one worker may send several times of an event"),
        (BY_1._replace(cause=(TP, 1)), "another event"),
        (BY_1._replace(cause=(TopicPartition("other", 0), 0)), "another input"),
        (BY_1._replace(cause=None), "no cause"),
        (BY_1._replace(epoch=EPOCH), "red: after the cut"),
        (BY_1._replace(offset=3), "past the end of what its sender sent in white"),
        (BY_1._replace(marker=True), "a marker is no effect"),
        (BY_1._replace(process=9), "of a process that the snapshot does not know"),
    ],
)
def test_what_shows_no_second_run_is_not_listed(second: LogRecord, why: str) -> None:
    assert found(BY_2, second) == [], why


def test_an_event_at_or_past_the_position_is_a_replay_and_not_counted_again() -> None:
    later = [BY_2._replace(cause=(TP, 2)), BY_1._replace(cause=(TP, 2))]
    assert found(*later) == []
    own = replace(INPUT, earlier=(2,))
    assert "replayed" in [f.kind for f in v5(CutView(replace(CAPTURED, inputs=(own,))), later)]


def test_a_worker_that_was_taken_for_dead_is_one_worker_under_both_ids() -> None:
    """R12: an event that goes on under the second id has not run twice."""
    one, two = CAPTURED.processes
    assert found(BY_2, BY_1, processes=(one, replace(two, formerly=1))) == []
    circle = (replace(one, formerly=1), replace(two, formerly=2))
    assert len(found(BY_2, BY_1, processes=circle)) == 1, (
        "a forged circle ends, and an id is never a later one"
    )
    third = LogRecord("table", 0, 2, 3, 0, 0, cause=(TP, 0))
    sent = replace(CAPTURED.senders[1], process=3)
    listed = found(
        BY_2,
        third,
        processes=(one, replace(two, formerly=1), OTHER),
        senders=(*CAPTURED.senders, sent),
    )
    assert [(f.process, f.b) for f in listed] == [(1, 3)]


def test_it_changes_no_verdict_and_replays_do() -> None:
    notes = [Finding(kind, "in", 0, 0, number=n) for kind, n in (("ran-twice", 3), ("cause-unclear", 1))]
    twice = outcome("V5", notes)
    assert (twice.noted, twice.replayed, decide([twice])) == (4, 0, Verdict.VERIFIED)
    both = outcome("V5", [*notes, Finding("replayed", "in", 0, 0)])
    assert (both.noted, both.replayed, decide([both])) == (5, 1, Verdict.VERIFIED_WITH_REPLAYS)


def test_inputs_with_equal_check_values_are_named() -> None:
    """A cause names its topic by 16 bits. One of another app is none of these."""
    by_check: dict[int, str] = {}
    same = next(
        (by_check[check], name)
        for name in map("t{}".format, range(70_000))
        if (check := topic_check(name)) in by_check or by_check.setdefault(check, name) != name
    )
    inputs = [replace(INPUT, topic=topic) for topic in (*same, "in")]
    other = replace(INPUT, app="other", topic=same[0])
    view = CutView(replace(CAPTURED, inputs=(*inputs, other)))
    found = v5(view, [])
    check = topic_check(same[0])
    assert found == [Finding("cause-unclear", topic, -1, -1, app="app", a=check) for topic in sorted(same)]


def test_notes_of_topics_are_listed_before_those_of_records() -> None:
    many = [Finding("replayed", "a", 0, offset, 1, 1, "app", 3, 2) for offset in range(30)]
    twice = Finding("ran-twice", "in", 0, 0, 1, app="app", a=2, b=2)
    reported = outcome("V5", [*many, twice])
    assert reported.notes[0] == witness_of(twice)
    assert reported.notes[0].what.startswith("2 events of topic in ran twice in app before the cut")
    assert len(reported.notes) == 20
