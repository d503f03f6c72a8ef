"""Answers of the service against what is made for their readers: the OpenAPI document, and the page."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from msgspec.json import encode

from snapkafka.checks import CHECKS
from snapkafka.protocol import Abort, CheckResult, Verdict
from snapkafka.service import ROUTES, document
from tests.unit.service.test_service_rest import ACCEPTED, REQUEST, SHOWN
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import in_state
from tests.worlds.service_world import STORAGE, asked, assembled, served

DOCUMENT = json.loads(encode(document()))
SCHEMAS = DOCUMENT["components"]["schemas"]
SNAPSHOT = "/v1/snapshots/{snapshot_id}"
PAGE = files("snapkafka.service") / "page"
FILES = sorted(item.name for item in PAGE.iterdir())
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def test_what_the_page_reads_is_there() -> None:
    for file, name, kind in (("main.js", "row", "SnapshotInfo"), ("detail.js", "told", "Details")):
        read = set(re.findall(rf"\b{name}\.(\w+)", (PAGE / file).read_text("utf-8")))
        assert read and read <= SCHEMAS[kind]["properties"].keys()


def test_a_snapshot_is_drawn_as_soon_as_there_is_anything_to_draw(tmp_path: Path) -> None:
    """One that is assembled, one that failed, and one that runs; of the first each check says what it is about."""
    cluster = FakeCluster()
    worker = Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(tmp_path), STORAGE)) as client:
        assembled(cluster, client, tmp_path, "good", state=[in_state("x", "1")])
        worker._reports = False
        for name in ("failed", "running"):
            epoch = client.post("/v1/snapshots/trigger", json=asked(snapshot_id=name)).json()["epoch"]
            if name == "failed":
                cluster.the_ledger.put(Abort(n=3, epoch=epoch, code="ttl", reason="late", culprit="shop"))
        for name in ("good", "failed", "running"):
            answer = client.get(f"/v1/snapshots/{name}/diagram.svg")
            assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml"), name
        found = client.get("/v1/snapshots/good").json()
        later = (CheckResult(name="V1", status="unverifiable", found=4),)
        more: Any = {"verdict": "UNVERIFIABLE", "manifest": found["checkpoint_manifest_uri"], "checks": later}
        cluster.the_ledger.put(Verdict(n=9, epoch=found["epoch"], **more))
        assert client.get("/v1/snapshots/good").json()["checks"][0]["status"] == "unverifiable"
        assert client.get("/v1/snapshots/failed").json()["failure"]["reason"] == "late"
    titles = {check["name"]: (check["title"], check["says"]) for check in found["checks"]}
    assert titles.keys() & CHECKS.keys() and titles.items() <= CHECKS.items()


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
