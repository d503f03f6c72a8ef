"""Answers of the service against what is made for their readers: the OpenAPI document, and the page."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from msgspec.json import encode

from snapkafka.checks import CHECKS
from snapkafka.protocol import Abort
from snapkafka.service import ROUTES, document
from tests.unit.service.test_service_rest import ACCEPTED, REQUEST, SHOWN
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import in_state
from tests.worlds.service_world import STORAGE, asked, assembled, served, until

DOCUMENT = json.loads(encode(document()))
SCHEMAS = DOCUMENT["components"]["schemas"]
SNAPSHOT = "/v1/snapshots/{snapshot_id}"
PAGE = files("snapkafka.service") / "page"
FILES = sorted(item.name for item in PAGE.iterdir())
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
#: Route of the document, what is asked, and with which body.
ANSWERS: list[tuple[str, str, dict[str, Any] | None]] = [
    ("/v1/snapshots", "/v1/snapshots", None),
    *((SNAPSHOT, f"/v1/snapshots/{name}", None) for name in ("before", "failed", "running")),
    (f"{SNAPSHOT}/diff", "/v1/snapshots/before/diff?against=after", None),
    (f"{SNAPSHOT}/query", "/v1/snapshots/before/query", {"sql": "SELECT key FROM state"}),
    (f"{SNAPSHOT}/assemble", "/v1/snapshots/before/assemble", {}),
    *((path, path, None) for path in ("/v1/access", "/v1/doctor", "/v1/invariants", "/v1/restores")),
    ("/v1/snapshots/trigger", "/v1/snapshots/trigger", asked()),
    ("/v1/snapshots/trigger", "/v1/snapshots/trigger", asked(ttl_ms=1)),
]


def test_answers_are_those_of_the_document_and_have_what_the_page_reads(tmp_path: Path) -> None:
    """Of snapshots that are assembled, that failed, and that run."""
    cluster = FakeCluster()
    worker = Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(tmp_path), STORAGE)) as client:
        assembled(cluster, client, tmp_path, "before", state=[in_state("x", "1")])
        assembled(cluster, client, tmp_path, "after", state=[in_state("x", "2")])
        worker._reports = False
        for name in ("failed", "running"):
            trigger = asked(snapshot_id=name, target_storage_uri=str(tmp_path))
            epoch = client.post("/v1/snapshots/trigger", json=trigger).json()["epoch"]
            if name == "failed":
                cluster.the_ledger.put(Abort(n=3, epoch=epoch, code="ttl", reason="late", culprit="shop"))
        until(lambda: client.get("/v1/snapshots").json()["total"] == 4, "four snapshots")
        rows = {row["snapshot_id"]: row for row in client.get("/v1/snapshots").json()["snapshots"]}
        told = client.get("/v1/snapshots/before").json()
        for name in rows:  # drawn as soon as there is anything to draw
            answer = client.get(f"/v1/snapshots/{name}/diagram.svg")
            assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml"), name
        for template, path, body in ANSWERS:
            answer = client.get(path) if body is None else client.post(path, json=body)
            assert answer.status_code in (200, 202, 400), answer.text
            operation = DOCUMENT["paths"][template]["get" if body is None else "post"]
            found = operation["responses"].get(str(answer.status_code), operation["responses"]["default"])
            (content,) = found["content"].values()
            schema = {**content["schema"], "components": DOCUMENT["components"]}
            Draft202012Validator(schema).validate(answer.json())
    read = set(re.findall(r"\brow\.(\w+)", (PAGE / "main.js").read_text("utf-8")))
    assert len(read) > 15
    assert all(read <= row.keys() for row in rows.values())
    assert set(re.findall(r"\btold\.(\w+)", (PAGE / "detail.js").read_text("utf-8"))) <= told.keys()
    assert rows["running"]["waits_for"] and rows["failed"]["failure"]["reason"] == "late"
    checks = {check["name"]: (check["title"], check["says"]) for check in told["checks"]}
    assert checks.keys() & CHECKS.keys() and checks.items() <= CHECKS.items()


def test_the_document_has_every_route_once_and_its_schemas_fit_the_contract() -> None:
    operations = [(path, method) for path, item in DOCUMENT["paths"].items() for method in item]
    assert sorted(operations) == sorted((path, method.lower()) for method, path in ROUTES)
    names = {item["operationId"] for path in DOCUMENT["paths"].values() for item in path.values()}
    assert len(names) == len(ROUTES)
    assert SCHEMAS["TriggerRequest"]["additionalProperties"] is False
    limit = DOCUMENT["paths"]["/v1/snapshots"]["get"]["parameters"][-1]
    assert (limit["name"], limit["schema"]["maximum"]) == ("limit", 500)
    for name, example in (("TriggerRequest", REQUEST), ("Triggered", {**ACCEPTED, "epoch": 1, "attempt": 1})):
        Draft202012Validator({**SCHEMAS[name], "components": DOCUMENT["components"]}).validate(example)
    assert SHOWN.keys() <= set(SCHEMAS["SnapshotInfo"]["required"]) | {"total_size_bytes"}


def test_the_guide_of_verdicts_has_the_same_sentences() -> None:
    text = (Path(__file__).parents[3] / "docs" / "explanation" / "verification.md").read_text("utf-8")
    for kind, (title, says) in CHECKS.items():
        assert f"| **{kind} {title}** | {says} |" in text


# -- the files of the page -------------------------------------------------------------------------------------


def test_every_file_is_served_and_there_are_no_others(cluster: FakeCluster) -> None:
    with served(cluster) as client:
        for name in FILES:
            answer = client.get(f"/page/{name}")
            assert answer.status_code == 200, name
            assert answer.headers["content-type"].startswith(KINDS[Path(name).suffix]), name
        assert client.get("/").text == (PAGE / "index.html").read_text("utf-8")
        assert client.get("/page/app.py").status_code == 404
        assert client.get("/openapi.json").json() == DOCUMENT


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_asked_of_anybody_else_and_nothing_is_inline(name: str) -> None:
    text = (PAGE / name).read_text("utf-8")
    assert not re.search(r"(https?:)?//[a-z0-9-]+\.[a-z]", text), name
    assert "innerHTML" not in text
    assert "eval(" not in text
    if name.endswith(".html"):
        assert not re.search(r"<script(?![^>]*\bsrc=)", text)
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=", text)
