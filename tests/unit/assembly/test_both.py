"""Two engines for one verification: where they differ, the first difference is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from snapkafka.assembly import Both, HandOverError, Job, JobSpec, opened
from snapkafka.assembly.both import findings_that_differ, row_that_differs
from snapkafka.checks import Checked, CheckOutcome, CutView, Status, Witness
from snapkafka.checks.v3_state import StateFacts
from snapkafka.errors import BadInputError, InternalError, OffsetsGoneError
from snapkafka.protocol import TopicPartition
from tests.worlds.little_log import CAPTURED

PASSED = CheckOutcome(check="V4", status=Status.PASSED)
NOTE = Witness(check="V4", topic="t", partition=0, offset=7, what="a note")
SAME = Checked([PASSED], {TopicPartition("t", 0): StateFacts(held=3)})


class Fake:
    """An engine with a result, and the rows of one table."""

    def __init__(self, checked: Checked, rows: list[str]) -> None:
        self._checked, self._rows = checked, rows

    def verify(self, *_: Any) -> tuple[Checked, Any]:
        return self._checked, None

    def digests(self, *_: Any) -> dict[str, tuple[int, str]]:
        return {"state": (len(self._rows), str(hash(tuple(self._rows))))}

    def rows(self, *_: Any) -> list[str]:
        return self._rows


def verified(one: Checked, other: Checked, rows: list[str], others: list[str]) -> tuple[Checked, list[str]]:
    lines: list[str] = []
    job = Job(spec=JobSpec(), notify=lines.append, progress=lambda working: None, engine=opened)
    embedded: Any = Fake(one, rows)
    spark: Any = Fake(other, others)
    settings: Any = None
    found, _ = Both(job, embedded, spark).verify(CutView(CAPTURED), settings, (), None)
    return found, lines


def test_where_they_agree_a_line_says_on_what() -> None:
    found, (line,) = verified(SAME, SAME, ["{}", "{}"], ["{}", "{}"])
    assert found is SAME
    assert line.endswith(": both engines agree on 1 checks and 2 rows in 1 tables")


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (
            SAME._replace(outcomes=[replace(PASSED, found=2)]),
            "V4 found is 0 by the embedded one, and 2 by Spark",
        ),
        (SAME._replace(outcomes=[]), "V4 check is V4 by the embedded one, and None by Spark"),
        (SAME._replace(held={}), r"changelog t\[0\] is StateFacts"),
        (
            SAME._replace(outcomes=[replace(PASSED, notes=(NOTE,))]),
            r"V4 notes is None by the embedded one, and Witness\(check='V4', topic='t'",
        ),
    ],
)
def test_a_finding_of_one_engine_alone_is_an_error(other: Checked, named: str) -> None:
    with pytest.raises(InternalError, match=f"the engines differ: {named}"):
        verified(SAME, other, [], [])


def test_the_first_row_of_one_engine_alone_is_shown() -> None:
    with pytest.raises(InternalError, match=r'only Spark has this row of state: \{"a":2\}'):
        verified(SAME, SAME, ['{"a":1}'], ['{"a":1}', '{"a":2}'])
    assert row_that_differs("state", ["x"], []) == "only the embedded one has this row of state: x"
    assert row_that_differs("state", ["x", "x"], ["x"]) == (
        "state has 2 rows by the embedded one, and 1 by Spark"
    )


def test_what_the_embedded_engine_does_not_do_is_refused_in_a_line() -> None:
    class Leaving(Fake):
        def verify(self, *_: Any) -> tuple[Checked, Any]:
            raise HandOverError("base64 in an unusual form")

    embedded: Any = Leaving(SAME, [])
    nothing: Any = None
    job = Job(spec=JobSpec(), notify=print, progress=lambda working: None, engine=opened)
    with pytest.raises(BadInputError, match="the embedded engine does not do base64 in an unusual form"):
        Both(job, embedded, nothing).verify(CutView(CAPTURED), nothing, (), None)


def test_what_shows_only_in_the_tables_is_refused_in_a_line_too() -> None:
    """`verify` computes no table unless it needs one; the comparison does."""

    class Leaving(Fake):
        def digests(self, *_: Any) -> dict[str, tuple[int, str]]:
            raise HandOverError("base64 in an unusual form")

    embedded: Any = Leaving(SAME, [])
    spark: Any = Fake(SAME, [])
    nothing: Any = None
    job = Job(spec=JobSpec(), notify=print, progress=lambda working: None, engine=opened)
    with pytest.raises(BadInputError, match="the embedded engine does not do base64 in an unusual form"):
        Both(job, embedded, spark).verify(CutView(CAPTURED), nothing, (), None)


@pytest.mark.parametrize("missing", ["embedded", "spark"])
def test_a_table_of_one_engine_alone_is_an_error(missing: str) -> None:
    class Without(Fake):
        def digests(self, *_: Any) -> dict[str, tuple[int, str]]:
            return {}

    engines: dict[str, Any] = {
        "embedded": Fake(SAME, []),
        "spark": Fake(SAME, []),
        missing: Without(SAME, []),
    }
    nothing: Any = None
    job = Job(spec=JobSpec(), notify=print, progress=lambda working: None, engine=opened)
    with pytest.raises(InternalError, match=r"the embedded one has the tables \[.*\], and Spark \[.*\]"):
        Both(job, **engines).verify(CutView(CAPTURED), nothing, (), None)


@pytest.mark.parametrize("later", [(SAME._replace(held={}), ["a"]), (SAME, ["b"])])
def test_a_log_that_changes_between_the_engines_accuses_none(later: tuple[Checked, list[str]]) -> None:
    """Compaction may remove a record after one engine has read it."""

    class Changing(Fake):
        def digests(self, *_: Any) -> dict[str, tuple[int, str]]:
            found = super().digests()
            self._checked, self._rows = later
            return found

    embedded: Any = Changing(SAME, ["a"])
    spark: Any = Fake(*later)
    nothing: Any = None
    job = Job(spec=JobSpec(), notify=print, progress=lambda working: None, engine=opened)
    with pytest.raises(OffsetsGoneError, match="the log has changed"):
        Both(job, embedded, spark).verify(CutView(CAPTURED), nothing, (), None)


def test_nothing_differs_from_itself() -> None:
    assert list(findings_that_differ(SAME, SAME)) == []
