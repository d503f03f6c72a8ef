"""V1, V2 and V4 on a log that a person can hold in the head, each rule broken once; and what follows from it.

Epoch 100. Process 1 lives, 2 has left, 200 was born later. Process 1 sent seq 0 to 4 to `in`[0], offsets 0 to 4, and
its marker at 5; the receiver stood at 2. At offset 6 it sends in red. Every test says what it changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from snapkafka.assembly import require_offsets
from snapkafka.checks import (
    KINDS,
    CutView,
    Finding,
    LogBounds,
    LogRecord,
    ReadRange,
    Status,
    Verdict,
    bounds_findings,
    decide,
    find,
    outcome,
    reading_ranges,
    witness_of,
)
from snapkafka.checks.v4_channels import LOOK_BACK_MAX, look_back_ranges
from snapkafka.errors import OffsetsGoneError
from snapkafka.manifest import CheckEntry
from snapkafka.protocol import (
    BaseCut,
    Captured,
    Position,
    ProcessCut,
    Recorded,
    SenderEnd,
    TopicPartition,
    TornEvent,
)
from tests.spark.damaged_logs import Damaged
from tests.worlds.list_checks import of_left, v1, v2, v4, v5
from tests.worlds.little_log import CAPTURED, EPOCH, INPUT, LOG, STATE, TP, shared_changelog, with_input

BOUNDS = {
    TP: LogBounds(start=0, end=7, topic_id="t1"),
    STATE: LogBounds(start=0, end=3, topic_id="t2"),
}


def found(
    log: list[LogRecord], captured: Captured = CAPTURED, bounds: dict[TopicPartition, LogBounds] = BOUNDS
) -> list[tuple[str, int]]:
    """(kind, offset) of all findings in the log."""
    view = CutView(captured, bounds)
    findings = [*v1(view, log), *v2(view, log), *v4(view, log)]
    return sorted((finding.kind, finding.offset) for finding in findings)


def read_by_another(*missing: int) -> list[tuple[str, int]]:
    """Findings of a changelog that is an input, too."""
    return found(*shared_changelog(*missing))


def test_v1_compaction_below_what_a_reader_needs_is_for_v3_to_judge_too() -> None:
    assert read_by_another() == read_by_another(1, 2) == []
    assert read_by_another(2, 3) == [], "also where it shows in a record behind: nothing is missing from 4 on"
    assert read_by_another(3, 5) == [("gap-explained", 6)], "it may be the one at 5 that is missing"


def test_v1_a_missing_offset_of_another_sender_explains_no_loss_in_flight() -> None:
    """The reader stands at 6. A record of process 1 at 7 was acknowledged and lost, and another one has its offset;
    one at 2 was compacted."""
    numbered = {0: 0, 8: 2, 9: 3}
    log = [LogRecord("table", 0, at, 1, 0, seq) for at, seq in numbered.items()]
    log += [LogRecord("table", 0, at) for at in (1, 3, 4, 5, 6, 7)]
    _, captured, bounds = shared_changelog()
    (reader,), (end,) = captured.inputs, captured.senders
    cut = replace(
        captured,
        inputs=(replace(reader, position=6, noted=6),),
        senders=(replace(end, last_seq=3),),
        recorded=(Recorded(app="audit", sender=1, topic="table", partition=0, start=6, end=10),),
    )
    assert found(log, cut, bounds) == [("gap-explained", 8)]


@pytest.mark.parametrize(("position", "kinds"), [(2, ["gap"]), (3, [])])
def test_v1_the_loss_of_the_first_record_in_flight_shows_by_the_last_one_that_was_received(
    position: int, kinds: list[str]
) -> None:
    """Nothing red lies below the position. Seq 2 was acknowledged and lost, and the next one has its offset; or it was
    received, and nobody is to know."""
    reader = with_input(position=position, noted=position, low=position)
    cut = replace(reader, senders=(replace(CAPTURED.senders[0], white_end=4, marker=-1), CAPTURED.senders[1]))
    log = [*LOG[:2], *(it._replace(offset=it.offset - 1) for it in LOG[3:5])]
    view = CutView(cut, BOUNDS)
    snapshot = Damaged(view, log, reading_ranges(view))
    assert [it.kind for it in find("V1", snapshot.log)] == kinds
    explained = Damaged(CutView(reader, BOUNDS), [*LOG[:2], *LOG[3:]], snapshot.read)
    assert list(find("V1", explained.log)) == [], "an offset is missing, of whatever record"


# -- V2 ------------------------------------------------------------------------------------------------------


def test_v1_what_one_that_left_sent_to_a_partition_that_a_reader_has_not_cut_leaves_it_open() -> None:
    """A partition was added, and one of two apps that read the topic does not know of it yet: of what lies there only
    the living say that it has to be cut."""
    log = [*LOG, LogRecord("in", 0, 7, 2, 0, 0)]
    captured = with_input(log_end=8)
    assert of_left(CutView(captured), log) == []
    elsewhere = replace(captured.inputs[0], app="other", partition=1)
    late = of_left(CutView(replace(captured, inputs=(*captured.inputs, elsewhere))), log)
    assert [(finding.offset, finding.a) for finding in late] == [(7, 0)]


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (LOG[2], "replayed"),
        (LOG[2]._replace(epoch=EPOCH), "effect-of-red"),
        (LOG[2]._replace(process=EPOCH + 1), "effect-of-red"),
        (LOG[2]._replace(process=-1), "replayed"),
        (LOG[2]._replace(process=2, epoch=EPOCH), "replayed"),  # forged: who left before has no such epoch
    ],
)
def test_v5_what_has_a_red_cause_is_no_replay(cause: LogRecord, kind: str) -> None:
    """V5: a replay needs a cause that is not red. One that was taken for dead, and took in a red message, sent this."""
    effect = LogRecord("table", 0, 2, 1, 0, 2, cause=(TopicPartition("in", 0), cause.offset))
    view = CutView(replace(CAPTURED, inputs=(replace(INPUT, receiver=99, earlier=(1,)),)))
    (finding,) = v5(view, [cause, effect])
    assert (finding.kind, finding.a) == (kind, cause.offset)


AUTHOR = 50
#: App `app` was restored before the snapshot: process 60 lives, 1 and 2 are of before.
RESTORED = replace(
    CAPTURED,
    processes=(
        ProcessCut(process=1, app="app", left=True),
        ProcessCut(process=60, app="app"),
        ProcessCut(process=2, app="other", left=True),
    ),
    inputs=(replace(INPUT, receiver=60, earlier=(1,)),),
    bases=(BaseCut(topic="in", partition=0, end=3, author=AUTHOR, plan="r", apps=("app",)),),
)


@pytest.mark.parametrize(
    ("process", "app", "found"),
    [(1, "app", []), (1, "other", ["replayed"]), (60, "app", ["effect-of-later"])],
)
def test_v5_what_was_done_before_a_restore_is_neither_accused_nor_listed(
    process: int, app: str, found: list[str]
) -> None:
    """Its causes are offsets of the inputs as they were then."""
    bases = (replace(RESTORED.bases[0], apps=(app,)),)
    senders = (SenderEnd(process=60, topic="table", partition=0, white_end=3, last_seq=2),)
    view = CutView(replace(RESTORED, bases=bases, senders=senders))
    effect = LogRecord("table", 0, 1, process, 0, 0, cause=(TopicPartition("in", 0), INPUT.position))
    assert [finding.kind for finding in v5(view, [effect])] == found


def test_what_an_old_process_appends_behind_the_base_is_void() -> None:
    view = CutView(RESTORED, BOUNDS)
    late = LogRecord("in", 0, 4, 1, 0, 4)
    assert view.is_void(late) and not view.is_void(late._replace(offset=2))
    assert not view.is_void(late._replace(process=2)), "its app was not restored"
    assert not view.is_void(late._replace(process=60))
    (source,) = RESTORED.inputs
    old = replace(RESTORED, bases=())
    assert CutView(old, BOUNDS).in_channel(late, source) and not view.in_channel(late, source)
    state = replace(RESTORED.bases[0], topic="table", end=1)
    written = LogRecord("table", 0, 2, 1, 0, 2)
    assert CutView(old, BOUNDS).in_state(written)
    assert not CutView(replace(RESTORED, bases=(state,)), BOUNDS).in_state(written)


# -- V4 ------------------------------------------------------------------------------------------------------


def _stripped(log: list[LogRecord], *offsets: int, topic: str = "in") -> list[LogRecord]:
    return [LogRecord(*r[:3]) if r.topic == topic and r.offset in offsets else r for r in log]


def test_v4_a_record_in_flight_without_its_header_is_in_no_snapshot() -> None:
    assert found(_stripped(LOG, 4)) == [("unstamped", 4)]
    assert ("unstamped", 4) in found(_stripped(LOG, *range(7)))


def test_v4_a_changelog_without_headers_leaves_it_unverifiable() -> None:
    """Red writes that precede the last white one are told by their headers only."""
    assert found(_stripped(LOG, *range(3), topic="table")) == [("unstamped-received", 2)]


def test_v4_only_an_acknowledged_record_must_have_its_header() -> None:
    """A sender without white sends here, one with a log end in the place of a result, and what is gone from the log."""
    received = with_input(position=7, noted=7)
    log = _stripped(LOG, *range(7))
    nothing = replace(received.senders[0], white_end=0, last_seq=-1, landed_end=5)
    assert found(log, replace(received, senders=(nothing, received.senders[1]))) == []
    assert found([record for record in log if record[:3] != ("in", 0, 4)], received) == []
    bounds = {**BOUNDS, TP: replace(BOUNDS[TP], start=5)}
    assert ("unstamped-received", 4) not in found(log, received, bounds)


def test_v4_last_records_below_the_reading_ranges_are_read_for_themselves() -> None:
    far = replace(CAPTURED.senders[0], process=2, white_end=3, last_seq=0)
    received = replace(with_input(position=7, noted=7, low=7), senders=(*CAPTURED.senders, far), recorded=())
    view = CutView(received, BOUNDS)
    read = reading_ranges(view)
    assert look_back_ranges(view, read) == [ReadRange("in", 0, 2, 5)]
    assert look_back_ranges(CutView(CAPTURED, BOUNDS), reading_ranges(CutView(CAPTURED, BOUNDS))) == []
    busy = replace(CAPTURED.senders[0], white_end=LOOK_BACK_MAX + 50, last_seq=60)
    at = LOOK_BACK_MAX + 60
    received = replace(
        with_input(position=at, noted=at, low=at, log_end=at), senders=(busy, far), recorded=()
    )
    view = CutView(received, {**BOUNDS, TP: replace(BOUNDS[TP], end=at)})
    assert look_back_ranges(view, reading_ranges(view)) == [ReadRange("in", 0, 50, at - 10)]


# -- the log's bounds ----------------------------------------------------------------------------------------


def test_ranges_of_an_empty_and_of_a_trimmed_partition() -> None:
    bounds = BOUNDS | {STATE: LogBounds(start=3, end=3, topic_id="t2"), TP: LogBounds(start=4, end=7)}
    assert reading_ranges(CutView(CAPTURED, bounds)) == [ReadRange("in", 0, 4, 7)]


@pytest.mark.parametrize(
    "now", [LogBounds(start=0, end=7, topic_id="other"), LogBounds(start=0, end=1, topic_id="t1"), None]
)
def test_a_topic_made_anew_proves_nothing(now: LogBounds | None) -> None:
    bounds = {tp: found for tp, found in (BOUNDS | {TP: now}).items() if found is not None}
    view = CutView(CAPTURED, bounds)
    assert [finding.kind for finding in bounds_findings(view)] == [
        "recreated-V1",
        "recreated-V2",
        "recreated-V4",
    ]
    assert reading_ranges(view) == [ReadRange("table", 0, 0, 3)]
    assert found(LOG, CAPTURED, bounds) == []
    with pytest.raises(OffsetsGoneError):
        require_offsets(view)


# -- outcomes and verdicts -----------------------------------------------------------------------------------


def outcome_of(*kinds: str) -> CheckEntry:
    return outcome(KINDS[kinds[0]].check, [Finding(kind, "in", 0, at) for at, kind in enumerate(kinds)])


def test_a_failure_outweighs_what_could_not_be_seen() -> None:
    both = outcome_of("gap-explained", "gap", "duplicate")
    assert (both.status, both.found, both.noted) == (Status.FAILED, 1, 1)
    assert [witness.offset for witness in both.witnesses] == [1]
    assert outcome_of("gap-explained").status is Status.UNVERIFIABLE


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_sentence(kind: str) -> None:
    witness = witness_of(Finding(kind, "in", 3, 4, 5, 6, "app", 7, 8))
    assert "{" not in witness.what
    assert (witness.topic, witness.partition, witness.offset) == ("in", 3, 4)


def passed(*checks: str) -> list[CheckEntry]:
    return [CheckEntry(name=check, status=Status.PASSED) for check in checks]


@pytest.mark.parametrize(
    ("verdict", "make"),
    [
        (Verdict.VERIFIED, lambda: decide(passed("V1", "V2", "V4"))),
        (Verdict.VERIFIED_WITH_REPLAYS, lambda: decide(passed("V1"), replays=1)),
        (Verdict.VERIFIED_WITH_REPLAYS, lambda: decide([outcome_of("replayed")])),
        (Verdict.VERIFIED_WITH_REPLAYS, lambda: decide([outcome_of("replayed")], replays=1)),
        (Verdict.VERIFIED, lambda: decide([outcome_of("duplicate")])),
        (Verdict.VERIFIED_OPEN, lambda: decide(passed("V1"), open_paths=["g"])),
        (Verdict.VERIFIED_OPEN, lambda: decide(passed("V1"), unread=["payments reads to-pay"])),
        (Verdict.INCONSISTENT, lambda: decide([outcome_of("gap")], unread=["payments reads to-pay"])),
        (Verdict.UNVERIFIABLE, lambda: decide([])),
        (Verdict.UNVERIFIABLE, lambda: decide([*passed("V1"), outcome_of("gap-explained")], replays=1)),
        (Verdict.INCONSISTENT, lambda: decide([outcome_of("gap-explained"), outcome_of("gap")])),
    ],
)
def test_verdicts(verdict: Verdict, make: Callable[[], Verdict]) -> None:
    assert make() is verdict
    assert verdict.good is verdict.startswith("VERIFIED")


def test_v5_torn_events_and_replays_are_listed_not_accused() -> None:
    effect = LOG[0]._replace(cause=(TopicPartition("in", 0), INPUT.position))
    for earlier, kind in (((effect.process,), "replayed"), ((-1,), "replayed"), ((), "effect-of-later")):
        other = CutView(replace(CAPTURED, inputs=(replace(INPUT, receiver=99, earlier=earlier),)))
        assert [f.kind for f in v5(other, [effect])] == [kind], "who read it later replays nothing"
    agent = Position(
        agent="a", topic="in", partition=0, offset=INPUT.position, replay_until=INPUT.position + 1
    )
    own = replace(INPUT, receiver=effect.process, agents=(agent,))
    assert [f.kind for f in v5(CutView(replace(CAPTURED, inputs=(own,))), [effect])] == ["replayed"]
    torn = TornEvent(agent="a", topic="in", partition=0, offset=INPUT.position, was=0, met=EPOCH)
    processes = tuple(replace(cut, torn=(torn,)) for cut in CAPTURED.processes)
    assert v5(CutView(replace(CAPTURED, processes=processes)), [effect]) == []
