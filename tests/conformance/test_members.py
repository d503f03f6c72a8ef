"""Loops whose inputs move: a second member joins, one is killed; not a coin is missing, and none is made.

They are at-least-once: the message that a member has when it is killed may be processed again. Its coins are then there
twice, in the service as in the snapshot, and the snapshot lists that it ran twice. A rebalance alone makes none twice.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka.errors import SnapshotFailedError
from snapkafka.testing import Broker, Taken
from snapkafka.until import blocking_until
from tests.conformance.running import Running, money_of, running
from tests.conformance.scenarios import MEMBERS, TRANSACTIONS

pytestmark = pytest.mark.timeout(400)


#: What a snapshot lists of events that ran twice.
AGAIN = {"ran-twice", "replayed"}
#: A message has as many at most.
MOST_COINS = 3


def require_conserved(run: Running, taken: Taken, *, killed: int = 0) -> None:
    """`killed`: so many members had a message at most that another one has processed again."""
    found = taken.assert_consistent()
    notes = [note for check in found.checks for note in check.notes]
    assert not [note for note in notes if note.kind.startswith("never-read")], "each record is read"
    again = [note.what for note in notes if note.kind in AGAIN]
    money = money_of(run, taken)
    made = sum(coins for *_, coins in money)
    if found.verdict == "VERIFIED_WITH_REPLAYS" or again:
        assert 0 <= made <= killed * MOST_COINS, (found.verdict, again, money)
        assert killed, (found.verdict, again)
    else:
        assert (found.verdict, made) == ("VERIFIED", 0), money


def captured(run: Running, *, align: bool = False) -> Taken:
    """The first snapshot that is captured: one that waits for a killed process, or for a transaction that is aborted,
    fails by name, and the next does not."""

    def take() -> Taken | None:
        try:
            return run.snapshot(ttl_ms=40_000 if align else 8_000, align=align)
        except SnapshotFailedError:
            return None

    taken: Taken = blocking_until(take, 120, "a snapshot to be captured")
    return taken


@pytest.mark.parametrize(("spender", "keeper"), MEMBERS.cases())
def test_a_member_joins_and_one_is_killed(
    kafka: Broker, namespace: str, tmp_path: Path, spender: str, keeper: str
) -> None:
    with running(kafka, namespace, tmp_path) as run:
        run.start(spender, "spender")
        run.start(keeper, "keeper")
        run.await_ready()
        require_conserved(run, captured(run))
        second = run.start(keeper, "keeper")
        run.await_ready()
        owners = {
            view.process
            for view in run.observer.state.living()
            if view.inputs and view.hello.app.endswith("keeper")
        }
        assert len(owners) == 2
        require_conserved(run, captured(run))
        second.kill()
        second.wait()
        require_conserved(run, captured(run), killed=1)
        run.start(keeper, "keeper")
        run.await_ticks(300)
        require_conserved(run, captured(run), killed=1)


@pytest.mark.parametrize(("spender", "keeper"), TRANSACTIONS.cases())
def test_what_a_transaction_aborts_is_in_no_snapshot(
    kafka: Broker, namespace: str, tmp_path: Path, spender: str, keeper: str
) -> None:
    """Exactly-once loops, which abort some of their transactions."""
    with running(kafka, namespace, tmp_path) as run:
        run.start(spender, "spender")
        run.start(keeper, "keeper")
        run.await_ready()
        for _ in range(3):
            run.await_ticks(200)
            require_conserved(run, captured(run))
