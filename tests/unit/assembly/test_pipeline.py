"""The SQL of a job: invariants, or predicates that are asked, with their parameters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from snapkafka.assembly import Invariant, Job, JobSpec, pipeline
from snapkafka.assembly.failures import Failures
from snapkafka.assembly.pipeline import invariants_of
from snapkafka.errors import BadInputError, BrokerUnavailableError, SnapkafkaError, StorageError
from snapkafka.manifest_entries import InvariantEntry


def job(**options: Any) -> Job:
    return Job(spec=JobSpec(**options), notify=print, progress=lambda working: None)


def test_parameters_are_those_of_whatever_sql_there_is() -> None:
    wanted, asked = job(invariants=("no_negative",), parameters=("table=balances",)).sql()
    assert ([item.name for item in wanted], asked) == (["no_negative"], ())
    assert "balances" in wanted[0].sql
    wanted, asked = job(asked=("termination",), parameters=("topics=hops",)).sql()
    assert (wanted, [item.name for item in asked]) == ((), ["termination"])
    assert job().sql() == ((), ())


def test_a_parameter_that_nothing_has_is_refused() -> None:
    with pytest.raises(BadInputError):
        job(parameters=("table=balances",)).sql()


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


#: A manifest that cannot be read, one whose snapshot cannot be verified, and two that can.
PLACES = ("/gone.json", "/a.json", "/bad.json", "/b.json")


@pytest.fixture
def verifying(monkeypatch: pytest.MonkeyPatch) -> dict[str, SnapkafkaError]:
    """Verify without a broker; the errors of some places."""
    errors: dict[str, SnapkafkaError] = {
        "/gone.json": StorageError("no such file"),
        "/bad.json": StorageError("bad"),
    }

    def again(path: str, *_: Any) -> Any:
        if path == "/gone.json" and path in errors:
            raise errors[path]
        return SimpleNamespace(view=None, store=SimpleNamespace(scheme="file"), place=path)

    def verified(job: Job, engine: Any, connection: Any, item: Any, *_: Any) -> Any:
        if item.place in errors:
            raise errors[item.place]
        return item.place

    monkeypatch.setattr(pipeline, "_again", again)
    monkeypatch.setattr(pipeline, "_verified", verified)
    monkeypatch.setattr(Job, "offsets", lambda self, view: 1)
    return errors


def verify(*places: str) -> tuple[list[Any], Failures]:
    failures = Failures(lambda line: None)
    return pipeline.verify(job(bootstrap="b:1", manifests=places), failures), failures


def test_a_snapshot_that_cannot_be_verified_does_not_stop_the_others(
    verifying: dict[str, SnapkafkaError],
) -> None:
    results, failures = verify(*PLACES)
    assert results == ["/a.json", "/b.json"]
    assert failures.found == {place: verifying[place] for place in ("/gone.json", "/bad.json")}


def test_alone_it_is_the_error_of_the_job(verifying: dict[str, SnapkafkaError]) -> None:
    for place in verifying:
        with pytest.raises(StorageError):
            verify(place)


def test_where_none_can_be_read_no_engine_starts(
    verifying: dict[str, SnapkafkaError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_again", lambda path, *_: (_ for _ in ()).throw(StorageError(path)))
    results, failures = verify("/a.json", "/b.json")
    assert (results, list(failures.found)) == ([], ["/a.json", "/b.json"])


def test_a_broker_that_is_away_ends_it_for_all(verifying: dict[str, SnapkafkaError]) -> None:
    verifying["/bad.json"] = BrokerUnavailableError("no broker")
    with pytest.raises(BrokerUnavailableError):
        verify(*PLACES)
