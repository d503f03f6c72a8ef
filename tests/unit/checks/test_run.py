"""V1 to V5 as they run together: one outcome each, what each has read, and the verdict that follows; no V5 where no
record shows its cause."""

from collections.abc import Collection, Set
from dataclasses import replace
from typing import Any

import pytest

from snapkafka.checks import (
    GOOD,
    KINDS,
    OF_STATE,
    WITNESSES_MAX,
    Checked,
    CutLog,
    CutView,
    Examined,
    Finding,
    LogBounds,
    LogRecord,
    ReadRange,
    Status,
    Verdict,
    Weight,
    bounds_findings,
    decide,
    examined,
    external_topics,
    find,
    listed,
    outcome,
    outside_senders,
    reading_ranges,
    witness_of,
)
from snapkafka.checks.listed import Listed
from snapkafka.checks.run import run
from snapkafka.manifest import CheckEntry, ExternalEntry, OutsiderEntry
from snapkafka.protocol import TopicPartition
from snapkafka.protocol.captured_snapshot import Outsider
from tests.spark.damaged_logs import EVERY_KIND, Damaged, damaged
from tests.worlds.little_log import (
    CAPTURED,
    EPOCH,
    LOG,
    RED,
    STATE,
    TABLE,
    TP,
    WHITE,
    shared_changelog,
    with_input,
)

BOUNDS = {TP: LogBounds(start=0, end=7, topic_id="t1"), STATE: LogBounds(start=0, end=3, topic_id="t2")}


def checked(records: list[LogRecord]) -> Checked:
    return run(listed(CutView(CAPTURED), records))


def statuses(result: Checked) -> dict[str, str]:
    return {outcome.name: outcome.status for outcome in result.outcomes}


CAUSE = (TP, 0)


def test_a_consistent_log_passes_and_says_what_was_read() -> None:
    result = checked(LOG)
    assert statuses(result) == dict.fromkeys(["V1", "V2", "V3", "V4"], Status.PASSED)
    view = CutView(CAPTURED)
    read = examined(view, listed(view, LOG).groups)
    assert {
        outcome.name: (outcome.records, outcome.partitions, outcome.channels) for outcome in result.outcomes
    } == {check: read[check] for check in ("V1", "V2", "V3", "V4")}
    assert result.held.keys() == {STATE}
    assert (result.external, result.outside) == ((), ())


@pytest.mark.parametrize(
    ("log", "ran"),
    [
        (LOG, False),
        ([LOG[0]._replace(cause=CAUSE), *LOG[1:]], True),
        ([*LOG[:-1], LOG[-1]._replace(cause=CAUSE)], True),
        ([], True),
        ([LogRecord("in", 0, 0)], True),  # of nobody
        ([record for record in LOG if record.marker], True),
    ],
)
def test_v5_runs_where_a_record_names_its_cause_or_none_is_of_the_snapshots_processes(
    log: list[LogRecord], ran: bool
) -> None:
    assert ("V5" in statuses(checked(log))) is ran


def test_there_is_damage_of_every_kind_and_its_check_finds_it() -> None:
    """In order, and counted; V3 reads the log once more, for the records that show how far compaction has come."""
    asked: list[Collection[ReadRange]] = []

    class Watched(Listed):
        def still_there(self, wanted: Collection[ReadRange]) -> Set[TopicPartition]:
            asked.append(wanted)
            return super().still_there(wanted)

    snapshot = damaged(EVERY_KIND)
    view, of_bounds = snapshot.view, bounds_findings(snapshot.view)
    log = CutLog(view, Watched(view, snapshot.within(snapshot.read)), **snapshot.around_it)
    result, kinds = run(log), {it.kind for it in of_bounds}
    assert len(asked) == 1
    assert statuses(result) == dict.fromkeys(["V1", "V2", "V3", "V4", "V5"], Status.FAILED)
    for entry in result.outcomes:
        found = find(entry.name, log)
        orders = [it.order for it in found]
        assert orders == sorted(orders) and len(orders) > 1
        assert {KINDS[it.kind].check for it in found} == {entry.name}
        kinds |= {it.kind for it in found}
        accuse = [it for it in [*found, *of_bounds] if KINDS[it.kind][:2] == (entry.name, Weight.FAILS)]
        assert entry.found == sum(it.number for it in accuse) > 0
        assert len(entry.witnesses) == min(len(accuse), WITNESSES_MAX)
    crowded = {f"crowded-{check}" for check in ("V1", "V2", "V4", "V5")}  # of a limit, not of damage
    assert kinds == KINDS.keys() - OF_STATE - crowded


