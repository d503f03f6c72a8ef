"""`doctor --offline module:app`: what an app is made of, and what of it no snapshot holds. No broker runs here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MODULE = "tests.worlds.coverage"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, from the root of the project: apps are imported once only."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SNAPKAFKA")}
    root, words = Path(__file__).parents[3], [sys.executable, *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment, cwd=root)


def look(app: str, *arguments: str) -> tuple[int, str, str]:
    done = run("-m", "snapkafka", "doctor", "--offline", app, *arguments)
    return done.returncode, done.stdout, done.stderr


def as_json(app: str) -> tuple[int, Any]:
    status, out, err = look(app, "--json")
    assert "an app that talks" in err, "what an app prints is no part of the result"
    return status, json.loads(out)


def test_an_app_that_snapshots_hold_as_a_whole() -> None:
    status, out, _ = look(f"{MODULE}:whole")
    assert status == 0, out
    assert "Snapshots hold all of this app." in out
    for words in ({"app", "whole"}, {"count", "orders"}, {"stock", "Table", "whole-stock-changelog"}):
        assert any(words <= {*line.split()} for line in out.splitlines()), words
    assert "recorder" not in out, "our own agent is no agent of the app"


def test_what_no_snapshot_holds_is_named() -> None:
    status, found = as_json(f"{MODULE}:partly")
    assert status == 30
    said = {advice["code"]: advice["what"] for advice in found["found"]}
    assert set(said) == {"not-captured", "windows", "sets"}
    assert said["not-captured"].startswith("agent in-memory reads an in-memory channel")
    tables = {table["name"]: (table["kind"], table["expires_ms"]) for table in found["tables"]}
    assert tables == {
        "windows": ("Table", 60_000),
        "groups": ("SetTable", 0),
        "for_ever": ("Table", 0),
        "odd": ("Table", 0),
        "odder": ("Table", 0),
        "placed": ("Table", 0),
        "everywhere": ("GlobalTable", 0),
        "sets_everywhere": ("SetGlobalTable", 0),
    }


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("tests.unit.no_such:app", "cannot be imported: ModuleNotFoundError"),
        (f"{MODULE}:no_app", "has no no_app"),
    ],
)
def test_what_is_no_app_is_one_line_and_status_2(app: str, said: str) -> None:
    status, _, err = look(app)
    assert status == 2
    (line,) = [line for line in err.splitlines() if line.startswith("error:")]
    assert said in line
    assert "write module:app" in err


def test_a_worker_reports_the_same_to_the_ledger() -> None:
    """`Hello` names what no snapshot holds, how long windows live, and what reads its tables: nobody needs the app."""
    code = (
        "import asyncio, types\n"
        "from tests.worlds import coverage\n"
        "from snapkafka.drivers.faust.hello import hello_of\n"
        "app = coverage.partly\n"
        "app.finalize()\n"
        "known = types.SimpleNamespace(partitions=1, topic_id='')\n"
        "async def described(topics): return dict.fromkeys(topics, known)\n"
        "driver = app.snapkafka\n"
        "kept = {'cleanup.policy': 'compact', 'min.compaction.lag.ms': '5', 'delete.retention.ms': '7'}\n"
        "async def settings(topic): return kept, {}\n"
        "driver.admin = types.SimpleNamespace(describe_topics=described, topic_settings=settings)\n"
        "hello = asyncio.run(hello_of(driver, ['clicks', 'views']))\n"
        "print([(t.name, t.expires_ms, t.sets, t.windowed) for t in hello.tables], hello.uncaptured)\n"
        "print('not copartitioned:', sorted(t.name for t in hello.tables if not t.copartitioned))\n"
        "print('keyed:', sorted(t.name for t in hello.tables if t.keyed))\n"
        "app.conf.producer_partitioner = lambda key, all, available: 0\n"
        "print('with a partitioner:', [t.name for t in asyncio.run(hello_of(driver, [])).tables if t.keyed])\n"
        "print(sorted({r.topic for r in hello.retention}) == sorted({t.changelog for t in hello.tables}))\n"
        "print({(r.uncompacted_ms, r.tombstones_ms, r.retained_ms) for r in hello.retention})\n"
        "print({t.topic: (t.key_codec, t.value_codec) for t in hello.inputs})\n"
        "print({t.name: (t.key_codec, t.value_codec) for t in hello.tables})\n"
    )
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert (
        "('windows', 60000, False, True), ('groups', 0, True, False), ('for_ever', 0, False, True)"
        in done.stdout
    )
    assert "not copartitioned: ['everywhere', 'placed', 'sets_everywhere']" in done.stdout
    assert "\nkeyed: ['odd', 'odder']\n" in done.stdout
    assert "\nwith a partitioner: []\n" in done.stdout
    assert "True\n{(5, 7, -1)}\n" in done.stdout
    assert "{'clicks': ('raw', 'json'), 'views': ('', 'reversed')}" in done.stdout
    assert "'groups': ('json', 'json')" in done.stdout
    assert "'odd': ('raw', 'json|reversed'), 'odder': ('json', 'foreign')" in done.stdout
    assert "agent in-memory reads an in-memory channel" in done.stdout


@pytest.mark.parametrize(
    ("before", "app", "codes"),
    [
        ("", "bare", ["not-installed", "nothing-to-cut", "transactions"]),
        (
            "from snapkafka.drivers.faust import support; support.KNOWN = {'faust-streaming': ('0.0.1',)}",
            "whole",
            ["faust-not-as-expected"],
        ),
        (
            "from tests.worlds import coverage; coverage.whole.conf.broker = 'confluent://127.0.0.1:1'",
            "whole",
            ["setting-refused"],
        ),
    ],
)
def test_an_app_that_takes_no_part(before: str, app: str, codes: list[str]) -> None:
    code = (
        f"import sys\n{before}\nfrom snapkafka.cli import main\n"
        f"sys.argv = ['snapkafka', 'doctor', '--offline', '{MODULE}:{app}', '--json']\nmain()\n"
    )
    done = run("-c", code)
    assert done.returncode == 30, done.stderr
    found = json.loads(done.stdout[done.stdout.index("{") :])["found"]
    assert [advice["code"] for advice in found] == codes
