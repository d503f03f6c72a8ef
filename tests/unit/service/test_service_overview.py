"""The namespace as a whole over REST: restores, forks, what a client may do, what `doctor` finds, names of checks; and
the page, which asks nothing of anybody else."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.checks import CHECKS
from snapkafka.protocol import Abort, LogEnd, Restore
from snapkafka.service import Tokens
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import STORAGE, asked, assembled, served, until


def begun(n: int, plan: str, **more: Any) -> Restore:
    return Restore(
        n=n, plan=plan, stage="begun", snapshot="friday", epoch=9, apps=("shop",), who="anna", **more
    )


def test_restores_are_listed_with_their_stage(cluster: FakeCluster) -> None:
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


def test_forks_are_listed_and_read_once_for_many_requests(cluster: FakeCluster) -> None:
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

    with served(cluster, list_forks=list_forks) as client:
        (found,) = client.get("/v1/forks").json()["forks"]
        assert (found["fork"], found["topics"], found["created_ms"]) == ("drill-7", ["drill-7.orders"], 1_000)
        assert client.get("/v1/forks").json()["forks"] == [found]
        assert asked == ["ns"]


TOKENS = {"read": "r" * 16, "trigger": "t" * 16, "admin": "a" * 16}
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(("role", "roots"), [("read", []), ("trigger", [STORAGE]), ("admin", [STORAGE])])
def test_a_client_learns_its_role_and_where_it_may_store(
    role: str, roots: list[str], cluster: FakeCluster
) -> None:
    tokens = Tokens.parse("\n".join(f"{name}:{token}" for name, token in TOKENS.items()), "a test")
    with served(cluster, tokens=tokens) as client:
        found = client.get("/v1/access", headers={"Authorization": f"Bearer {TOKENS[role]}"}).json()
        assert client.get("/v1/access").status_code == 401
    assert found == {"namespace": "ns", "role": role, "storage_roots": roots}


def test_each_check_has_a_name_and_a_sentence(tmp_path: Path, cluster: FakeCluster) -> None:
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


# -- the page --------------------------------------------------------------------------------------------------

PAGE = files("snapkafka.service") / "page"
FILES = sorted(item.name for item in PAGE.iterdir())
#: Every route that the modules ask for has to be there.
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def test_every_file_is_served_and_there_are_no_others(cluster: FakeCluster) -> None:
    with served(cluster) as client:
        for name in FILES:
            answer = client.get(f"/page/{name}")
            assert answer.status_code == 200, name
            assert answer.headers["content-type"].startswith(KINDS[Path(name).suffix]), name
        assert client.get("/").text == (PAGE / "index.html").read_text("utf-8")
        assert client.get("/page/app.py").status_code == 404


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_asked_of_anybody_else_and_nothing_is_inline(name: str) -> None:
    text = (PAGE / name).read_text("utf-8")
    assert not re.search(r"(https?:)?//[a-z0-9-]+\.[a-z]", text), name
    assert "innerHTML" not in text
    assert "eval(" not in text
    if name.endswith(".html"):
        assert not re.search(r"<script(?![^>]*\bsrc=)", text)
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=", text)


def test_the_page_has_its_columns_from_the_list(tmp_path: Path) -> None:
    """What the rows of the page read is in every row of the list: running, failed, assembled."""
    cluster = FakeCluster()
    worker = Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(tmp_path),)) as client:
        assembled(cluster, client, tmp_path, "done")
        worker._reports = False
        failed = client.post(
            "/v1/snapshots/trigger", json=asked(snapshot_id="failed", target_storage_uri=str(tmp_path))
        ).json()["epoch"]
        cluster.the_ledger.put(Abort(n=3, epoch=failed, code="ttl", reason="too slow", culprit="shop"))
        client.post("/v1/snapshots/trigger", json=asked(snapshot_id="runs", target_storage_uri=str(tmp_path)))
        until(lambda: client.get("/v1/snapshots").json()["total"] == 3, "three snapshots")
        rows = client.get("/v1/snapshots").json()["snapshots"]
        read = set(re.findall(r"\brow\.(\w+)", (PAGE / "main.js").read_text("utf-8")))
        assert len(read) > 15
        for row in rows:
            assert read <= row.keys()
        by_id = {row["snapshot_id"]: row for row in rows}
        assert by_id["runs"]["waits_for"]
        assert by_id["failed"]["failure"]["reason"] == "too slow"
        reported = set(re.findall(r"\btold\.(\w+)", (PAGE / "detail.js").read_text("utf-8")))
        assert reported <= client.get("/v1/snapshots/done").json().keys()
        for name in by_id:  # drawn as soon as there is anything to draw
            answer = client.get(f"/v1/snapshots/{name}/diagram.svg")
            assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml"), name
