"""The SQL of a job: invariants, or predicates that are asked, with their parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from snapkafka.assembly import Invariant, Job, JobSpec, pipeline
from snapkafka.assembly.pipeline import in_words, invariants_of
from snapkafka.errors import BadInputError, BrokerUnavailableError, SnapkafkaError, StorageError
from snapkafka.manifest import FileEntry, InvariantEntry, TableEntry
from tests.unit.base.test_manifest import example


def job(**options: Any) -> Job:
    return Job(spec=JobSpec(**options), notify=print)


def test_parameters_are_those_of_whatever_sql_there_is() -> None:
    wanted, asked = job(invariants=("no_negative",), parameters=("table=balances",)).sql
    assert ([item.name for item in wanted], asked) == (["no_negative"], ())
    assert "balances" in wanted[0].sql
    wanted, asked = job(asked=("termination",), parameters=("topics=hops",)).sql
    assert (wanted, [item.name for item in asked]) == ((), ["termination"])
    assert job().sql == ((), ())


def test_a_parameter_that_nothing_has_is_refused() -> None:
    with pytest.raises(BadInputError):
        assert job(parameters=("table=balances",)).sql


def test_invariants_and_predicates_are_not_asked_at_once() -> None:
    with pytest.raises(BadInputError):
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


def test_a_snapshot_that_cannot_be_verified_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone it is the error of the job; and a broker that is away ends it for all."""
    errors: dict[str, SnapkafkaError] = {it: StorageError("bad") for it in ("/gone.json", "/bad.json")}

    def verified(job: Job, engine: Any, path: str) -> Any:
        if path in errors:
            raise errors[path]
        return path

    def verifying(*places: str) -> Job:
        return job(bootstrap="b:1", manifests=places)

    monkeypatch.setattr(pipeline, "_verified", verified)
    of_all = verifying("/gone.json", "/a.json", "/bad.json", "/b.json")
    found: list[Any] = pipeline.verify(of_all)
    assert found == ["/a.json", "/b.json"]
    assert of_all.failed == errors
    for place in errors:
        with pytest.raises(StorageError):
            pipeline.verify(verifying(place))
    errors["/bad.json"] = BrokerUnavailableError("no broker")
    with pytest.raises(BrokerUnavailableError):
        pipeline.verify(of_all)


def test_what_it_came_to_in_words() -> None:
    of = TableEntry(name="t", path="t", rows=2_500_160, digest="", schema=(), files=())
    file = FileEntry(path="f", bytes=155_000_000, rows=0, sha256="")
    tables = (replace(of, files=(file,)), replace(of, files=(file,), rows=161))
    found = replace(example(), id="friday")
    assert in_words(found, 20_000_000, 80.04, tables) == (
        "friday: read 20,000,000 offsets; wrote 2,500,321 rows in 2 tables, 310.0 MB; checked V1; 80.0 s"
    )
    assert in_words(found, 20_000_000, 80.04) == "friday: read 20,000,000 offsets; checked V1; 80.0 s"
