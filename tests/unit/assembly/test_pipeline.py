"""The SQL of a job: invariants, or predicates that are asked, with their parameters; and what it does at its end."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from snapkafka.assembly import Job, JobSpec, entry, pipeline
from snapkafka.assembly.cluster import ISOLATIONS
from snapkafka.assembly.pipeline import invariants_of, settings_of
from snapkafka.errors import BrokerUnavailableError, SnapkafkaError, StorageError
from snapkafka.manifest import InvariantEntry
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


def test_a_verification_leaves_no_invariant_out() -> None:
    """Else a snapshot whose invariant failed would be VERIFIED by naming another."""
    before = [InvariantEntry(name=it, sql="1") for it in ("money", "token")]
    assert invariants_of(before, []) == before
    found = invariants_of(before, [InvariantEntry(name=it, sql="2") for it in ("money", "other")])
    assert [f"{it.name}: {it.sql}" for it in found] == ["money: 2", "token: 1", "other: 2"]


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_log_is_verified_as_it_was_read_for_the_tables(isolation: str) -> None:
    """What was aborted is a part of one log and not of the other, whatever the options are by now."""
    manifest = replace(example(), isolation=isolation)
    for asked in ISOLATIONS:
        assert settings_of(job(isolation=asked), manifest).spec.isolation == isolation


def test_a_snapshot_that_cannot_be_verified_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone it is the error of the job; and a broker that is away ends it for all."""
    errors: dict[str, SnapkafkaError] = {it: StorageError("bad") for it in ("/gone.json", "/bad.json")}

    def verified(job: Job, engine: Any, path: str) -> Any:
        if path in errors:
            raise errors[path]
        return path

    monkeypatch.setattr(pipeline, "_verified", verified)
    of_all = job(bootstrap="b:1", manifests=("/gone.json", "/a.json", "/bad.json", "/b.json"))
    found: list[Any] = pipeline.verify(of_all)
    assert found == ["/a.json", "/b.json"]
    assert of_all.failed == errors
    for place in errors:
        with pytest.raises(StorageError):
            pipeline.verify(job(bootstrap="b:1", manifests=(place,)))
    errors["/bad.json"] = BrokerUnavailableError("no broker")
    with pytest.raises(BrokerUnavailableError):
        pipeline.verify(of_all)


# -- as a process ----------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


def test_a_jvm_that_is_gone_leaves_no_complaint(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Py4J logs a traceback for each object that it cannot tell the JVM of any more."""
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as jvm:
        context = SimpleNamespace(_gateway=SimpleNamespace(proc=jvm))
        monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(SparkContext=context))
        logging.error("before")
        entry._await_jvm()
        assert jvm.returncode is not None, "it waits for the end"
    logging.error("after")
    assert caplog.messages == ["before"]


def test_a_small_snapshot_starts_neither_pandas_nor_duckdb() -> None:
    """Each takes longer to import than the rest of its assembly takes; both stay usable afterwards."""
    code = """
import sys
from snapkafka.assembly import invariants
from snapkafka.assembly import arrow, digest_of

invariants.require_valid(())
table = arrow("inputs", [{"topic": "orders", "partition": 0, "offset": 7, "headers": []}])
assert invariants.check((), invariants.Tables({}, [])) == [] and digest_of(table) > 0
assert not {"pandas", "duckdb"} & sys.modules.keys(), sys.modules.keys()
assert list(table.to_pandas()["offset"]) == [7]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
