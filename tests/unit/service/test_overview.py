"""What a client may do, what `doctor` finds, and the names of the checks, over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.checks import CHECKS
from snapkafka.protocol import Pause
from snapkafka.service import Tokens
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import STORAGE, assembled, served

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
    assert (found["well"], found["apps"]) == (expected.well, {"shop": 1})
    listed = [(item["code"], item["weight"], item["what"], item["do"]) for item in found["findings"]]
    assert listed == [(advice.code, advice.weight, advice.what, advice.do) for advice in expected.found]
    assert len(listed) > 1


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
