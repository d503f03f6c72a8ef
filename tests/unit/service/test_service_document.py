"""The OpenAPI document against answers of the service: each has the fields that the document names, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from snapkafka.protocol import Abort
from snapkafka.service import openapi
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import in_state
from tests.worlds.service_world import asked, assembled, served, until

DOCUMENT = yaml.safe_load(openapi().read_text("utf-8"))
SNAPSHOT = "/v1/snapshots/{snapshot_id}"


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without a reference at its top."""
    while "$ref" in schema:
        *_, kind, name = schema["$ref"].split("/")
        schema = DOCUMENT["components"][kind][name]
    return schema


def fields_of(schema: dict[str, Any]) -> dict[str, Any]:
    schema = resolved(schema)
    found = dict(schema.get("properties", {}))
    for part in schema.get("allOf", ()):
        found |= fields_of(part)
    return found


def differences(where: str, schema: dict[str, Any], value: Any) -> Iterator[str]:
    """Yield the fields that only one of both has."""
    schema = resolved(schema)
    if isinstance(value, dict) and "additionalProperties" not in schema:
        fields = fields_of(schema)
        yield from (f"{where}.{name} is not in the document" for name in sorted(value.keys() - fields.keys()))
        for name in value.keys() & fields.keys():
            yield from differences(f"{where}.{name}", fields[name], value[name])
    elif isinstance(value, list):
        for item in value:
            yield from differences(f"{where}[]", schema.get("items", {}), item)


@pytest.mark.parametrize(
    ("template", "path", "body"),
    [
        ("/v1/snapshots", "/v1/snapshots", None),
        *((SNAPSHOT, f"/v1/snapshots/{name}", None) for name in ("before", "failed", "running")),
        (f"{SNAPSHOT}/diff", "/v1/snapshots/before/diff?against=after", None),
        (f"{SNAPSHOT}/query", "/v1/snapshots/before/query", {"sql": "SELECT key FROM state"}),
        ("/v1/processes", "/v1/processes", None),
    ],
)
def test_answers_have_the_fields_of_the_document(
    tmp_path: Path, template: str, path: str, body: dict[str, str] | None
) -> None:
    cluster = FakeCluster()
    worker = Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(tmp_path),)) as client:
        assembled(cluster, client, tmp_path, "before", state=[in_state("x", "1")])
        assembled(cluster, client, tmp_path, "after", state=[in_state("x", "2")])
        worker._closes = False
        for name in ("failed", "running"):
            trigger = asked(snapshot_id=name, target_storage_uri=str(tmp_path))
            epoch = client.post("/v1/snapshots/trigger", json=trigger).json()["epoch"]
            if name == "failed":
                cluster.the_ledger.put(Abort(n=3, epoch=epoch, code="ttl", reason="late", culprit="shop"))
        until(lambda: client.get("/v1/snapshots").json()["total"] == 4, "four snapshots")
        answer = client.get(path) if body is None else client.post(path, json=body)
        assert answer.status_code == 200, answer.text
    operation = DOCUMENT["paths"][template]["get" if body is None else "post"]
    schema = resolved(operation["responses"]["200"])["content"]["application/json"]["schema"]
    assert list(differences("", schema, answer.json())) == []
    Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(answer.json())
