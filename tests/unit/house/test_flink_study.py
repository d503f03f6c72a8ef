"""The comparison with Flink: what it says where its tools are missing, and what it computes by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from studies.flink.load import fill, partition_of, share


@pytest.mark.parametrize(("there", "missing"), [((), "Maven"), (("mvn",), "a JDK, 17 or later")])
def test_a_missing_tool_is_named_in_one_line(tmp_path: Path, there: tuple[str, ...], missing: str) -> None:
    for tool in there:
        (tmp_path / tool).write_text("#!/bin/sh\n")
        (tmp_path / tool).chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "studies.flink"],
        env=os.environ | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert done.stderr.splitlines()[0] == f"error: the comparison needs {missing}"
    assert done.stdout == "", "no table is begun"


def test_keys_go_where_kafkas_own_clients_send_them() -> None:
    """By murmur2, whose values for these keys are those of Kafka's own test (`UtilsTest.testMurmur2`)."""
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    assert {key: partition_of(key) for key in known} == {
        key: (value & 0x7FFFFFFF) % 2 for key, value in known.items()
    }


def test_shares_of_values() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (share(values, 0.5), share(values, 0.99), share([7.0], 0.99)) == (51.0, 100.0, 7.0)


def test_records_that_no_broker_takes_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.flink.load.LIMIT_S", 0.1)
    with pytest.raises(AssertionError, match="did not take all records"):
        fill("127.0.0.1:1", "nowhere", 1, changelog=False)
