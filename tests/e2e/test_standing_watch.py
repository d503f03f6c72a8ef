"""`keep --invariants` on a real system: a purse goes below zero and back, and everything that watches reports it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from snapkafka.testing import Broker, RunningSystem, create_topics, wait_until
from tests.features.harness import produce
from tests.observing import observing

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]


@contextmanager
def keeping(command: list[str], folder: Path) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Run a keeper for the length of a block; yield a reader of its rounds. It ends in order by a signal."""
    printed = folder / "rounds.jsonl"
    with printed.open("wb") as out, (folder / "keep.err").open("wb") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        try:
            yield lambda: [
                json.loads(line) for line in printed.read_text().splitlines() if line.endswith("}")
            ]
            assert process.poll() is None, (folder / "keep.err").read_text()[-2000:]
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 143
        finally:
            process.kill()
            process.wait()


def test_a_violation_is_found_by_the_next_round_and_is_over_when_a_snapshot_holds_again(
    kafka: Broker, tmp_path: Path
) -> None:
    namespace = f"t{uuid.uuid4().hex[:8]}"
    app = f"{namespace}-app"
    create_topics(kafka.bootstrap, f"{app}-in", partitions=2)
    system = RunningSystem(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    where = ("--bootstrap", kafka.bootstrap, "--namespace", namespace)
    folder = tmp_path / "invariants"
    folder.mkdir()
    (folder / "never_negative.sql").write_text(
        "SELECT key, value FROM state WHERE table_name = 'purses' AND CAST(value AS DOUBLE) < 0"
    )

    def snapkafka(*arguments: str) -> str:
        command = [sys.executable, "-m", "snapkafka", *arguments, *where]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def history() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(snapkafka("invariants", "never_negative", "--json"))
        (one,) = found["invariants"]
        return dict(one)

    keep = [
        *(sys.executable, "-m", "snapkafka", "keep", "--every", "5s", "--ttl", "20s", "--engine", "embedded"),
        *("--storage", str(tmp_path / "snaps"), "--invariants", str(folder), "--json", *where),
    ]
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            system.start_worker(app, {"COINS_APP_ID": app}, module="tests.e2e.coins_app")
            observer.wait_for_workers(system)
            produce(kafka.bootstrap, f"{app}-in", [("anna", b"5", None), ("ben", b"3", None)])
            with keeping(keep, tmp_path) as rounds:

                def until(outcome: str, amount: bytes) -> dict[str, Any]:
                    """Send ben an amount; return the first round of this outcome."""
                    past = len(rounds())
                    produce(kafka.bootstrap, f"{app}-in", [("ben", amount, None)])
                    wait_until(
                        f"a round that is {outcome}",
                        lambda: any(item["outcome"] == outcome for item in rounds()[past:]),
                        timeout_s=120,
                        system=system,
                    )
                    return next(item for item in rounds()[past:] if item["outcome"] == outcome)

                held = until("verified", b"1")
                assert held["violated"] == []
                broken = until("not good", b"-9")
                listed = snapkafka("invariants")
                again = until("verified", b"6")
            after = history()
    finally:
        system.stop()
    (violated,) = broken["violated"]
    assert (violated["name"], violated["found"]) == ("never_negative", 1)
    assert json.loads(violated["rows"][0]["what"]) == {"key": "ben", "value": "-5"}
    assert "violated" in listed
    (violation,) = after["violations"]
    assert violation["snapshot_id"] == broken["snapshot_id"]
    assert [row["what"] for row in violation["rows"]] == [violated["rows"][0]["what"]]
    outcomes = {item["snapshot_id"]: item["holding"] for item in after["evaluations"]}
    found = [outcomes[item["snapshot_id"]] for item in (held, broken, again)]
    assert found == ["holds", "violated", "holds"]
