"""The job as a process: what it does when it has nothing left to do."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from snapkafka.assembly import entry


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
