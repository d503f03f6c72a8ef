"""Agents that raise with a batch in hand, with snapkafka and without; and processes that read no inputs, or have lost
them, and do not stand in the way of snapshots (R11)."""

from __future__ import annotations

import json

import pytest

from snapkafka.testing import Worker
from tests.driver.live import Live
from tests.observing import Place

from .harness import Pair, Side, is_marker, running
from .judging import Judge, Row

pytestmark = pytest.mark.timeout(300)

ROWS = [Row("take", ("values",), ("values-out",)), Row("take_events", ("events",), ("events-out",))]
NAMES = ["values", "events"]
#: Batches are of five; the agent raises with the last of three in hand.
SENT = 15


@pytest.mark.parametrize(
    "env", [{}, pytest.param({"NO_CYTHON": "1"}, marks=pytest.mark.nightly)], ids=["cython", "python"]
)
def test_raising_in_a_batch(place: Place, env: dict[str, str]) -> None:
    """Faust takes such a batch for done. Until the agent is started anew, what is read is acknowledged and handed to
    nobody: so it is with snapkafka, and in the snapshots. Not one of them waits for what nobody works on."""
    outputs = ["values-out", "events-out", "begun-out"]
    with running(place, "tests.features.apps.failing", inputs=NAMES, outputs=outputs, env=env) as pair:
        for times in range(1, 4):
            send(pair, SENT)
            pair.wait_for({"values-out": times * SENT, "events-out": times * SENT})
            pair.wait_for({"begun-out": 2 * (times + 1)})  # the agents are there again
            assert positions(pair) == {0, times * SENT}
        send(pair, SENT, behind=SENT)
        done = 4 * SENT
        pair.wait_for({"values-out": done, "events-out": done, "begun-out": 2 * 5})
        send(pair, SENT)
        pair.wait_for({"begun-out": 2 * 6})
        ends = 2 * (done + 2 * SENT)
        pair.ours.system.wait_until(
            "all to be committed", lambda: {committed(pair, it) for it in pair.sides} == {ends}, timeout_s=60
        )
        assert positions(pair) == {0, done + 2 * SENT}, "also what was handed to nobody is through"
        pair.end()
        for name in NAMES:
            ours, plain = (handed_over(side, name) for side in pair.sides)
            assert ours[:done] == plain[:done] == [*range(done)]
            assert ours[-SENT:] == plain[-SENT:] == [*range(done + SENT, done + 2 * SENT)]
        judge = Judge(pair)
        for row in ROWS:
            judge.captured(row)
        judge.consistent()
        judge.same_errors()


def send(pair: Pair, count: int, *, behind: int = 0) -> None:
    """So many to each; the agents raise at the last of them. Behind it as many as that, at once."""
    first = len(pair.sent.get("values", ()))
    for name in NAMES:
        numbers = range(first, first + count + behind)
        values = [{"n": n, "key": "k", "raise": n == first + count - 1} for n in numbers]
        pair.send({name: [("k", json.dumps(value).encode(), None) for value in values]}, seconds=0.0)


def positions(pair: Pair) -> set[int]:
    """Of a new snapshot. All records are in one partition."""
    return {cut.position for cut in pair.snapshot().inputs}


def committed(pair: Pair, side: Side) -> int:
    found = pair.observer.call(pair.observer.admin.committed(side.id))
    return sum(position for position, _ in found.values())


def handed_over(side: Side, name: str) -> list[int]:
    return [json.loads(r.value or b"")["n"] for r in side.records[f"{name}-out"] if not is_marker(r)]


CLIENTS = "tests.features.apps.clients"


def answered(client: Worker) -> int:
    return client.log.read_text(errors="replace").count("answered")


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["client", "producer"])
def test_411_a_client_holds_no_snapshot_up(place: Place, kind: str) -> None:
    """`app.start_client()`, as in a web service; and an app that only produces."""
    with Live.running(place, topics=["asked"], tables=()) as run:
        run.start(CLIENTS)
        run.await_workers()
        state = run.observer.state
        env = {"SNAPKAFKA_BOOTSTRAP": place.bootstrap, "SNAPKAFKA_NAMESPACE": place.namespace}
        data = {"SNAPKAFKA_DEMO_DATA": str(place.folder / "client")}
        process = Worker(kind, place.folder / "client.txt", [CLIENTS, kind], run.names | env | data)
        try:
            run.until(f"the {kind} to be answered", lambda: answered(process) > 3)
            assert {view.hello.app for view in state.living()} == {run.app, f"{run.app}:client"}
            for n in range(4):
                before = answered(process)
                view = run.take(f"beside {n}", ttl_ms=4_000)
                assert view.failure is None, view.failure
                (joined,) = [v for v in state.living() if v.hello.pid == process.pid]
                assert joined.process in view.reports, "it has sent"
                run.until("it to go on", lambda: answered(process) > before)  # noqa: B023
            assert len([v for v in state.processes.values() if v.hello.pid == process.pid]) == 1
        finally:
            process.child.kill()
        view = run.take("killed", ttl_ms=2_000)
        assert view.failure is not None, "it may have sent"
        run.until("it to be declared dead", lambda: joined.left is not None)
        view = run.take("and gone", ttl_ms=4_000)
        assert view.failure is None, view.failure
