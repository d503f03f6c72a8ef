"""What people do with the page, in a real Chromium, and the document of the REST interface against the service.

Beside the browser they need `make .venv/web/.ready`: Playwright, axe and schemathesis have an environment of their own.
"""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import encode

from snapkafka import ops
from snapkafka.checks import CHECKS
from snapkafka.protocol import Trigger
from snapkafka.service import document as made
from tests.worlds.fakes import FakeCluster
from tests.worlds.page_world import SIZES, assembling, serving, small_system, system

ROOT = Path(__file__).parents[2]
WEB = ROOT / ".venv" / "web" / "bin"

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


def used(part: str, cluster: FakeCluster, folder: Path, **more: Any) -> dict[str, Any]:
    """Serve the system, and run a part of `use_page.py`; nothing goes wrong on the console of the browser."""
    with serving(cluster, str(folder / "snaps"), **more) as url:
        command = [WEB / "python", "-m", "tests.e2e.use_page", part, url, folder / "shots"]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=500, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    assert seen["serious"] == []
    return seen


def test_a_direct_link_knows_the_others_and_what_is_expired_is_red(tmp_path: Path) -> None:
    cluster = small_system(tmp_path / "snaps")
    cluster.the_admin.delay_s = 1.0  # an answer comes later than that of the ledger
    seen = used("links", cluster, tmp_path)
    assert seen["others"] == ["broken", "tuesday"]
    assert seen["filtered"] == ["broken", "monday"]
    assert seen["until"]
    assert seen["closed"]
    text, colour, bad = seen["red"]
    assert text.startswith("expired ")
    assert colour == f"rgb({', '.join(str(int(bad.strip()[at : at + 2], 16)) for at in (1, 3, 5))})"
    assert seen["errors"] == []


async def test_checks_values_charts_and_findings_are_on_the_page(tmp_path: Path) -> None:
    cluster = small_system(tmp_path / "snaps")
    expected = await ops.doctor(cluster, "shop")
    seen = used("contents", cluster, tmp_path)
    for text, (kind, (title, says)) in zip(seen["checks"], CHECKS.items(), strict=False):
        assert text.split("\n") == [f"{kind} {title}", says]
    assert len(seen["checks"]) == 5
    assert seen["keys"] == [
        ["bank", "balances", "added", "dora", "", "4"],
        ["bank", "balances", "changed", "ben", "7", "9"],
        ["bank", "balances", "removed", "cleo", "1", ""],
    ]
    done = sorted(int(text.removesuffix(" ms")) for text in seen["durations"] if text.endswith(" ms"))
    p50, p99 = (done[math.ceil(part * len(done)) - 1] for part in (0.5, 0.99))
    duration, size, outcomes = seen["captions"]
    assert duration == f"Duration of 4: p50 {p50} ms, p99 {p99} ms"
    assert size.startswith("Size of 3: p50 ")
    assert outcomes == "Outcomes of 5"
    assert seen["bars"] == [4, 3]
    assert [title.split(":")[0] for title in seen["titles"]] == ["monday", "tuesday", "broken", "captured"]
    assert seen["outcomes"] == ["VERIFIED 2", "INITIATED 1", "CAPTURED 1", "INCONSISTENT 1"]
    summary, findings = seen["doctor"]
    assert summary.startswith("Doctor: ")
    assert [line.split("\n")[0] for line in findings] == [f"{it.weight}: {it.what}" for it in expected.found]
    assert findings
    assert seen["errors"] == []


def test_buttons_take_abort_and_assemble(tmp_path: Path) -> None:
    cluster, folder = small_system(tmp_path / "snaps"), tmp_path / "snaps"
    seen = used("acts", cluster, tmp_path, assemble=assembling(cluster, folder))
    assert seen["storage"] == str(folder)
    (taken,) = (
        entry.record
        for entry in cluster.the_ledger.entries
        if isinstance(entry.record, Trigger) and entry.record.who == "the page"
    )
    assert (taken.id, taken.type, taken.storage) == (seen["taken"], "full", str(folder))
    assert seen["aborted"] == ["aborted", 0]
    assert seen["assembled"] == 0
    assert [line for line in seen["errors"] if "403" not in line] == []  # the refused storage


def test_diagrams_of_up_to_a_hundred_processes(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    seen = used("draws", system(tmp_path / "snaps"), tmp_path)
    rows = {row[1].split()[0]: row for row in seen["rows"]}
    assert list(rows) == ["running", "failed", "hundred", "twenty", "one"]
    assert "waits for" in rows["running"][1]
    assert "ttl: not captured within 5000 ms" in rows["failed"][1]
    assert "latest good" in rows["hundred"][1]
    for name, processes in SIZES.items():
        assert rows[name][5] == f"{processes}/{processes}"
        assert seen[name] == processes, "the cut of each"
    found = seen["gestures"]
    assert found["collapsed"] == ["shop-1, 5 processes"]
    assert len(found["filtered"]) == 3
    assert all("order-7" in title for title in found["filtered"])
    assert found["left"] == "hidden here: lines 1, messages 57"
    assert found["traced"] >= 1
    assert "snapkafka trace orders-7 0" in found["chain"]
    assert found["again"] == 0
    assert " ".join(found["catalog"]) == "around channels in_flight messages positions processes state"
    assert [(row[0], row[1]) for row in seen["recovery"]] == [
        ("begun", "twenty"),
        ("aborted\na worker joined", "twenty"),
        ("drill-7", "ready"),
        ("try", "ready"),
    ]
    assert seen["recovery"][3][6].endswith("expired")
    assert seen["errors"] == []
    if pytestconfig.getoption("--rewrite"):
        for name in ("twenty", "hundred"):
            picture = f"page-{name}.png"
            (ROOT / "docs" / "guide" / picture).write_bytes((tmp_path / "shots" / picture).read_bytes())


def test_the_openapi_document_against_the_service(tmp_path: Path) -> None:
    """schemathesis: every answer is one of the document, and none is a 500.

    Not checked: that whatever fits the schemas is accepted. SQL that is no SELECT fits, and is refused by name.
    """
    document = tmp_path / "openapi.json"
    document.write_bytes(encode(made()))
    (tmp_path / "schemathesis.toml").write_text(
        "[checks]\nnegative_data_rejection.expected-statuses = [400, 403, 404, 409, 413, 415, 503]\n"
    )
    cluster = system(tmp_path / "snaps")
    with serving(cluster, str(tmp_path / "snaps")) as url:
        command = [str(WEB / "schemathesis"), "run", str(document), "--url", url.rstrip("/"), "--seed", "7"]
        command += ["--max-examples", "25", "--request-timeout", "20", "--exclude-path-regex", "/events$"]
        command += ["--phases", "examples,coverage,fuzzing", "--exclude-checks", "positive_data_acceptance"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=800, cwd=tmp_path)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
