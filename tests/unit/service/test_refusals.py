"""What the service refuses, by status, code and field: one table."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

from snapkafka.protocol.records import Trigger
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import asked, assembled, served

TRIGGER: Final = "POST /v1/snapshots/trigger"
LIST: Final = "GET /v1/snapshots?"
QUERY: Final = "POST /v1/snapshots/one/query"
ASSEMBLE: Final = "POST /v1/snapshots/one/assemble"
JSON: Final = {"content-type": "application/json"}
SECRET: Final = "hunter2"
ORIGINS: Final = ("http://evil.example", "null", "http://localhost:9999")
HOSTS: Final = ("evil.example", "evil.example:8023", "127.0.0.1.evil.example", "")
STATEMENTS: Final = ("DELETE FROM state", "SELECT 1; SELECT 2", "nonsense")
PATHS: Final = ("/snapshots", "../x.sql", "/etc/passwd")
URIS: Final = ("/etc", "s3://others/x", "s3://[x", f"s3://me:{SECRET}@b/x", f"s3://me:{SECRET}@a\u2100b/x")


def lacking(name: str) -> dict[str, Any]:
    return {key: value for key, value in asked().items() if key != name}


#: What is asked, with which body or headers; status, code and field of the answer.
REFUSED: Final[list[tuple[str, Any, int, str, str]]] = [
    *((TRIGGER, lacking(name), 400, "bad-input", name) for name in asked()),
    (TRIGGER, asked(colour="red"), 400, "bad-input", "colour"),
    (TRIGGER, asked(snapshot_type=3), 400, "bad-input", "snapshot_type"),
    (TRIGGER, asked(snapshot_type=None), 400, "bad-input", "snapshot_type"),
    (TRIGGER, asked(apps=["a", 1]), 400, "bad-input", "apps[1]"),
    (TRIGGER, asked(apps=["a"] * 201), 400, "bad-input", "apps"),
    (TRIGGER, asked(apps="a"), 400, "bad-input", "apps"),
    *((TRIGGER, asked(ttl_ms=ttl), 400, "bad-input", "ttl_ms") for ttl in (True, "5000", 6_000.5, 1)),
    (TRIGGER, asked(align_timeout_ms=500), 400, "bad-input", "align_timeout_ms"),
    (TRIGGER, asked(snapshot_id="x" * 2_001), 400, "bad-input", "snapshot_id"),
    *((TRIGGER, asked(target_storage_uri=uri), 403, "forbidden", "") for uri in URIS),
    *((TRIGGER, body, 400, "bad-input", "") for body in (b"{", b"[]", b'"x"', b"\xff", b"[" * 60_000)),
    (TRIGGER, b"", 400, "bad-input", "snapshot_type"),
    (TRIGGER, b'{"ttl_ms": NaN}', 400, "bad-input", ""),
    (TRIGGER, b"x" * 70_000, 413, "too-large", ""),
    (TRIGGER, {"content-type": "text/plain"}, 415, "unsupported-media-type", ""),
    *((TRIGGER, {"origin": origin}, 403, "forbidden", "") for origin in ORIGINS),
    *((LIST, {"host": host}, 403, "forbidden", "") for host in HOSTS),
    *((f"{LIST}limit={limit}", None, 400, "bad-input", "limit") for limit in ("0", "501", "x", "+5")),
    *((f"{LIST}before={epoch}", None, 400, "bad-input", "before") for epoch in (0, 2**63)),
    (f"{LIST}status=OPEN", None, 400, "bad-input", "status[0]"),
    (f"{LIST}type=half", None, 400, "bad-input", "type"),
    (f"{LIST}colour=red", None, 400, "bad-input", "colour"),
    (f"{LIST}app=a%00b", None, 400, "bad-input", "app"),
    *((QUERY, {"sql": sql}, 400, "bad-input", "") for sql in STATEMENTS),
    (QUERY, {"sql": "SELECT 1", "rows_max": 1_001}, 400, "bad-input", ""),
    *((ASSEMBLE, {"invariants": [path]}, 400, "bad-input", "") for path in PATHS),
    ("POST /v1/snapshots/one/abort", None, 409, "trigger-refused", ""),  # it is captured
    ("POST /v1/snapshots/running/assemble", {}, 409, "snapshot-failed", ""),
    ("POST /v1/snapshots/running/verify", {}, 404, "unknown-snapshot", ""),
    *((f"GET /v1/snapshots/{of}", None, 404, "unknown-snapshot", "") for of in ("nobody", "999999")),
    ("GET /v1/nothing", None, 404, "not-found", ""),
    ("GET /v1/snapshots/", None, 404, "not-found", ""),
    ("POST /v1/snapshots/trigger/", {}, 404, "not-found", ""),
    ("DELETE /v1/snapshots", None, 405, "method-not-allowed", ""),
    ("GET /v1/jobs/assemble-7", None, 404, "not-found", ""),
    *((f"GET /page/{file}", None, 404, "not-found", "") for file in ("../app.py", "%2e%2e%2fapp.py")),
]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FakeCluster, TestClient]]:
    cluster, folder = FakeCluster(), tmp_path_factory.mktemp("stored")
    worker = Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(folder), "s3://company-checkpoints/")) as client:
        assembled(cluster, client, folder, "one")
        worker._reports = False
        assert client.post("/v1/snapshots/trigger", json=asked(snapshot_id="running")).status_code == 202
        yield cluster, client


@pytest.mark.parametrize(("asks", "given", "status", "code", "field"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_is_a_problem_and_does_nothing(
    system: tuple[FakeCluster, TestClient], asks: str, given: Any, status: int, code: str, field: str
) -> None:
    cluster, client = system
    method, _, path = asks.partition(" ")
    body, headers = given, JSON
    if isinstance(given, Mapping) and given and given.keys() <= {"content-type", "origin", "host"}:
        body, headers = (asked() if method == "POST" else None), JSON | dict(given)
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.request(method, path, content=content, headers=headers, follow_redirects=False)
    found = answer.json()
    assert (answer.status_code, found["code"], found.get("field", "")) == (status, code, field), found
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(found) - {"field"} == {"type", "title", "status", "detail", "code", "hint"}
    assert (found["type"], found["status"]) == (f"urn:snapkafka:problem:{code}", status)
    assert not field or field in found["detail"] or "ttl" in found["detail"]
    assert SECRET not in answer.text
    assert sum(isinstance(entry.record, Trigger) for entry in cluster.the_ledger.entries) == 2


def test_a_body_without_a_length_is_read_as_far_as_it_may_be(system: tuple[FakeCluster, TestClient]) -> None:
    pieces = (b"x" * 1024 for _ in range(100_000))
    answer = system[1].post("/v1/snapshots/trigger", content=pieces, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
