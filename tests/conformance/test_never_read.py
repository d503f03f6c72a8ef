"""Records that a reader jumps over: each snapshot says which ones it never read, and why."""

from __future__ import annotations

import pytest

from snapkafka import ops
from snapkafka.protocol import TopicPartition
from snapkafka.testing.taken import await_work
from snapkafka.until import blocking_until
from tests.conformance.running import Running, money_of, running
from tests.observing import Place

pytestmark = pytest.mark.timeout(200)


def never_read(run: Running, coins: int) -> set[tuple[int, int, str]]:
    """What a new snapshot says of it, which is the same everywhere. `coins`: of all records that were read."""
    system, app = run.system, run.names.app("keeper")
    taken = system.snapshot(ttl_ms=20_000)
    found = taken.assert_consistent()
    assert found.verdict == "VERIFIED"
    assert sum(coins for *_, coins in money_of(run, taken)) == coins
    items = await_work(ops.show(system.connection, system.namespace, taken.id)).never_read
    assert {(item.app, item.topic) for item in items} <= {(app, run.names.coins)}
    notes = [note for check in found.checks for note in check.notes if note.kind.startswith("never-read")]
    assert [note.offset for note in notes] == [item.start for item in items]
    count = sum(item.end - item.start for item in items)
    assert sum(check.noted for check in found.checks) == count
    assert taken.query("SELECT CAST(SUM(never_read) AS BIGINT) AS sum FROM positions") == [{"sum": count}]
    advice = await_work(ops.doctor(system.connection, system.namespace)).found
    assert ("never-read" in [item.code for item in advice]) == bool(items)
    return {(item.start, item.end, item.reason) for item in items}


@pytest.mark.parametrize("library", ["faust", "aiokafka", "confluent"])
def test_what_was_never_read_is_named(place: Place, library: str) -> None:
    """Of a log that was shortened before its reader came to it, and of a loop that seeks forward."""
    with running(place, one_way=True, ticks=False) as run:
        admin, seeks = run.observer.admin, library != "faust"
        run.system.send(run.names.coins, *(-30 if n == 10 and seeks else 1 for n in range(40)), key="k")
        reader = run.start(library, "keeper")
        run.await_committed("keeper", 40)
        coins = 20 - 30 if seeks else 40
        assert never_read(run, coins) == ({(11, 30, "sought")} if seeks else set())
        run.leave(reader)
        run.system.send(run.names.coins, *([1] * 60), key="k")
        tps = [TopicPartition(run.names.coins, number) for number in range(2)]
        (tp,) = (tp for tp, end in run.observer.call(admin.log_ends(tps)).items() if end)
        run.observer.call(admin.delete_records(tp, 80))
        blocking_until(lambda: not list(run.observer.state.living()), 60, "it to leave")
        run.start(library, "keeper")
        run.await_committed("keeper", 100)
        assert never_read(run, coins + 20) == {(40, 80, "lost")}
