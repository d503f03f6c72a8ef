"""`snapkafka keep` on a real system under load: killed and run again, prunes what it may."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from snapkafka import ops
from snapkafka.testing import wait_until
from tests.e2e.parts import live

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


def test_a_round_that_was_killed_is_finished_by_the_next_and_repeated_by_none(
    namespace: str, tmp_path: Path
) -> None:
    """The round of a moment: killed once its Spark job runs; run to its end; and run again, which does nothing.
    Then an incremental one, whose parent stays; then a full one, for which both go."""
    with live(namespace) as system:

        def command(every: str, *options: str) -> list[str]:
            return [
                *(sys.executable, "-m", "snapkafka", "keep", "--once", "--every", every, "--keep-last", "1"),
                *("--storage", str(tmp_path), "--json", "--ttl", "20s", *options),
                *("--bootstrap", system.bootstrap, "--namespace", namespace),
            ]

        def kept(every: str, *options: str) -> ops.KeptRound:
            done = subprocess.run(command(every, *options), capture_output=True, text=True, timeout=900)
            assert done.returncode == 0, done.stderr[-3000:]
            return msgspec.json.decode(done.stdout.splitlines()[-1], type=ops.KeptRound)

        jobs: list[psutil.Process] = []
        killed = subprocess.Popen(command("1d"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(
                "the Spark job of the round",
                lambda: bool(psutil.Process(killed.pid).children(recursive=True)),
                timeout_s=120,
                system=system.system,
            )
            jobs = psutil.Process(killed.pid).children(recursive=True)
        finally:
            os.kill(killed.pid, signal.SIGKILL)
            killed.wait()
        wait_until("its Spark job to end", lambda: not any(job.is_running() for job in jobs), timeout_s=15)
        (view,) = system.observer.state.snapshots.values()
        assert view.failure is None, view.failure
        assert view.verdict is None
        assert not list(tmp_path.glob("keep-*.json"))

        first = kept("1d")
        assert (first.id, first.outcome, first.type) == (view.trigger.id, "verified", "full")
        assert Path(first.manifest).exists()
        assert kept("1d") == first
        assert len(system.observer.state.snapshots) == 1

        # moments of a few seconds, so that each round is at another one
        child = kept("7s", "--incremental")
        assert (child.type, child.removed) == ("incremental", ())
        stored = {path.stem for path in tmp_path.glob("keep-*.json")}
        assert stored == {first.id, child.id}, "the newest stays, and the full one that it builds on"
        newest = kept("11s")
        assert newest.type == "full"
        assert set(newest.removed) == stored
        assert {path.stem for path in tmp_path.glob("keep-*.json")} == {newest.id}
