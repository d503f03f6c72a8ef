"""Exactly-once loops that are killed at random, beside Faust: whatever was captured is consistent, and no coin is lost.

`CONFORMANCE_CHAOS_S` seconds long; ten minutes in `make prove`.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from snapkafka.errors import SnapshotFailedError
from snapkafka.testing import Broker
from snapkafka.testing.taken import Taken
from tests.conformance.running import money_of, running

CHAOS_S = float(os.environ.get("CONFORMANCE_CHAOS_S", "600"))
#: The members of the spender: two of them with slots of their own, which name their transactions.
SLOTS = ("a", "b")

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(CHAOS_S * 3 + 600)]


def test_what_is_captured_between_kills_is_consistent(kafka: Broker, namespace: str, tmp_path: Path) -> None:
    chance = random.Random(45)
    with running(kafka, namespace, tmp_path) as run:
        members = {
            slot: run.start(kind, "spender", CONFORMANCE_SLOT=slot)
            for slot, kind in zip(SLOTS, ("confluent_tx", "confluent_tx"), strict=True)
        }
        run.start("faust", "keeper", CONFORMANCE_EXACTLY_ONCE="1")
        run.await_ready()
        captured: list[Taken] = []
        failed: list[str] = []
        kills, until = 0, time.monotonic() + CHAOS_S
        while time.monotonic() < until:
            if chance.random() < 0.4:
                slot = chance.choice(SLOTS)
                members[slot].kill()
                members[slot].wait()
                kills += 1
                members[slot] = run.start("confluent_tx", "spender", CONFORMANCE_SLOT=slot)
            try:
                captured.append(run.snapshot(ttl_ms=10_000))
            except SnapshotFailedError as error:
                failed.append(error.message)
        verdicts: dict[str, int] = {}
        for taken in captured:
            found = taken.assert_consistent()
            verdicts[found.verdict] = verdicts.get(found.verdict, 0) + 1
            money = money_of(run, taken)
            assert sum(coins for *_, coins in money) == 0, (taken.id, money)
    print(f"{kills} kills, {len(captured)} captured, {len(failed)} failed by name: {verdicts}")
    print("\n".join(sorted(set(failed))))
    assert kills >= CHAOS_S / 60 and len(captured) >= CHAOS_S / 60, (kills, len(captured), failed)
