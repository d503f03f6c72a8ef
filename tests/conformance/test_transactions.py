"""Exactly-once loops, which abort some of their transactions: what is aborted is in no snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka.testing import Broker
from tests.conformance.running import running
from tests.conformance.scenarios import TRANSACTIONS
from tests.conformance.test_members import captured, require_conserved

pytestmark = pytest.mark.timeout(400)


@pytest.mark.parametrize(("spender", "keeper"), TRANSACTIONS.cases())
def test_what_a_transaction_aborts_is_in_no_snapshot(
    kafka: Broker, namespace: str, tmp_path: Path, spender: str, keeper: str
) -> None:
    with running(kafka, namespace, tmp_path) as run:
        run.start(spender, "spender")
        run.start(keeper, "keeper")
        run.await_ready()
        for _ in range(3):
            run.await_ticks(200)
            require_conserved(run, captured(run))
