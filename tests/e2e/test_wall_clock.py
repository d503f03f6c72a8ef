"""What if every process had been read at one wall-clock time? Asked of a real system, one of whose workers has a clock
that is behind; the snapshot itself minds no clock."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from snapkafka.demo import TOTAL, count_money
from snapkafka.testing import RunningSystem, wait_until
from tests.driver.served import service, trigger
from tests.driver.test_operators import get
from tests.e2e.parts import live
from tests.e2e.test_page import ROOT, WEB

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1700)]

#: Much longer than a message is in flight on a busy machine.
BEHIND_S: Final = 300
#: Requests a second: few, so that none waits long.
RATE: Final = 20
#: Python imports it when it starts. aiokafka's extensions read the clock by themselves.
SITE: Final = f"""
import time
true_time = time.time
time.time = lambda: true_time() - {BEHIND_S}
"""


def first_clearing_is_behind(folder: Path) -> Callable[[str, int], Mapping[str, str]]:
    (folder / "sitecustomize.py").write_text(SITE, "utf-8")
    behind = {
        "PYTHONPATH": os.pathsep.join([str(folder), *(part for part in sys.path if part)]),
        "AIOKAFKA_NO_EXTENSIONS": "1",
    }
    return lambda app, number: behind if (app, number) == ("clearing", 0) else {}


def test_a_cut_at_one_wall_clock_time_is_inconsistent_where_the_snapshot_is_not(
    namespace: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Messages are received and not sent, and money is in two states at once: by the command, by REST, on the page."""
    (site := tmp_path / "site").mkdir()
    (storage := tmp_path / "snaps").mkdir()
    with live(namespace, env=first_clearing_is_behind(site), rate=RATE) as system:
        rested = RunningSystem(bootstrap=system.bootstrap, namespace=namespace, folder=tmp_path)
        with service(rested, storage) as (url, _):
            trigger(url, storage, "friday", ttl_ms=60_000)
            wait_until(
                "the capture", lambda: get(f"{url}/v1/snapshots/friday")["status"] == "CAPTURED", timeout_s=90
            )
            seen = system.load.asked + 5 * RATE  # what is received after the cut is read, too
            wait_until("the load to go on", lambda: system.load.asked > seen, timeout_s=120)
            system.rest()
            assembled(url)
            wall = drawn_by_command(storage)
            on_the_page(url, tmp_path / "shots", wall)
            asked = urllib.parse.urlencode({"wall_clock": "true"})
            by_rest = text(f"{url}/v1/snapshots/friday/diagram.svg?{asked}")
    assert by_rest == (storage / "wall-clock.svg").read_text("utf-8")
    if pytestconfig.getoption("--rewrite"):
        picture = re.sub(r" on [^ ]+, pid [0-9]+", " on box, pid 0", by_rest)
        (ROOT / "docs" / "guide" / "wall-clock-run.svg").write_text(picture, "utf-8")


def assembled(url: str) -> None:
    """By REST; VERIFIED, with all the money."""
    job, reported = submit(url)["job_id"], {"state": ""}

    def over() -> bool:
        reported.update(get(f"{url}/v1/jobs/{job}"))
        return reported["state"] not in ("queued", "running")

    wait_until("the job to end", over, timeout_s=1200, period_s=0.5)
    left_open = get(f"{url}/v1/snapshots/friday")["left_open"]
    assert (reported["state"], reported["verdict"], left_open) == ("done", "VERIFIED", [])


def drawn_by_command(storage: Path) -> dict[str, Any]:
    """Its counts are at least those of the records that have both times."""
    output = storage / "wall-clock.svg"

    def draw(*more: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "snapkafka", "draw", "friday", "--storage", str(storage), "--json"]
        done = subprocess.run([*command, "-o", str(output), *more], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)["wall_clock"]
        return found

    wall = draw("--wall-clock")
    with duckdb.connect() as database:
        (certain,) = database.execute(
            "SELECT count(*) FROM read_parquet(?) WHERE sender IS NOT NULL AND sent_ms > ? AND received_ms <= ?",
            [str(storage / "friday" / "*" / "around" / "*.parquet"), wall["at_ms"], wall["at_ms"]],
        ).fetchall()[0]
    assert certain >= 1, wall  # else no cut was seen that is inconsistent
    assert wall["backward"] >= certain, (wall, certain)
    assert count_money(storage / "friday.json").total == TOTAL
    own = output.read_text("utf-8")
    assert re.search(r"[0-9,]+ messages? received and not sent", own)
    assert 'class="message backward"' in own
    plain = [sys.executable, "-m", "snapkafka", "draw", "friday", "--storage", str(storage)]
    subprocess.run([*plain, "-o", str(storage / "cut.svg")], check=True, capture_output=True)
    assert 'class="message backward"' not in (storage / "cut.svg").read_text("utf-8")
    return wall


def on_the_page(url: str, shots: Path, wall: dict[str, Any]) -> None:
    """In a real Chromium: messages that cross the cut backward."""
    command = [str(WEB / "python"), "-m", "tests.e2e.use_page", "draws", url, str(shots)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    (row,) = seen["rows"]
    assert (row[0], row[1].split()[0], row[5], row[8]) == ("COMPLETED", "friday", "4/4", "VERIFIED")
    points, read, backward = seen["friday"]
    assert points == read == 4
    assert 1 <= backward <= wall["backward"]
    assert (seen["serious"], seen["errors"]) == ([], [])


def text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        found: str = answer.read().decode()
        return found


def submit(url: str) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"{url}/v1/snapshots/friday/assemble", data=b"{}", headers=headers)
    with urllib.request.urlopen(asked, timeout=20) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found
