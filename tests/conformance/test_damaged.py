"""The suite tells a damaged driver from a sound one: the same scenario accuses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka.testing import Broker
from tests.conformance.running import Running, running

pytestmark = pytest.mark.timeout(300)


def verdict_of(run: Running, kind: str, damage: str) -> tuple[str, list[str]]:
    """The verdict on a snapshot under load where the keeper is damaged, and the checks that accuse it."""
    run.start(kind, "spender")
    run.start(kind, "keeper", CONFORMANCE_DAMAGE=damage)
    run.await_ready()
    run.await_ticks(200)
    found = run.snapshot().assembled
    return str(found.verdict), [check.name for check in found.checks if check.witnesses]


@pytest.mark.parametrize("kind", ["confluent", pytest.param("aiokafka", marks=pytest.mark.nightly)])
def test_a_driver_that_cuts_late_is_accused(kafka: Broker, namespace: str, tmp_path: Path, kind: str) -> None:
    with running(kafka, namespace, tmp_path) as run:
        verdict, accused = verdict_of(run, kind, "cut-late")
    assert verdict == "INCONSISTENT"
    assert accused, "some check has a witness"


@pytest.mark.parametrize("kind", [pytest.param("confluent", marks=pytest.mark.nightly), "aiokafka"])
def test_a_driver_that_loses_what_it_counts_is_accused(
    kafka: Broker, namespace: str, tmp_path: Path, kind: str
) -> None:
    with running(kafka, namespace, tmp_path) as run:
        verdict, accused = verdict_of(run, kind, "loses")
    assert verdict == "INCONSISTENT"
    assert "V1" in accused, accused
