"""Agents that raise with a batch in hand, with snapkafka and without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from snapkafka.testing import Broker, wait_until

from .harness import Pair, Side, is_marker, running
from .judging import Judge, Row

pytestmark = pytest.mark.timeout(300)

ROWS = [
    Row("take", ("values",), ("values-out",)),
    Row("take_events", ("events",), ("events-out",)),
]
NAMES = ["values", "events"]
#: Batches are of five; the agent raises with the last of three in hand.
SENT = 15


@pytest.mark.parametrize(
    "env", [{}, pytest.param({"NO_CYTHON": "1"}, marks=pytest.mark.nightly)], ids=["cython", "python"]
)
def test_what_raises_with_a_batch_in_hand(
    kafka: Broker, namespace: str, tmp_path: Path, env: dict[str, str]
) -> None:
    """Faust takes such a batch for done. Until the agent is started anew, what is read is acknowledged and handed to
    nobody: so it is with snapkafka, and in the snapshots. Not one of them waits for what nobody works on."""
    with running(
        kafka.bootstrap,
        namespace,
        tmp_path,
        "tests.features.apps.failing",
        inputs=NAMES,
        outputs=["values-out", "events-out", "begun-out"],
        env=env,
    ) as pair:
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
        wait_until(
            "all to be committed",
            lambda: all(committed(pair, side) == ends for side in pair.sides),
            timeout_s=60,
            system=pair.ours.system,
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
