"""The OpenAPI document against answers of the service: each has the fields that the document names, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from msgspec import Struct

from snapkafka.protocol import Abort
from snapkafka.service import ROUTES, openapi
from snapkafka.service.requests import AssemblyRequest, QueryRequest, TriggerRequest, VerifyRequest
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import in_state
from tests.worlds.service_world import STORAGE, asked, assembled, served, until

DOCUMENT = yaml.safe_load(openapi().read_text("utf-8"))
SNAPSHOT = "/v1/snapshots/{snapshot_id}"
#: What is no verb of the contract and stands in no table of roles.
OTHERS = {("GET", path) for path in ("/metrics", "/healthz", "/readyz", "/openapi.yaml")}
METHODS = {"get", "post", "put", "delete", "patch"}


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
        ("/v1/snapshots/trigger", "/v1/snapshots/trigger", asked()),
        ("/v1/snapshots/trigger", "/v1/snapshots/trigger", asked(ttl_ms=1)),
    ],
)
def test_answers_have_the_fields_of_the_document(
    tmp_path: Path, template: str, path: str, body: dict[str, Any] | None
) -> None:
    cluster = FakeCluster()
    worker = Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(tmp_path), STORAGE)) as client:
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
        assert answer.status_code in (200, 202, 400), answer.text
    operation = DOCUMENT["paths"][template]["get" if body is None else "post"]
    found = operation["responses"].get(str(answer.status_code), operation["responses"]["default"])
    (content,) = resolved(found)["content"].values()
    schema = content["schema"]
    assert list(differences("", schema, answer.json())) == []
    Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(answer.json())


def operations() -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method.upper(), path): operation
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    }


def test_the_document_has_the_routes_and_no_other() -> None:
    assert set(operations()) == set(ROUTES) | OTHERS
    assert DOCUMENT["openapi"].startswith("3.1.")


def test_every_operation_has_a_name_and_a_problem() -> None:
    names = [operation["operationId"] for operation in operations().values()]
    assert len(set(names)) == len(names)
    assert {operations()[route]["operationId"] for route in ROUTES} == {name for name, _ in ROUTES.values()}
    for operation in operations().values():
        assert operation["responses"]["default"] == {"$ref": "#/components/responses/Problem"}


@pytest.mark.parametrize(
    ("route", "kind"),
    [
        ("/v1/snapshots/trigger", TriggerRequest),
        ("/v1/snapshots/{snapshot_id}/assemble", AssemblyRequest),
        ("/v1/snapshots/{snapshot_id}/verify", VerifyRequest),
        ("/v1/snapshots/{snapshot_id}/query", QueryRequest),
    ],
)
def test_bodies_have_the_fields_of_the_code(route: str, kind: type[Struct]) -> None:
    schema = operations()["POST", route]["requestBody"]["content"]["application/json"]["schema"]
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    assert set(schema["properties"]) == set(kind.__struct_encode_fields__)
    assert schema["additionalProperties"] is False