def test_what_no_verdict_can_tell_is_handed_on() -> None:
    outsider = LogRecord("in", 0, 1, 50, 0, 1)
    result = checked(
        [*(record for record in WHITE if record.offset != 1), outsider, *TABLE, LogRecord("in", 0, 5)]
    )
    assert result.external == (ExternalEntry(topic="in", mixed=True),)
    assert result.outside == (OutsiderEntry(process=50, app="", topic="in"),)


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


# -- external records, and those of outsiders --------------------------------------------------------------------------

RELAY = Outsider(process=50, app="relay")
OUTSIDE = LogRecord("in", 0, 1, 50, 0, 1)


@pytest.mark.parametrize(
    ("outsider", "changes"),
    [
        (replace(RELAY, cut=True), {}),
        (replace(RELAY, left=True), {}),
        (RELAY, {"offset": 0}),  # below the trigger's end
        (RELAY, {"offset": 2}),  # not received
        (RELAY, {"epoch": EPOCH}),  # red: V2 has it
        (RELAY, {"process": EPOCH + 1}),
        (RELAY, {"marker": True}),
        (RELAY, {"topic": "elsewhere"}),
    ],
)
def test_what_of_an_outsider_leaves_nothing_open(outsider: Outsider, changes: dict[str, Any]) -> None:
    """It cut, or had left; or what it sent was not received, or is judged by its header."""
    view = CutView(replace(CAPTURED, outsiders=(outsider,)))
    assert outside_senders(view, [OUTSIDE._replace(**changes)]) == []


def test_what_is_none_of_the_snapshots_does_not_count() -> None:
    """Past all ends; in a topic that nobody reads; in a changelog, below what its other reader needs."""
    past = [LogRecord("in", 0, 6), LogRecord("in", 0, 60), LogRecord("table", 0, 1)]
    assert external_topics(CutView(CAPTURED), [*WHITE, *past]) == []
    log, captured, bounds = shared_changelog()
    view = CutView(captured, bounds)
    assert external_topics(view, log) == [ExternalEntry(topic="table", mixed=True)]
    below = [record for record in log if record.offset < 4]
    assert external_topics(view, [*below, LogRecord("table", 0, 2)]) == []


# -- what was read ------------------------------------------------------------------------------------------------


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
    ("verdict", "outcomes", "more"),
    [
        (Verdict.VERIFIED, passed("V1", "V2", "V4"), {}),
        (Verdict.VERIFIED_WITH_REPLAYS, passed("V1"), {"replays": 1}),
        (Verdict.VERIFIED_WITH_REPLAYS, [outcome_of("replayed")], {}),
        (Verdict.VERIFIED, [outcome_of("duplicate")], {}),
        (Verdict.VERIFIED_OPEN, passed("V1"), {"open_paths": ["g"], "replays": 1}),
        (Verdict.VERIFIED_OPEN, passed("V1"), {"unread": ["payments reads to-pay"]}),
        (Verdict.INCONSISTENT, [outcome_of("gap")], {"unread": ["payments reads to-pay"]}),
        (Verdict.UNVERIFIABLE, [], {}),
        (Verdict.UNVERIFIABLE, [*passed("V1"), outcome_of("gap-explained")], {"replays": 1}),
        (Verdict.INCONSISTENT, [outcome_of("gap-explained"), outcome_of("gap")], {}),
    ],
)
def test_verdicts(verdict: Verdict, outcomes: list[CheckEntry], more: dict[str, Any]) -> None:
    assert decide(outcomes, **more) is verdict
    assert (verdict in GOOD) is verdict.startswith("VERIFIED")


def test_it_changes_no_verdict_and_replays_do() -> None:
    notes = [Finding(kind, "in", 0, 0, number=n) for kind, n in (("ran-twice", 3), ("cause-unclear", 1))]
    twice = outcome("V5", notes)
    assert (twice.noted, twice.replayed, decide([twice])) == (4, 0, Verdict.VERIFIED)
    both = outcome("V5", [*notes, Finding("replayed", "in", 0, 0)])
    assert (both.noted, both.replayed, decide([both])) == (5, 1, Verdict.VERIFIED_WITH_REPLAYS)


def test_notes_of_topics_are_listed_before_those_of_records() -> None:
    many = [Finding("replayed", "a", 0, offset, 1, 1, "app", 3, 2) for offset in range(30)]
    twice = Finding("ran-twice", "in", 0, 0, 1, app="app", a=2, b=2)
    reported = outcome("V5", [*many, twice])
    assert reported.notes[0] == witness_of(twice)
    assert reported.notes[0].what.startswith("2 events of topic in ran twice in app before the cut")
    assert len(reported.notes) == 20
