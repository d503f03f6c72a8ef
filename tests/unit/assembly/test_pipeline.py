"""The SQL of a job: invariants, or predicates that are asked, with their parameters."""

from __future__ import annotations

from typing import Any

import pytest

from snapkafka.assembly.engines import opened
from snapkafka.assembly.pipeline import Job
from snapkafka.assembly.spec import JobSpec
from snapkafka.errors import BadInputError


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
