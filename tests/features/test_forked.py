"""A process of a fork can do no harm to production by any client; tests/e2e/test_fork.py runs workers in one."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid

import pytest

from snapkafka.testing import Broker

from .production import fingerprint, set_up

pytestmark = pytest.mark.timeout(400)


def harm(bootstrap: str, prefix: str, fork: str = "") -> dict[str, str]:
    """What came of each attempt."""
    env = os.environ | {"FEATURES_BROKER": bootstrap, "FEATURES_PREFIX": prefix}
    env |= {"SNAPKAFKA_FORK": fork} if fork else {}
    done = subprocess.run(
        [sys.executable, "-m", "tests.features.apps.harmful"],
        env=env, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [line.partition(": ") for line in done.stdout.splitlines()]
    return {name: came for name, _, came in lines}


def test_a_process_of_a_fork_can_do_no_harm_by_any_client(kafka: Broker) -> None:
    prefix = f"p{uuid.uuid4().hex[:8]}-"
    set_up(kafka.bootstrap, prefix)
    before = fingerprint(kafka.bootstrap, prefix)

    tried = harm(kafka.bootstrap, prefix, fork="staging")
    assert {name: came for name, came in tried.items() if not came.startswith("refused: ")} == {}
    after = fingerprint(kafka.bootstrap, prefix)
    assert after == before

    done = harm(kafka.bootstrap, prefix)
    assert done.keys() == tried.keys()
    assert {name: came for name, came in done.items() if came != "done"} == {}, "it is no harm"
    after = fingerprint(kafka.bootstrap, prefix)
    assert {aspect for aspect in after if after[aspect] != before[aspect]} == after.keys()
