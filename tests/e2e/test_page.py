"""The page in a real Chromium, and the document of the REST interface against the service, both from outside.

Beside the browser they need `make .venv/web/.ready`: Playwright, axe and schemathesis have an environment of their own.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from msgspec.json import encode

from snapkafka.service import document as made
from tests.worlds.page_world import SIZES, serving, system

ROOT = Path(__file__).parents[2]
WEB = ROOT / ".venv" / "web" / "bin"

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


def test_the_page_in_a_real_browser(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """At 1, 20 and 100 processes, by the keyboard, in both themes; nothing serious by axe; nobody else is asked."""
    with serving(system(tmp_path / "snaps"), str(tmp_path / "snaps")) as url:
        command = [
            str(WEB / "python"),
            str(ROOT / "tests" / "e2e" / "look_at_page.py"),
            url,
            str(tmp_path / "shots"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    assert seen["columns"] == [
        "Status", "Snapshot", "Triggered", "Duration", "Type", "Processes", "In flight", "Size", "Verdict",
        "Restorable until", "Command",
    ]  # fmt: skip
    rows = {row[1].split()[0]: row for row in seen["rows"]}
    assert list(rows) == ["running", "failed", "hundred", "twenty", "one"]
    assert "waits for" in rows["running"][1]
    assert "ttl: not captured within 5000 ms" in rows["failed"][1]
    assert "latest good" in rows["hundred"][1]
    assert [rows[name][5] for name in SIZES] == ["1/1", "20/20", "100/100"]
    assert [seen["details"][name]["points"] for name in SIZES] == [*SIZES.values()]
    for name, processes in SIZES.items():
        wall = seen["details"][name]["wall"]
        assert wall["read"] == processes
        crossing = "such a cut is inconsistent" in " ".join(wall["text"])
        assert (wall["backward"] > 0) is crossing, wall["text"]
    assert seen["details"]["twenty"]["wall"]["backward"] > 0
    if pytestconfig.getoption("--rewrite"):
        for name in ("twenty", "hundred"):
            picture = f"page-{name}.png"
            (ROOT / "docs" / "guide" / picture).write_bytes((tmp_path / "shots" / picture).read_bytes())
    found = seen["gestures"]
    assert (found["hidden"], found["collapsed"], found["points"]) == (1, ["shop-1, 5 processes"], 19)
    assert len(found["filtered"]) == 3
    assert all("order-7" in title for title in found["filtered"])
    assert found["left"] == "hidden here: lines 1, messages 57"
    assert found["traced"] >= 1
    assert "snapkafka trace orders-7 0" in found["chain"]
    assert found["again"] == 0
    assert found["height"][0] == found["height"][1]
    assert "is not drawn" in found["witness"]
    assert " ".join(found["catalog"]) == "around channels in_flight messages positions processes state"
    found = seen["glyphs"]
    assert found["near"] > 50
    assert found["near"] * 0.9 < found["halves"] <= found["near"], "all but those whose ends are close"
    assert found["pointed"] == found["halves"] - 1
    assert found["left"] == found["again"] == found["halves"]
    assert found["fewer"] == [75, 0]
    assert found["rows"] == [20, 100]
    ended = seen["ended"]
    assert "Failed (aborted)" in ended["why"]
    before, after = (re.sub(r"\d[^,]*$", "", text) for text in ended["waits"])
    assert before == after, "it waits for the same, and longer"
    assert ended["drawn"] == "before", "the picture is not drawn again for that"
    assert [(row[0], row[1]) for row in seen["recovery"]] == [
        ("begun", "twenty"),
        ("aborted\na worker joined", "twenty"),
        ("drill-7", "ready"),
        ("try", "ready"),
    ]
    assert seen["recovery"][3][6].endswith("expired")
    assert all(detail["overflow"] <= 0 for detail in seen["details"].values()), seen["details"]
    serious = [found for found in seen["violations"] if found["impact"] in ("serious", "critical")]
    assert not serious, json.dumps(serious, indent=1)
    assert seen["others"] == []
    assert not [line for line in seen["console"] if line.startswith("error")], seen["console"]


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
