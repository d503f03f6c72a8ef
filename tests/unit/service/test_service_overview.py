"""The namespace as a whole over REST: restores, forks, what a client may do, what `doctor` finds, names of checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import encode

from snapkafka import ops
from snapkafka.checks import CHECKS
from snapkafka.protocol import LogEnd, Pause, Restore
from snapkafka.service import Tokens
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import STORAGE, assembled, served, until


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
    with served(cluster, list_forks=list_forks) as client:
        (found,) = client.get("/v1/forks").json()["forks"]
        assert (found["fork"], found["topics"], found["created_ms"]) == ("drill-7", ["drill-7.orders"], 1_000)
        assert client.get("/v1/forks").json()["forks"] == [found]
        assert asked == ["ns"]


TOKENS = {"read": "r" * 16, "trigger": "t" * 16, "admin": "a" * 16}
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(("role", "roots"), [("read", []), ("trigger", [STORAGE]), ("admin", [STORAGE])])
def test_a_client_learns_its_role_and_where_it_may_store(role: str, roots: list[str]) -> None:
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    tokens = Tokens.parse("\n".join(f"{name}:{token}" for name, token in TOKENS.items()), "a test")
    with served(cluster, tokens=tokens) as client:
        found = client.get("/v1/access", headers={"Authorization": f"Bearer {TOKENS[role]}"}).json()
        assert client.get("/v1/access").status_code == 401
    assert found == {"namespace": "ns", "role": role, "storage_roots": roots}


async def test_the_service_finds_what_doctor_finds() -> None:
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    cluster.the_ledger.put(Pause(n=1, paused=True))
    expected = await ops.doctor(cluster, "ns")
    with served(cluster) as client:
        found = client.get("/v1/doctor").json()
    assert found == json.loads(encode(expected))
    assert len(found["found"]) > 1


def test_each_check_has_a_name_and_a_sentence(tmp_path: Path) -> None:
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(tmp_path),)) as client:
        assembled(cluster, client, tmp_path, "done")
        checks = {check["name"]: check for check in client.get("/v1/snapshots/done").json()["checks"]}
    assert checks.keys() & CHECKS.keys()
    for name in checks.keys() & CHECKS.keys():
        assert (checks[name]["title"], checks[name]["says"]) == CHECKS[name]


def test_the_page_about_verdicts_has_the_same_sentences() -> None:
    text = (ROOT / "docs" / "explanation" / "verification.md").read_text("utf-8")
    for kind, (title, says) in CHECKS.items():
        assert f"| **{kind} {title}** | {says} |" in text
