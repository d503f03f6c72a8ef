"""REST: the contract, literally, what stands around it, and the files of the page."""

import asyncio
import json
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from msgspec.json import encode
from starlette.testclient import TestClient

from snapkafka.assembly import JobResult, JobSpec
from snapkafka.checks import CHECKS
from snapkafka.errors import StorageError
from snapkafka.protocol import CheckResult, Hello, InputTopic, LogEnd, Restore, Verdict
from snapkafka.protocol.records import Abort, Trigger
from snapkafka.service import Settings, document, make_app
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.page_world import forks
from tests.worlds.service_world import STORAGE, asked, assembled, served, until

#: The examples of the contract: names and types are fixed, values are not.
REQUEST = {
    "initiated_by_node_id": "worker-node-42",
    "snapshot_type": "incremental",
    "target_storage_uri": "s3://company-checkpoints/production-stream-01/",
}
ACCEPTED = {
    "snapshot_id": "snap-9874-abcde",
    "status": "INITIATED",
    "initiated_at": "2026-05-23T08:12:00Z",
    "estimated_completion_ms": 1500,
}
SHOWN = {
    "snapshot_id": "snap-9874-abcde",
    "status": "COMPLETED",
    "duration_ms": 1120,
    "total_size_bytes": 10737418240,
    "nodes_completed": 100,
    "nodes_failed": 0,
    "checkpoint_manifest_uri": "s3://company-checkpoints/production-stream-01/snap-9874-abcde.json",
}
DOCUMENT = json.loads(encode(document()))
SCHEMAS = DOCUMENT["components"]["schemas"]


def like(example: dict[str, Any], fields: dict[str, Any], kind: str) -> None:
    """Has an answer every name of the example, with a value of the same type? And is it as the document has it?"""
    assert {name: type(fields[name]) for name in example} == {name: type(example[name]) for name in example}
    Draft202012Validator({**SCHEMAS[kind], "components": DOCUMENT["components"]}).validate(fields)


