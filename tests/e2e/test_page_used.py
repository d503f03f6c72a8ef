"""What people do with the page, in a real Chromium: links, a desk and a phone, buttons, charts, zones of time.

Beside the browser they need `make .venv/web/.ready`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.checks import CHECKS
from snapkafka.manifest_entries import CheckEntry, WitnessEntry
from snapkafka.protocol import Trigger
from snapkafka.service import Tokens
from tests.worlds.fakes import FakeCluster
from tests.worlds.page_world import assembling, serving, small_system

ROOT = Path(__file__).parents[2]
WEB = ROOT / ".venv" / "web" / "bin"
TOKENS = {"read": "r" * 16, "trigger": "t" * 16, "admin": "a" * 16}

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]


def used(part: str, cluster: FakeCluster, folder: Path, token: str = "", **more: Any) -> dict[str, Any]:
    """Serve the system, and run a part of `use_page.py`; nothing goes wrong on the console of the browser."""
    with serving(cluster, str(folder / "snaps"), **more) as url:
        command = [WEB / "python", "-m", "tests.e2e.use_page", part, url, folder / "shots", token]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=500, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    seen: dict[str, Any] = json.loads(done.stdout)
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


def test_a_desk_and_a_phone_show_all_and_the_verdict_first(tmp_path: Path) -> None:
    seen = used("widths", small_system(tmp_path / "snaps"), tmp_path)
    for place in ("desk list", "phone list", "desk snapshot", "phone snapshot"):
        assert all(wider <= 0 for wider in seen[place]["overflow"]), (place, seen[place])
        assert seen[place]["seen"], place
        assert seen[place]["verdict"] in ("VERIFIED", "INCONSISTENT")
    assert not [found for found in seen["violations"] if found["impact"] in ("serious", "critical")]
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
    assert seen["outcomes"] == ["VERIFIED 2", "CAPTURING 1", "CAPTURED 1", "INCONSISTENT 1"]
    summary, findings = seen["doctor"]
    assert summary.startswith("Doctor: ")
    assert [line.split("\n")[0] for line in findings] == [f"{it.weight}: {it.what}" for it in expected.found]
    assert findings
    assert seen["errors"] == []


@pytest.mark.parametrize(("role", "may"), [("read", (0, 0, 0)), ("trigger", (1, 1, 0)), ("admin", (1, 1, 1))])
def test_a_role_has_the_buttons_of_its_rights(tmp_path: Path, role: str, may: tuple[int, int, int]) -> None:
    tokens = Tokens.parse("\n".join(f"{name}:{token}" for name, token in TOKENS.items()), "a test")
    seen = used("rights", small_system(tmp_path / "snaps"), tmp_path, TOKENS[role], tokens=tokens)
    assert (int(seen["take"]), seen["Assemble and verify"], seen["Abort"]) == may
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


def test_invariants_and_the_rows_that_violate_one_are_on_the_page(tmp_path: Path) -> None:
    passed = CheckEntry(name="V1", run=True, status="passed")
    holds = CheckEntry(name="V6 money", run=True, status="passed")
    rows = tuple(
        WitnessEntry(topic="orders", partition=0, offset=row, what=f'{{"row":{row}}}') for row in range(3)
    )
    violated = CheckEntry(name="V6 money", run=True, status="failed", found=7, witnesses=rows)
    stock = CheckEntry(name="V6 stock", run=True, status="passed")
    later = dataclasses.replace(violated, found=1, witnesses=rows[:1])
    cluster = small_system(
        tmp_path / "snaps",
        held=[passed, holds],
        broke=[passed, violated, stock],
        still=[passed, later, stock],
    )
    seen = used("standing", cluster, tmp_path)
    (money, held), (stocks, also) = ((cells[:3], cells[3:]) for cells in seen["rows"])
    assert (money, stocks) == (["money", "violated", "1"], ["stock", "holds", "0"])
    assert [link.split()[0] for link in held] == ["held", "broke"]
    assert [also[0].split()[0], also[1]] == ["still", ""]  # by the checks beside the one that failed
    assert seen["headings"] == ["Broke first in broke", "Violated last in still"]
    assert seen["violations"] == [
        *(f'orders[0] offset {row}: {{"row":{row}}}' for row in range(3)),
        "4 more",
        'orders[0] offset 0: {"row":0}',
    ]
    assert seen["opened"].startswith("broke INCONSISTENT")
    assert seen["check"].split("\n")[0] == "V6 invariant stock"
    assert not [found for found in seen["axe"] if found["impact"] in ("serious", "critical")]
    assert seen["errors"] == []


def test_times_are_local_or_in_utc(tmp_path: Path) -> None:
    seen = used("zones", small_system(tmp_path / "snaps"), tmp_path)
    local, utc = (
        datetime.strptime(seen[zone].removesuffix(" UTC"), "%d %b %Y, %H:%M:%S") for zone in ("local", "utc")
    )
    assert local - utc == timedelta(hours=5, minutes=30)
    assert seen["errors"] == []
