"""Run README and the tutorial as they stand: their services, their topics and their commands, on real brokers."""

import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from snapkafka.runtime.child import Child
from snapkafka.testing import Broker, RunningSystem, free_ports, started
from snapkafka.until import blocking_until
from tests.features.harness import read_topics
from tests.kafka.waiting import cluster_id_at

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
#: So many payments lie in the log when the first snapshot is triggered, most of them before the slow bank.
PAYMENTS = 40


def environment(**more: str) -> dict[str, str]:
    """That of a user who has activated the virtual environment."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("SNAPKAFKA_")}
    return env | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"} | more


def shell(script: str, folder: Path, **env: str) -> str:
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder, env=environment(**env), capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, (script, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


def await_payments(system: RunningSystem, topic: str) -> None:
    def paid() -> int:
        return sum(map(len, read_topics(system.bootstrap, topic).values()))

    system.wait_until(f"{PAYMENTS} payments", lambda: paid() >= PAYMENTS, timeout_s=120)


def test_what_readme_shows_is_what_happens(kafka: Broker) -> None:
    """What is owed is what was paid and what is in flight."""
    namespace = f"t{uuid.uuid4().hex[:8]}"
    where = {"SNAPKAFKA_BOOTSTRAP": kafka.bootstrap, "SNAPKAFKA_NAMESPACE": namespace}

    def own(shown: str, *names: str, quote: str = "") -> str:
        """What is shown, with names that nobody else has."""
        for name in names:
            shown = shown.replace(f"{quote}{name}{quote}", f"{quote}{namespace}-{name}{quote}")
        return shown.replace("localhost:9092", kafka.bootstrap)

    (service,) = re.findall(r"```python\n(.+?)```", README, re.DOTALL)
    commands = re.findall(r'^\$ (snapkafka (?:[^"\n]|"(?:\\"|[^"])*")+)', README, re.MULTILINE)
    source = own(service, "shop", "orders", "payments", quote='"')
    (create,) = re.findall(r"^snapkafka topics create .+", README, re.MULTILINE)

    def start(system: RunningSystem) -> None:
        named = source.replace(f'namespace="{namespace}-shop"', f'namespace="{namespace}"')
        (system.folder / "shop.py").write_text(named, encoding="utf-8")
        shell(own(create, "orders", "payments"), system.folder, **where)
        system.start_worker("shop", module="shop")
        system.await_workers()

    with started(kafka.bootstrap, namespace, start) as system:
        await_payments(system, f"{namespace}-payments")
        trigger, query = (own(it, "payments", quote="'") for it in commands)
        assert re.search(r"friday .* VERIFIED$", shell(trigger, system.folder, **where), re.MULTILINE)
        rows = json.loads(shell(query + " --json", system.folder, **where))["rows"]
    found = {what: int(value) for what, value in (row.values() for row in rows)}
    assert found["owed"] == found["paid"] + found["in flight"]
    assert found["in flight"] > 0, "a snapshot without a message in flight shows nothing"


def test_what_the_tutorial_shows_is_what_happens() -> None:
    """What is owed is what was paid and what is in flight; the second snapshot differs from the first."""
    shown = (ROOT / "docs" / "guide" / "tutorial.md").read_text("utf-8")
    fences = [token for token in MarkdownIt().parse(shown) if token.type == "fence"]
    (source,) = (token.content for token in fences if token.info == "python")
    _, broker, (create, worker), *blocks = (
        token.content.splitlines() for token in fences if token.info == "sh"
    )
    assert worker == "faust -A shop worker -l info", "it is started below"
    (port,) = free_ports(1)
    bootstrap = f"localhost:{port}"

    def here(*lines: str) -> str:
        return "\n".join(lines).replace("localhost:9092", bootstrap)

    def start(system: RunningSystem) -> None:
        (system.folder / "shop.py").write_text(here(source), encoding="utf-8")
        assert re.search(r"payments +yes +2", shell(here(create), system.folder))
        system.start_worker("shop", module="shop")
        system.await_workers()

    with Child(["bash", "-c", f"exec {broker[0]} --port {port}"], env=environment()):
        blocking_until(lambda: cluster_id_at(f"127.0.0.1:{port}"), 120, "the broker")
        with started(bootstrap, "tutorial", start) as system:
            await_payments(system, "payments")
            printed = shell(here(*(line for block in blocks for line in block)), system.folder)
    for name in ("first", "second"):
        assert re.search(rf"^snapshot {name} .*VERIFIED$", printed, re.MULTILINE), printed
    (sums,) = re.findall(r"owed\W+paid\W+in_flight\W+(\d+)\W+(\d+)\W+(\d+)", printed)
    owed, paid, in_flight = map(int, sums)
    assert owed == paid + in_flight
    assert in_flight > 0, "a snapshot without a message in flight shows nothing"
    assert re.search(r"shop +owed +0 +1 +0 +0", printed), "one key of the table changed between the two"
