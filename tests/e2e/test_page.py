"""What people do with the page, in a real Chromium, and the document of the REST interface against the service.

Beside the browser they need `make .venv/web/.ready`: Playwright, axe and schemathesis have an environment of their own.
"""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import encode

from snapkafka import ops
from snapkafka.checks import CHECKS
from snapkafka.protocol.records import Trigger
from snapkafka.service import document as made
from tests.worlds.fakes import FakeCluster
from tests.worlds.page_world import SIZES, assembling, serving, small_system, system

ROOT = Path(__file__).parents[2]
WEB = ROOT / ".venv" / "web" / "bin"

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


def use(part: str, cluster: FakeCluster, folder: Path, facts: object, **more: Any) -> None:
    """Serve the system, and run a part of `use_page.py`; nothing goes wrong on the console of the browser."""
    with serving(cluster, str(folder / "snaps"), **more) as url:
        command = [WEB / "python", "-m", "tests.e2e.use_page", part, url, folder / "shots", json.dumps(facts)]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=500, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]


async def test_links_checks_charts_and_buttons(tmp_path: Path) -> None:
    folder = tmp_path / "snaps"
    cluster = small_system(folder)
    found = (await ops.doctor(cluster, "shop")).found
    cluster.the_admin.delay_s = 1.0  # an answer comes later than that of the ledger
    facts = {
        "storage": str(folder),
        "doctor": [f"{it.weight}: {it.what}" for it in found],
        "checks": [f"{kind} {title}\n{says}" for kind, (title, says) in [*CHECKS.items()][:5]],
    }
    await asyncio.to_thread(use, "small", cluster, tmp_path, facts, assemble=assembling(cluster, folder))
    records = [entry.record for entry in cluster.the_ledger.entries]
    (taken,) = [it for it in records if isinstance(it, Trigger) and it.who == "the page"]
    assert (taken.type, taken.storage) == ("full", str(folder))


def test_diagrams_of_up_to_a_hundred_processes(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    use("large", system(tmp_path / "snaps"), tmp_path, {"sizes": SIZES})
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
