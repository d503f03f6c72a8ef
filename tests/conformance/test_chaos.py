"""Exactly-once loops that are killed at random, beside Faust: whatever was captured is consistent, and no coin is lost.

`CONFORMANCE_CHAOS_S` seconds long; ten minutes in `make prove`.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter

import pytest

from snapkafka.errors import SnapshotFailedError, TriggerRefusedError
from snapkafka.testing import Taken, Worker
from snapkafka.until import blocking_until
from tests.conformance.running import money_of, running
from tests.observing import Place

CHAOS_S = float(os.environ.get("CONFORMANCE_CHAOS_S", "600"))
#: The members of the spender: two of them with slots of their own, which name their transactions.
SLOTS = ("a", "b")

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(CHAOS_S * 3 + 600)]


def test_what_is_captured_between_kills_is_consistent(place: Place) -> None:
    """Members of both kinds are killed; a third spender joins, and leaves in order, so inputs move. Faust reports once
    its transaction of three seconds ends, and an abort meanwhile fails the snapshot: so loops abort few of theirs."""
    chance, faults = random.Random(45), Counter[str]()
    with running(place) as run:

        def start(who: str) -> Worker:
            if who == "keeper":
                return run.start("faust", "keeper", CONFORMANCE_EXACTLY_ONCE="1")
            return run.start("confluent tx", "spender", CONFORMANCE_SLOT=who, CONFORMANCE_ABORTS="400")

        members = {who: start(who) for who in (*SLOTS, "keeper")}
        run.await_ready()
        pids = lambda: {it.hello.pid for it in [*run.observer.state.processes.values()]}  # noqa: E731
        captured, failed = list[Taken](), list[str]()

        def take() -> None:
            try:
                captured.append(run.system.snapshot(ttl_ms=10_000))
            except (SnapshotFailedError, TriggerRefusedError) as error:  # nobody has an input yet
                failed.append(error.message)

        until = time.monotonic() + CHAOS_S
        while time.monotonic() < until:
            draw = chance.random()
            if draw < 0.4:
                who = chance.choice(sorted(members))
                run.system.kill(members[who])
                faults[f"{'faust' if who == 'keeper' else 'plain'} killed"] += 1
                members[who] = start(who)
            elif draw < 0.6:
                joined = start("c")
                blocking_until(lambda pid=joined.pid: pid in pids(), 60, "c")  # type: ignore[misc]
                take()
                run.leave(joined)
                faults.update(["plain joined", "plain left"])
            take()
        verdicts: Counter[str] = Counter()
        for taken in captured:
            verdicts[taken.assert_consistent().verdict] += 1
            money = money_of(run, taken)
            assert sum(coins for *_, coins in money) == 0, (taken.id, money)
    print(f"{dict(faults)}, {len(captured)} captured, {len(failed)} failed by name: {dict(verdicts)}")
    print("\n".join(sorted(set(failed))))
    assert CHAOS_S < 600 or faults["faust killed"], faults
    assert min(faults.values()) >= CHAOS_S / 300, faults
    assert len(captured) >= CHAOS_S / 60, failed
    assert verdicts.keys() <= {"VERIFIED"}, verdicts
