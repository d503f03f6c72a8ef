"""What a client may do, what `doctor` finds, and the names of the checks, over HTTP."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from snapkafka import ops
from snapkafka.checks import CHECKS
from snapkafka.ops import Details
from snapkafka.protocol import CheckResult, Pause
from snapkafka.service import Tokens, answers
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


def test_without_tokens_everybody_here_may_do_everything() -> None:
    with served(FakeCluster()) as client:
        assert client.get("/v1/access").json()["role"] == "admin"


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


def test_an_invariant_is_called_by_its_own_name() -> None:
    details = cast(Details, SimpleNamespace(checks=(CheckResult(name="V6 money", status="failed", found=2),)))
    (found,) = answers._checks(details, None)
    assert (found["title"], found["says"]) == ("invariant money", CHECKS["V6"][1])


def test_the_page_about_verdicts_has_the_same_sentences() -> None:
    text = (ROOT / "docs" / "explanation" / "verification.md").read_text("utf-8")
    for kind, (title, says) in CHECKS.items():
        assert f"| **{kind} {title}** | {says} |" in text
