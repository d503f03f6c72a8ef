"""The services of each driver, alone and in mixed systems: not a coin is missing, and none is made; the same scenario
accuses a damaged driver."""

from __future__ import annotations

from collections import Counter

import pytest

from snapkafka.testing import Taken
from tests.conformance.running import Running, money_of, running
from tests.conformance.scenarios import MEMBERS, MONEY, TRANSACTIONS
from tests.observing import Place

pytestmark = pytest.mark.timeout(400)

#: What a snapshot lists of events that ran twice.
AGAIN = {"ran-twice", "replayed"}
#: A message has as many at most.
MOST_COINS = 3
NIGHTLY = pytest.mark.nightly


def require_conserved(run: Running, taken: Taken, *, killed: int = 0) -> Counter[str]:
    """Return how many rows hold money, by what they are. `killed`: so many members had a message at most that another
    one has processed again."""
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
    return Counter(f"{what} {name}" for what, name, *_ in money)


@pytest.mark.parametrize(("spender", "keeper"), [*MONEY, *TRANSACTIONS])
def test_money_is_conserved(place: Place, spender: str, keeper: str) -> None:
    """Exactly-once loops abort some of their transactions: what these hold is in no snapshot."""
    rows: Counter[str] = Counter()
    with running(place, spender, keeper) as run:
        for _ in range(3):
            run.await_ticks(200)
            taken = run.captured() if spender.endswith(" tx") else run.system.snapshot()
            rows += require_conserved(run, taken)
            sql = f"SELECT DISTINCT cause_topic FROM around WHERE topic = '{run.names.coins}'"
            assert taken.query(sql) == [{"cause_topic": run.names.ticks}], "it names the event that sent it"
    assert rows["state cash"] and rows["state purses"], rows


@pytest.mark.parametrize(("spender", "keeper"), MEMBERS)
def test_a_member_joins_and_one_is_killed(place: Place, spender: str, keeper: str) -> None:
    """They are at-least-once: the message that a member has when it is killed may be processed again. Its coins are
    then there twice, in the service as in the snapshot, and the snapshot lists that it ran twice. A rebalance alone
    makes none twice."""
    with running(place, spender, keeper) as run:
        require_conserved(run, run.captured())
        second = run.start(keeper, "keeper")
        run.await_ready()
        living = run.observer.state.living()
        assert len([v for v in living if v.inputs and v.hello.app == run.names.app("keeper")]) == 2
        require_conserved(run, run.captured())
        run.system.kill(second)
        require_conserved(run, run.captured(), killed=1)
        run.start(keeper, "keeper")
        run.await_ticks(300)
        require_conserved(run, run.captured(), killed=1)


@pytest.mark.parametrize(
    ("kind", "damage", "accused"),
    [
        ("confluent", "cut-late", ""),
        pytest.param("aiokafka", "cut-late", "", marks=NIGHTLY),
        ("aiokafka", "loses", "V1"),
        pytest.param("confluent", "loses", "V1", marks=NIGHTLY),
    ],
)
def test_a_damaged_driver_is_accused(place: Place, kind: str, damage: str, accused: str) -> None:
    """By a snapshot under load where the keeper is damaged. `accused`: the check that has a witness; empty: any."""
    with running(place, kind, kind, CONFORMANCE_DAMAGE=damage) as run:
        run.await_ticks(200)
        found = run.system.snapshot().assembled
    assert found.verdict == "INCONSISTENT"
    assert [check.name for check in found.checks if check.witnesses and accused in check.name], found.checks
