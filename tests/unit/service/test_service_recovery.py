"""Restores and forks over REST: what the ledger states of them, and nothing that acts."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from msgspec.json import encode

from snapkafka import ops
from snapkafka.protocol import LogEnd, Restore
from snapkafka.service import document
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import served, until


def fits(name: str, answer: dict[str, Any]) -> bool:
    """The answer has the fields of the document, all of them and no other."""
    found = json.loads(encode(document()))
    schema = found["components"]["schemas"][name]
    Draft202012Validator({**schema, "components": found["components"]}).validate(answer)
    return set(answer) == set(schema["properties"])


def begun(n: int, plan: str, **more: Any) -> Restore:
    return Restore(
        n=n, plan=plan, stage="begun", snapshot="friday", epoch=9, apps=("shop",), who="anna", **more
    )


def test_restores_are_listed_with_their_stage() -> None:
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    ledger = cluster.the_ledger
    ledger.put(begun(1, "p1"))
    ledger.put(Restore(n=2, plan="p1", stage="aborted", reason="asked for"))
    ledger.put(begun(3, "p2"))
    ledger.put(begun(4, "p2", author=77))
    with served(cluster) as client:
        open_one, aborted = client.get("/v1/restores").json()["restores"]
        assert fits("Restore", open_one)
        assert fits("Restore", aborted)
        assert (aborted["plan"], aborted["stage"], aborted["reason"]) == ("p1", "aborted", "asked for")
        assert aborted["closed_at"] is not None
        assert (open_one["stage"], open_one["initiated_by_node_id"]) == ("begun", "anna")
        assert open_one["closed_at"] is None
        end = LogEnd(topic="orders", partition=0, end=5)
        ledger.put(Restore(n=5, plan="p2", stage="done", author=77, ends=(end,)))
        until(lambda: client.get("/v1/restores").json()["restores"][0]["stage"] == "done", "the end")
        done = client.get("/v1/restores").json()["restores"][0]
        assert done["closed_at"] is not None
        for method in ("POST", "DELETE", "PUT"):
            assert client.request(method, "/v1/restores").status_code == 405


def test_forks_are_listed_and_read_once_for_many_requests() -> None:
    asked: list[str] = []
    now = [10_000_000]
    fork = ops.Fork(
        fork="drill-7",
        namespace="drill-7.ns",
        source="ns",
        stage="ready",
        snapshot="friday",
        epoch=9,
        plan="p1",
        apps=("drill-7.shop",),
        topics=("drill-7.orders",),
        created_ms=1_000,
        expires_ms=10_003_000,
        who="anna",
    )

    async def list_forks(where: Any, namespace: str) -> tuple[ops.Fork, ...]:
        asked.append(namespace)
        return (fork,)

    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, list_forks=list_forks, clock=lambda: now[0]) as client:
        (found,) = client.get("/v1/forks").json()["forks"]
        assert fits("ForkView", found)
        assert (found["fork"], found["topics"], found["expired"]) == ("drill-7", 1, False)
        assert found["created_at"] == "1970-01-01T00:00:01Z"
        now[0] += 5_000
        assert client.get("/v1/forks").json()["forks"][0]["expired"] is True
        assert asked == ["ns"]
