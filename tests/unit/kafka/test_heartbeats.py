"""Whose Kafka session is over: processes of the ledger, held against the members of their groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from snapkafka.errors import LedgerUnusableError
from snapkafka.protocol import Dead, Hello
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import served, until

BOTH = ("m-1", "m-2")


@pytest.fixture
def cluster() -> FakeCluster:
    """Two workers of an app, each a member of its group."""
    cluster = FakeCluster()
    for member in BOTH:
        Worker(cluster.the_ledger, "shop", "orders", member=member)
    cluster.the_admin.ids_of_members["shop"] = BOTH
    return cluster


def sessions(cluster: FakeCluster) -> list[tuple[str, str]]:
    """Session and reason of each living process."""
    with served(cluster) as client:
        found: list[dict[str, Any]] = client.get("/v1/processes").json()["processes"]
    return [(one["session"], one["session_why"]) for one in found if one["state"] == "living"]


def test_a_member_holds_its_session_and_one_that_the_coordinator_dropped_does_not(
    cluster: FakeCluster,
) -> None:
    assert sessions(cluster) == [("held", "")] * 2
    cluster.the_admin.ids_of_members["shop"] = ("m-2",)
    assert sessions(cluster) == [("over", ""), ("held", "")]
    cluster.the_admin.ids_of_members.clear()
    assert sessions(cluster) == [("over", "")] * 2


def test_a_view_is_some_seconds_old_at_most(cluster: FakeCluster) -> None:
    now = [1_000_000]
    with served(cluster, clock=lambda: now[0]) as client:

        def over() -> int:
            processes = client.get("/v1/processes").json()["processes"]
            return sum(one["session"] == "over" for one in processes)

        assert over() == 0
        cluster.the_admin.ids_of_members.clear()
        assert over() == 0
        now[0] += 5_001
        assert over() == 2


def test_nobody_is_lost_while_a_member_has_not_announced_itself(cluster: FakeCluster) -> None:
    """It may be one of them under a new id, which recovers its tables."""
    cluster.the_admin.ids_of_members["shop"] = ("m-2", "m-3")
    assert [session for session, _ in sessions(cluster)] == ["unknown", "held"]
    Worker(cluster.the_ledger, "shop", "orders", member="m-3")
    assert [session for session, _ in sessions(cluster)] == ["over", "held", "held"]


def test_a_process_without_a_group_and_one_that_has_left(cluster: FakeCluster) -> None:
    cluster.the_ledger.put(Hello(n=7_000, app="shop:client", host="box", pid=8))
    Worker(cluster.the_ledger, "earlier", "orders")  # of a release that does not report its member
    cluster.the_ledger.put(Dead(n=7_001, dead=0))
    cluster.the_admin.ids_of_members["shop"] = ()
    none = ("unknown", "it is in no consumer group")
    assert sessions(cluster) == [("over", ""), none, none]


def test_what_the_broker_does_not_report_is_unknown_with_the_reason(cluster: FakeCluster) -> None:
    cluster.the_admin.member_failure = LedgerUnusableError("not allowed to describe group shop")
    assert sessions(cluster) == [("unknown", "not allowed to describe group shop")] * 2


def test_a_broker_that_is_slow_holds_nobody_up(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snapkafka.service.routes.BROKER_S", 0.05)
    with served(cluster) as client:
        cluster.the_admin.delay_s = 0.5
        (one, two) = client.get("/v1/processes").json()["processes"]
        assert one["session"] == two["session"] == "unknown"
        assert "not answered" in one["session_why"]
        until(lambda: client.get("/v1/processes").json()["processes"][0]["session"] == "held", "the answer")
