"""The OpenAPI document is written by hand: it names the routes that there are, and answers are as it says."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from msgspec import Struct

from snapkafka.service import ROUTES, openapi
from snapkafka.service.requests import AssemblyRequest, QueryRequest, TriggerRequest, VerifyRequest
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import asked, served

DOCUMENT: dict[str, Any] = yaml.safe_load(openapi().read_text("utf-8"))
#: What is no verb of the contract and stands in no table of roles.
OTHERS = {("GET", path) for path in ("/metrics", "/healthz", "/readyz", "/openapi.yaml")}
METHODS = {"get", "post", "put", "delete", "patch"}


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
    assert set(schema["properties"]) == set(kind.__struct_fields__)
    assert schema["additionalProperties"] is False


def test_answers_are_as_the_document_says_and_have_no_field_more() -> None:
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    Worker(cluster.the_ledger, "tills", "sales", closes=False)
    with served(cluster) as client:
        triggered = client.post("/v1/snapshots/trigger", json=asked(snapshot_id="s"))
        answers = {
            "Triggered": triggered.json(),
            "Snapshot": client.get("/v1/snapshots").json()["snapshots"][0],
            "SnapshotDetail": client.get("/v1/snapshots/s").json(),
            "Problem": client.post("/v1/snapshots/trigger", json=asked(ttl_ms=1)).json(),
        }
    schemas = DOCUMENT["components"]["schemas"]
    for name, answer in answers.items():
        Draft202012Validator({**schemas[name], "components": DOCUMENT["components"]}).validate(answer)
        known = set(schemas[name].get("properties", ()))
        for part in schemas[name].get("allOf", ()):
            known |= set((schemas["Snapshot"] if "$ref" in part else part)["properties"])
        assert set(answer) == known, name
