"""The page: all of it comes from the package, nothing from anybody else, and its policy lets it run."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from snapkafka.protocol import Abort
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import asked, assembled, served, until

PAGE = files("snapkafka.service") / "page"
FILES = sorted(item.name for item in PAGE.iterdir())
#: Every route that the modules ask for has to be there.
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def test_every_file_is_served_and_there_are_no_others() -> None:
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
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