def is_drawn(client: TestClient, name: str) -> bool:
    answer = client.get(f"/v1/snapshots/{name}/diagram.svg")
    return (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")


def test_the_example_of_the_contract_triggers_a_snapshot() -> None:
    cluster = FakeCluster()
    cluster.the_ledger.clock_ms = 1_779_523_919_998  # the trigger is appended at the time of the example
    Worker(cluster.the_ledger, "shop", "orders", reports=False)
    with served(cluster) as client:
        like(REQUEST, REQUEST, "TriggerRequest")
        answer = client.post("/v1/snapshots/trigger", json=REQUEST | {"snapshot_type": "full"})
        assert (answer.status_code, answer.headers["content-type"]) == (202, "application/json")
        fields = answer.json()
        like(ACCEPTED, fields, "Triggered")
        (trigger,) = [e.record for e in cluster.the_ledger.entries if isinstance(e.record, Trigger)]
        asked_for = (fields["snapshot_id"], "worker-node-42", STORAGE)
        assert (trigger.id, trigger.who, trigger.storage) == asked_for
        assert (fields["initiated_at"], fields["status"]) == (ACCEPTED["initiated_at"], ACCEPTED["status"])
        assert answer.headers["location"] == f"/v1/snapshots/{fields['epoch']}"
        assert fields["estimated_completion_ms"] == 5_000


def test_the_example_of_the_contract_shows_a_snapshot(cluster: FakeCluster, tmp_path: Path) -> None:
    """Each check has what it is about, and is as it was found last. The next one is estimated to take as long."""
    for topic in ("refunds", "returns"):
        Worker(cluster.the_ledger, "shop", topic)
    with served(cluster, (STORAGE, str(tmp_path))) as client:
        manifest = assembled(cluster, client, tmp_path, "snap-9874-abcde")
        answer = client.get("/v1/snapshots/snap-9874-abcde")
        assert answer.status_code == 200
        fields = answer.json()
        like(SHOWN, fields, "Details")
        size = sum(file.bytes for table in manifest.tables for file in table.files)
        place = str(tmp_path / "snap-9874-abcde.json")
        took = {"duration_ms": 3, "nodes_completed": 3}  # of the ledger's own clock: three reports
        expected = SHOWN | took | {"total_size_bytes": size, "checkpoint_manifest_uri": place}
        assert {name: fields[name] for name in SHOWN} == expected and size > 0
        titles = {check["name"]: (check["title"], check["says"]) for check in fields["checks"]}
        assert titles.keys() & CHECKS.keys() and titles.items() <= CHECKS.items()
        found: Any = {"manifest": place, "checks": (CheckResult(name="V1", status="unverifiable", found=4),)}
        cluster.the_ledger.put(Verdict(n=9, epoch=fields["epoch"], verdict="UNVERIFIABLE", **found))
        checks = client.get("/v1/snapshots/snap-9874-abcde").json()["checks"]
        assert checks[0]["status"] == "unverifiable" and is_drawn(client, "snap-9874-abcde")
        again = client.post("/v1/snapshots/trigger", json=asked()).json()
        assert again["estimated_completion_ms"] == 3


def test_lists_are_newest_first_filtered_and_in_pages(cluster: FakeCluster) -> None:
    def ids(query: str) -> list[str]:
        return [row["snapshot_id"] for row in client.get(f"/v1/snapshots?{query}").json()["snapshots"]]

    with served(cluster) as client:
        for number in range(5):
            body = asked(snapshot_id=f"s{number}", initiated_by_node_id="ann" if number % 2 else "bob")
            assert client.post("/v1/snapshots/trigger", json=body).status_code == 202
        until(lambda: client.get("/v1/snapshots").json()["total"] == 5, "all five")
        assert ids("") == ["s4", "s3", "s2", "s1", "s0"]
        before = client.get("/v1/snapshots?limit=2").json()["next_before"]
        assert [ids("limit=2"), ids(f"limit=2&before={before}")] == [["s4", "s3"], ["s2", "s1"]]
        assert client.get("/v1/snapshots?limit=5").json()["next_before"] is None
        assert ids("initiated_by=ann") == ["s3", "s1"]
        assert ids("id_prefix=s4") == ["s4"]
        assert ids("status=FAILED,CAPTURED&type=full&app=shop") == ["s4", "s3", "s2", "s1", "s0"]
        assert ids("type=incremental") == ids("verdict=VERIFIED") == ids("status=FAILED") == []


def test_a_running_one_names_whom_it_waits_for_and_can_be_aborted(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "tills", "sales", reports=False)
    with served(cluster) as client:
        client.post("/v1/snapshots/trigger", json=asked(snapshot_id="s"))
        fields = client.get("/v1/snapshots/s").json()
        assert (fields["status"], fields["nodes_completed"], fields["nodes_total"]) == ("CAPTURING", 1, 2)
        assert any("(tills on box, pid 7) to report" in wait for wait in fields["waits_for"])
        assert fields["phases"]["first_reported_ms"] == 1 and is_drawn(client, "s")
        aborted = client.post("/v1/snapshots/s/abort")
        assert aborted.status_code == 200
        fields = aborted.json()
        assert (fields["status"], fields["nodes_failed"], fields["waits_for"]) == ("FAILED", 1, [])
        failure = {"code": "aborted", "reason": "aborted by the service", "culprit": "the service"}
        assert fields["failure"] == failure and is_drawn(client, "s")
        assert client.post("/v1/snapshots/s/abort").status_code == 200  # again: it stays so
        client.get("/v1/doctor")
        reads = (InputTopic(topic="sales", partitions=1),)
        new = cluster.the_ledger.put(Hello(n=9, app="till", inputs=reads))
        cluster.the_ledger.put(Trigger(n=10, id="t"))
        waits = client.get("/v1/snapshots/t").json()["waits_for"]
        assert any(re.search(rf"process {new} .* inputs, since .*Z", wait) for wait in waits)
        assert "input-unassigned" in {it["code"] for it in client.get("/v1/doctor").json()["found"]}
        assert sum(isinstance(entry.record, Abort) for entry in cluster.the_ledger.entries) == 1
        again = client.post("/v1/snapshots/trigger", json=asked(snapshot_id="s"))
        assert (again.status_code, again.json()["code"]) == (409, "snapshot-failed")


def test_assembly_is_submitted_fails_by_name_and_ends_in_a_verdict(cluster: FakeCluster) -> None:
    """One that has failed can be submitted again, one that runs is the same."""
    calls: list[JobSpec] = []
    released = threading.Event()

    async def job(where: object, spec: JobSpec, notify: Callable[[str], None]) -> tuple[JobResult, ...]:
        calls.append(spec)
        if len(calls) == 1:
            raise StorageError("the disk is full")
        notify("reading")
        while not released.is_set():  # noqa: ASYNC110 -- set by another thread
            await asyncio.sleep(0.005)
        done: Any = {"id": "s", "epoch": int(spec.snapshots[0]), "verdict": "VERIFIED", "good": True}
        return (JobResult(**done, manifest="m.json", checks=()),)

    with served(cluster, assemble=job) as client:
        epoch = client.post("/v1/snapshots/trigger", json=asked(snapshot_id="s")).json()["epoch"]
        where = client.post("/v1/snapshots/s/assemble", json={}).headers["location"]
        until(lambda: client.get(where).json()["state"] == "failed", "the first job")
        assert client.get(where).json()["error"]["code"] == "storage"
        body = {"invariants": ["conservation"]}
        answers = [client.post("/v1/snapshots/s/assemble", json=body) for _ in "ab"]
        assert [(it.status_code, it.json()["job_id"]) for it in answers] == [(202, f"assemble-{epoch}")] * 2
        released.set()
        until(lambda: client.get(where).json()["state"] == "done", "the second job")
        fields = client.get(where).json()
    assert (fields["verdict"], fields["checkpoint_manifest_uri"]) == ("VERIFIED", "m.json")
    _, spec = calls
    assert (spec.snapshots, spec.storage, spec.invariants) == ((str(epoch),), STORAGE, ("conservation",))


def test_only_so_many_jobs_wait_and_a_service_that_stops_ends_them(cluster: FakeCluster) -> None:
    ended = []

    async def job(where: object, spec: JobSpec, **_: object) -> tuple[JobResult, ...]:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(spec.snapshots[0])
        return ()

    with served(cluster, assemble=job, jobs_max=1) as client:
        for name in ("a", "b", "c"):
            client.post("/v1/snapshots/trigger", json=asked(snapshot_id=name))
        statuses = [client.post(f"/v1/snapshots/{n}/assemble", json={}).status_code for n in ("a", "b", "c")]
        assert statuses == [202, 202, 503]
    assert len(ended) == 1  # the other had not begun


def test_health_readiness_and_metrics_and_a_broker_that_is_away(cluster: FakeCluster) -> None:
    """It is named, and found again."""
    cluster.the_ledger.failure = StorageError("no broker")
    app = make_app(cluster, "ns", Settings(roots=(STORAGE,)))
    with TestClient(app, base_url="http://localhost", client=("127.0.0.1", 5)) as client:
        until(lambda: client.get("/readyz").json().get("detail") == "no broker", "the reason")
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/v1/snapshots").json()["detail"] == "no broker"
        cluster.the_ledger.failure = None
        until(lambda: client.get("/readyz").json() == {"status": "ok"}, "the broker to be found again")
        client.post("/v1/snapshots/trigger", json=asked())
        assert client.get("/v1/snapshots").json()["total"] == 1
        text = client.get("/metrics").text
    assert 'snapkafka_service_snapshots{status="CAPTURED"} 1.0' in text
    assert 'route="/v1/snapshots/trigger",status="202"} 1.0' in text
    assert "snapkafka_service_ledger_followed 1.0" in text


def test_restores_are_listed_with_their_stage(cluster: FakeCluster) -> None:
    def listed() -> list[tuple[Any, ...]]:
        found = client.get("/v1/restores").json()["restores"]
        return [(it["plan"], it["stage"], it["reason"], bool(it["closed_at"])) for it in found]

    of: Any = {"snapshot": "friday", "epoch": 9, "apps": ("shop",), "who": "anna"}
    begun = Restore(n=1, plan="p1", stage="begun", **of)
    aborted = Restore(n=1, plan="p1", stage="aborted", reason="asked for")
    for record in (begun, aborted, replace(begun, plan="p2"), replace(begun, plan="p2", author=77)):
        cluster.the_ledger.put(record)
    with served(cluster) as client:
        assert listed() == [("p2", "begun", None, False), ("p1", "aborted", "asked for", True)]
        ends = (LogEnd(topic="orders", partition=0, end=5),)
        cluster.the_ledger.put(Restore(n=1, plan="p2", stage="done", author=77, ends=ends))
        assert listed()[0] == ("p2", "done", None, True)


def test_forks_are_listed_and_read_once_for_many_requests(cluster: FakeCluster) -> None:
    with served(cluster, list_forks=(list_forks := AsyncMock(side_effect=forks))) as client:
        found = client.get("/v1/forks").json()["forks"]
        assert (found[0]["fork"], found[0]["topics"]) == ("drill-7", ["drill-7.orders-0"])
        assert client.get("/v1/forks").json()["forks"] == found
    assert [call.args[1] for call in list_forks.await_args_list] == ["ns"]


PAGE = files("snapkafka.service") / "page"
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


def test_files_of_the_page_are_served_and_nothing_is_asked_of_anybody_else(cluster: FakeCluster) -> None:
    wrong = {"": r"(https?:)?//[a-z0-9-]+\.[a-z]|innerHTML|eval\("}
    wrong["html"] = r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+="
    with served(cluster) as client:
        for name in (file.name for file in PAGE.iterdir()):
            answer, suffix = client.get(f"/page/{name}"), name.rpartition(".")[2]
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith(KINDS[suffix]), name
            used = [it for kind, it in wrong.items() if kind in ("", suffix) and re.search(it, answer.text)]
            assert used == [], name
        assert client.get("/").text == (PAGE / "index.html").read_text("utf-8")
        assert client.get("/page/app.py").status_code == 404
        assert client.get("/openapi.json").json() == DOCUMENT
    for name, read, kind in (("main.js", "row", "SnapshotInfo"), ("detail.js", "told", "Details")):
        fields = set(re.findall(rf"\b{read}\.(\w+)", (PAGE / name).read_text("utf-8")))
        assert fields and fields <= SCHEMAS[kind]["properties"].keys()
