"""V1 to V5 as they run together: one outcome each, what each has read, and no V5 where no record shows its cause."""

from __future__ import annotations

from collections.abc import Collection, Set

import pytest

from snapkafka.checks import (
    KINDS,
    WITNESSES_MAX,
    Checked,
    CutLog,
    CutView,
    LogRecord,
    ReadRange,
    Status,
    Weight,
    bounds_findings,
    examined,
    find,
    listed,
)
from snapkafka.checks.listed import Listed
from snapkafka.checks.run import run
from snapkafka.manifest import ExternalEntry, OutsiderEntry
from snapkafka.protocol import TopicPartition
from tests.spark.damaged_logs import EVERY_KIND, damaged
from tests.worlds.little_log import CAPTURED, LOG, STATE, TABLE, TP, WHITE


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


def test_what_is_found_in_records_and_in_bounds_is_counted() -> None:
    """Of every kind there is damage, and each check fails by what it and the bounds of the log show."""
    snapshot = damaged(EVERY_KIND)
    result = run(snapshot.log)
    assert statuses(result) == dict.fromkeys(["V1", "V2", "V3", "V4", "V5"], Status.FAILED)
    of_bounds = bounds_findings(snapshot.view)
    for outcome in result.outcomes:
        here = [*find(outcome.name, snapshot.log), *of_bounds]
        accuse = [it for it in here if KINDS[it.kind][:2] == (outcome.name, Weight.FAILS)]
        assert outcome.found == sum(it.number for it in accuse) > 0
        assert len(outcome.witnesses) == min(len(accuse), WITNESSES_MAX)


@pytest.mark.parametrize("check", ["V1", "V2", "V3", "V4", "V5"])
def test_findings_are_in_order(check: str) -> None:
    orders = [finding.order for finding in find(check, damaged(EVERY_KIND).log)]
    assert orders == sorted(orders) and len(orders) > 1


def test_what_no_verdict_can_tell_is_handed_on() -> None:
    outsider = LogRecord("in", 0, 1, 50, 0, 1)
    result = checked(
        [*(record for record in WHITE if record.offset != 1), outsider, *TABLE, LogRecord("in", 0, 5)]
    )
    assert result.external == (ExternalEntry(topic="in", mixed=True),)
    assert result.outside == (OutsiderEntry(process=50, app="", topic="in"),)


def test_v3_looks_at_the_log_once_more_where_it_changes() -> None:
    """It names the records that show that compaction has not come to them."""
    asked: list[Collection[ReadRange]] = []

    class Watched(Listed):
        def still_there(self, wanted: Collection[ReadRange]) -> Set[TopicPartition]:
            asked.append(wanted)
            return super().still_there(wanted)

    snapshot = damaged(EVERY_KIND)
    source = Watched(snapshot.view, snapshot.within(snapshot.read))
    assert run(CutLog(snapshot.view, source, **snapshot.around_it)) == run(snapshot.log)
    assert len(asked) == 1
