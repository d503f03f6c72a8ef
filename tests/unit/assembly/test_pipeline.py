"""The SQL of a job: invariants, or predicates that are asked, with their parameters."""

from __future__ import annotations

from typing import Any

import pytest

from snapkafka.assembly.engines import opened
from snapkafka.assembly.pipeline import Job, invariants_of
from snapkafka.assembly.spec import JobSpec
from snapkafka.checks.invariants import Invariant
from snapkafka.errors import BadInputError
from snapkafka.manifest import InvariantEntry


def job(**options: Any) -> Job:
    return Job(spec=JobSpec(**options), notify=print, progress=lambda working: None, engine=opened)


def test_parameters_are_those_of_whatever_sql_there_is() -> None:
    wanted, asked = job(invariants=("no_negative",), parameters=("table=balances",)).sql()
    assert ([item.name for item in wanted], asked) == (["no_negative"], ())
    assert "balances" in wanted[0].sql
    wanted, asked = job(asked=("termination",), parameters=("topics=hops",)).sql()
    assert (wanted, [item.name for item in asked]) == ((), ["termination"])
    assert job().sql() == ((), ())


def test_a_parameter_that_nothing_has_is_refused() -> None:
    with pytest.raises(BadInputError, match="has a parameter"):
        job(parameters=("table=balances",)).sql()


def test_invariants_and_predicates_are_not_asked_at_once() -> None:
    with pytest.raises(BadInputError, match="either invariants or asked"):
        job(invariants=("no_negative",), asked=("termination",))


@pytest.mark.parametrize(
    ("given", "record", "run"),
    [
        ((), False, ["money: 1", "token: 1"]),
        ((), True, ["money: 1", "token: 1"]),
        (("other",), False, ["other: 2"]),
        (("other",), True, ["other: 2", "money: 1", "token: 1"]),
        (("money",), True, ["money: 2", "token: 1"]),
    ],
)
def test_a_verdict_for_the_ledger_leaves_no_invariant_out(
    given: tuple[str, ...], record: bool, run: list[str]
) -> None:
    """Else a snapshot whose invariant failed would be VERIFIED by naming another."""
    before = [InvariantEntry(name=it, sql="1") for it in ("money", "token")]
    found = invariants_of(before, tuple(Invariant(name=it, sql="2") for it in given), record=record)
    assert [f"{it.name}: {it.sql}" for it in found] == run
