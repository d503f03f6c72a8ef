"""The OpenAPI document, which is made from the code, against answers of the service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from msgspec.json import encode

from snapkafka.protocol import Abort
from snapkafka.service import ROUTES, document
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import in_state
from tests.worlds.service_world import STORAGE, asked, assembled, served, until

DOCUMENT = json.loads(encode(document()))
SNAPSHOT = "/v1/snapshots/{snapshot_id}"


@pytest.mark.parametrize(
    ("template", "path", "body"),
    [
        ("/v1/snapshots", "/v1/snapshots", None),
        *((SNAPSHOT, f"/v1/snapshots/{name}", None) for name in ("before", "failed", "running")),
        (f"{SNAPSHOT}/diff", "/v1/snapshots/before/diff?against=after", None),
        (f"{SNAPSHOT}/query", "/v1/snapshots/before/query", {"sql": "SELECT key FROM state"}),
        (f"{SNAPSHOT}/assemble", "/v1/snapshots/before/assemble", {}),
        *((path, path, None) for path in ("/v1/access", "/v1/doctor", "/v1/invariants", "/v1/restores")),
        ("/v1/snapshots/trigger", "/v1/snapshots/trigger", asked()),
        ("/v1/snapshots/trigger", "/v1/snapshots/trigger", asked(ttl_ms=1)),
    ],
)
def test_answers_are_those_of_the_document(
    tmp_path: Path, template: str, path: str, body: dict[str, Any] | None
) -> None:
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
        answer = client.get(path) if body is None else client.post(path, json=body)
        assert answer.status_code in (200, 202, 400), answer.text
    operation = DOCUMENT["paths"][template]["get" if body is None else "post"]
    found = operation["responses"].get(str(answer.status_code), operation["responses"]["default"])
    (content,) = found["content"].values()
    Draft202012Validator({**content["schema"], "components": DOCUMENT["components"]}).validate(answer.json())


def test_the_document_has_every_route_once() -> None:
    operations = [(path, method) for path, item in DOCUMENT["paths"].items() for method in item]
    assert sorted(operations) == sorted((path, method.lower()) for method, path in ROUTES)
    names = {item["operationId"] for path in DOCUMENT["paths"].values() for item in path.values()}
    assert len(names) == len(ROUTES)
    assert DOCUMENT["components"]["schemas"]["TriggerRequest"]["additionalProperties"] is False
    limit = DOCUMENT["paths"]["/v1/snapshots"]["get"]["parameters"][-1]
    assert (limit["name"], limit["schema"]["maximum"]) == ("limit", 500)
