"""Run README and the tutorial as they stand: their services, their topics and their commands, on real brokers."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from snapkafka.runtime.child import Child
from snapkafka.testing import RunningSystem, free_ports, started
from snapkafka.until import blocking_until
from tests.features.harness import read_topics
from tests.kafka.waiting import cluster_id_at

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
#: So many payments lie in the log when the first snapshot is triggered, most of them before the slow bank.
PAYMENTS = 40
#: That of a user who has activated the virtual environment.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("SNAPKAFKA_")}
ENVIRONMENT["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def shell(script: str, system: RunningSystem) -> str:
    done = subprocess.run(
        ["bash", "-e", "-c", script.replace("localhost:9092", system.bootstrap)],
        cwd=system.folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, (script, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


@contextlib.contextmanager
def shop(namespace: str, source: str, create: str) -> Iterator[RunningSystem]:
    """The service, which has taken some payments, on a broker as `snapkafka broker` starts it."""
    (port,) = free_ports(1)

    def start(system: RunningSystem) -> None:
        (system.folder / "shop.py").write_text(source.replace("localhost:9092", system.bootstrap), "utf-8")
        assert re.search(r"payments +yes +2", shell(create, system))
        system.start_worker("shop", module="shop")
        system.await_workers()

    def paid() -> bool:
        return sum(map(len, read_topics(system.bootstrap, "payments").values())) >= PAYMENTS

    with Child(["bash", "-c", f"exec snapkafka broker --port {port}"], env=ENVIRONMENT) as broker:
        blocking_until(lambda: cluster_id_at(f"127.0.0.1:{port}"), 120, "the broker")
        with started(f"localhost:{port}", namespace, start) as system:
            system.wait_until(f"{PAYMENTS} payments", paid, timeout_s=120)
            yield system
        broker.send(signal.SIGTERM)  # Ctrl-C may be ignored here: who runs this in the background has it so
        assert broker.wait(60) == 128 + signal.SIGTERM


def require_balance(owed: str, paid: str, in_flight: str) -> None:
    """What is owed is what was paid and what is in flight."""
    assert int(owed) == int(paid) + int(in_flight)
    assert int(in_flight) > 0, "a snapshot without a message in flight shows nothing"


def test_what_readme_shows_is_what_happens() -> None:
    shown = (ROOT / "README.md").read_text("utf-8")
    (service,) = re.findall(r"```python\n(.+?)```", shown, re.DOTALL)
    (create,) = re.findall(r"^snapkafka topics create .+", shown, re.MULTILINE)
    commands = re.findall(r'^\$ ((?:export|snapkafka) (?:[^"\n]|"(?:\\"|[^"])*")+)', shown, re.MULTILINE)
    where, trigger, query = commands
    with shop("shop", service, create) as system:
        assert re.search(r"friday .* VERIFIED$", shell(f"{where}\n{trigger}", system), re.MULTILINE)
        rows = json.loads(shell(f"{where}\n{query} --json", system))["rows"]
    found = dict(row.values() for row in rows)
    require_balance(found["owed"], found["paid"], found["in flight"])


def test_what_the_tutorial_shows_is_what_happens() -> None:
    """The second snapshot differs from the first."""
    shown = (ROOT / "docs" / "guide" / "tutorial.md").read_text("utf-8")
    fences = [token for token in MarkdownIt().parse(shown) if token.type == "fence"]
    (source,) = (token.content for token in fences if token.info == "python")
    _, (broker,), (create, worker), *blocks = (it.content.splitlines() for it in fences if it.info == "sh")
    assert (broker, worker) == ("snapkafka broker", "faust -A shop worker -l info"), "as `shop` starts them"
    with shop("tutorial", source, create) as system:
        printed = shell("\n".join(line for block in blocks for line in block), system)
    for name in ("first", "second"):
        assert re.search(rf"^snapshot {name} .*VERIFIED$", printed, re.MULTILINE), printed
    (sums,) = re.findall(r"owed\W+paid\W+in_flight\W+(\d+)\W+(\d+)\W+(\d+)", printed)
    require_balance(*sums)
    assert re.search(r"shop +owed +0 +1 +0 +0", printed), "one key of the table changed between the two"
