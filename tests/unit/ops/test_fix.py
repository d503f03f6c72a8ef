"""`doctor --fix`: what it would change, what that costs, and that it changes exactly that."""

from __future__ import annotations

import json
import time

import pytest
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli import verbs as commands
from snapkafka.errors import LedgerUnusableError
from snapkafka.ops.topic_settings import change_command
from snapkafka.protocol import Hello, InputTopic, Table
from snapkafka.units import format_bytes
from tests.worlds.fakes import FakeCluster, FakeTopic

DAY_MS = 86_400_000


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """An input that keeps a minute and 1 MB, and a changelog that may be compacted at once."""
    made = FakeCluster()
    made.the_admin.topics = {"orders": FakeTopic(4), "stock": FakeTopic(4), "others": FakeTopic(1)}
    made.the_admin.settings = {
        "orders": {"retention.ms": "60000", "retention.bytes": "1000000", "compression.type": "zstd"},
        "stock": {"cleanup.policy": "compact"},
        "others": {"retention.ms": "1"},
    }
    table = Table(name="stock", changelog="stock", partitions=4)
    made.the_ledger.put(
        Hello(n=1, app="shop", inputs=(InputTopic(topic="orders", partitions=4),), tables=(table,))
    )
    monkeypatch.setattr(commands, "connect", lambda bootstrap: made)
    return made


async def test_the_plan_says_before_after_and_the_way_back(cluster: FakeCluster) -> None:
    orders, stock = await ops.plan_fixes(cluster, "ns")
    assert [(c.setting, c.before, c.own, c.after) for c in orders.changes] == [
        ("retention.ms", "60000", "60000", "3600000"),
        ("retention.bytes", "1000000", "1000000", "-1"),
    ]
    assert orders.undo.endswith(
        "--entity-name orders --add-config retention.ms=60000,retention.bytes=1000000"
    )
    assert [(c.setting, c.before, c.own, c.after) for c in stock.changes] == [
        ("min.compaction.lag.ms", "0", None, "3600000")
    ]
    assert stock.undo.endswith("--entity-name stock --delete-config min.compaction.lag.ms")
    assert cluster.the_admin.altered == []


async def test_the_bytes_it_keeps_longer_come_from_how_the_log_grew(cluster: FakeCluster) -> None:
    """240 MB in ten days are 1 MB an hour: 59 minutes more of it."""
    del cluster.the_admin.settings["orders"]["retention.bytes"]
    cluster.the_admin.sizes["orders"] = (240_000_000, round(time.time() * 1_000) - 10 * DAY_MS)
    orders, stock = await ops.plan_fixes(cluster, "ns")
    assert orders.keeps_bytes == pytest.approx(1_000_000 * 59 / 60, rel=0.01)
    assert orders.keeps == "about 983.3 kB on each replica, at its present growth"
    assert stock.keeps_bytes is None
    assert stock.keeps.startswith("unknown: ")


async def test_what_has_no_bound_says_how_much_a_day(cluster: FakeCluster) -> None:
    cluster.the_admin.settings["stock"] = {"cleanup.policy": "delete"}
    sets = Table(name="stock", changelog="stock", partitions=4, sets=True)
    cluster.the_ledger.put(Hello(n=2, app="shop", tables=(sets,)))
    cluster.the_admin.sizes["stock"] = (240_000_000, round(time.time() * 1_000) - 10 * DAY_MS)
    (stock,) = await ops.plan_fixes(cluster, "ns")
    assert stock.keeps == "without bound: about 24.0 MB a day on each replica, at its present growth"
    assert stock.keeps_bytes is None


async def test_it_changes_what_was_shown_and_nothing_else(cluster: FakeCluster) -> None:
    planned = await ops.plan_fixes(cluster, "ns")
    fixed = await ops.apply_fixes(cluster, "ns", planned)
    assert all(item.done for item in fixed)
    assert fixed[0].now == {"retention.ms": "3600000", "retention.bytes": "-1"}
    assert cluster.the_admin.altered == [
        ("orders", {"retention.ms": "3600000", "retention.bytes": "-1"}),
        ("stock", {"min.compaction.lag.ms": "3600000"}),
    ]
    assert await ops.plan_fixes(cluster, "ns") == (), "what was mended is well"


async def test_a_setting_that_somebody_changed_meanwhile_is_left_alone(cluster: FakeCluster) -> None:
    planned = await ops.plan_fixes(cluster, "ns")
    cluster.the_admin.settings["orders"]["retention.ms"] = "70000"
    orders, stock = await ops.apply_fixes(cluster, "ns", planned)
    assert orders.refused == "retention.ms is 70000 now, which differs from the plan"
    assert stock.done
    assert [topic for topic, _ in cluster.the_admin.altered] == ["stock"]


async def test_a_change_that_is_refused_is_reported_and_stops_nothing(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = await ops.plan_fixes(cluster, "ns")
    alter = cluster.the_admin.alter_settings

    async def refuse(topic: str, changes: dict[str, str | None]) -> None:
        if topic == "orders":
            raise LedgerUnusableError("not allowed", hint="grant AlterConfigs")
        await alter(topic, changes)

    monkeypatch.setattr(cluster.the_admin, "alter_settings", refuse)
    orders, stock = await ops.apply_fixes(cluster, "ns", planned)
    assert (orders.done, orders.refused) == (False, "not allowed (grant AlterConfigs)")
    assert stock.done


def call(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(commands.app, ["doctor", "--namespace", "ns", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_with_nobody_to_ask_it_shows_and_changes_nothing(cluster: FakeCluster) -> None:
    status, out, err = call("--fix")
    assert status == 2
    assert "retention.ms: 60000 -> 3600000" in out
    assert "retention.bytes: 1000000 -> -1" in out
    assert "min.compaction.lag.ms: 0 (inherited) -> 3600000" in out
    assert "undo:\n    kafka-configs.sh --bootstrap-server BROKER --alter" in out
    assert "nothing was changed" in err
    status, out, _ = call("--fix", "--json")
    assert status == 2
    reported = json.loads(out)
    assert reported["error"]["code"] == "bad-input"
    assert [item["topic"] for item in reported["planned"]] == ["orders", "stock"]
    assert cluster.the_admin.altered == []


def test_yes_needs_nobody(cluster: FakeCluster) -> None:
    status, out, _ = call("--fix", "--yes")
    assert status == 0
    assert "changed orders: now retention.ms=3600000, retention.bytes=-1" in out
    assert len(cluster.the_admin.altered) == 2
    status, out, _ = call("--fix")
    assert (status, out) == (0, "No topic setting needs a change.\n")


def test_ways_that_exclude_each_other(cluster: FakeCluster) -> None:
    status, _, err = call("--fix", "--acls")
    assert status == 2
    assert "--fix and --acls cannot be combined" in err


def test_kafkas_command_takes_lists_in_brackets() -> None:
    said = change_command("t", {"cleanup.policy": "compact,delete", "retention.ms": None}, "b:1")
    assert said.endswith("--add-config cleanup.policy=[compact,delete] --delete-config retention.ms")


def test_bytes_are_said_as_people_do() -> None:
    assert [format_bytes(n) for n in (0, 999, 1_000, 25_000_000)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "25.0 MB",
    ]
