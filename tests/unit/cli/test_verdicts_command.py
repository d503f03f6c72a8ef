"""`snapkafka verdicts`: a line of JSON for each verdict."""

from __future__ import annotations

import asyncio
import json

import pytest
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli import app
from snapkafka.cli.commands import verdicts
from snapkafka.protocol import Verdict
from tests.worlds.fakes import FakeCluster, Worker


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster()
    Worker(made.the_ledger, "shop", "orders")
    monkeypatch.setattr(verdicts, "connect", lambda bootstrap: made)
    return made


def lines(*arguments: str) -> list[dict[str, object]]:
    result = CliRunner().invoke(app, ["verdicts", "--namespace", "ns", *arguments])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_each_verdict_is_a_line_and_a_reader_goes_on_where_it_stood(cluster: FakeCluster) -> None:
    epoch = asyncio.run(ops.trigger(cluster, "ns", snapshot_id="friday", wait=True)).epoch
    assert lines() == []
    cluster.the_ledger.put(Verdict(n=1, epoch=epoch, verdict="INCONSISTENT", manifest="/s/friday.json"))
    offset = cluster.the_ledger.put(Verdict(n=2, epoch=epoch, verdict="VERIFIED", manifest="/s/friday.json"))
    first, second = lines()
    assert (first["verdict"], first["good"]) == ("INCONSISTENT", False)
    assert (second["id"], second["epoch"], second["manifest"]) == ("friday", epoch, "/s/friday.json")
    assert second["offset"] == int(str(first["offset"])) + 1
    assert lines("--from", str(second["offset"])) == [second]
    assert lines("--from", str(int(str(second["offset"])) + 1)) == []
    assert isinstance(offset, int)


def test_no_namespace_is_an_error_of_its_own(cluster: FakeCluster) -> None:
    result = CliRunner().invoke(app, ["verdicts", "--namespace", ""])
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == "bad-input"
